package gen

import (
	"bytes"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"go/types"

	"golang.org/x/tools/go/ast/astutil"
)

// scopeNames are the names by which a generated method calls what an expression refers to.
type scopeNames struct {
	pkg    *types.Package
	params map[*types.Var]string
	// qualifier returns the name by which the file imports a package.
	qualifier  func(*types.Package) string
	typeParams map[*types.TypeParam]string
}

// outside returns the names from outside the method that the expression refers to, as a generated file calls them.
func (e *expression) outside(n *scopeNames) []string {
	var list []string
	e.rename(n, func(name string, param bool) {
		if !param {
			list = append(list, name)
		}
	})
	return list
}

// rename calls see with the new name of every identifier that is looked up in a scope, and returns by its
// place what is to stand there instead.
func (e *expression) rename(n *scopeNames, see func(name string, param bool)) map[token.Pos]ast.Expr {
	replaced := map[token.Pos]ast.Expr{}
	for _, id := range e.looked() {
		obj := e.info.Uses[id]
		name, param := id.Name, false
		switch obj := obj.(type) {
		case *types.PkgName:
			name = n.qualifier(obj.Imported())
		case *types.Var:
			if v := e.params[obj]; v != nil {
				name, param = n.params[v], true
			}
		case *types.TypeName:
			if t, ok := types.Unalias(obj.Type()).(*types.TypeParam); ok && n.typeParams[t] != "" {
				name = n.typeParams[t]
			}
		}
		if pkg := obj.Pkg(); pkg != nil && pkg.Path() != n.pkg.Path() && obj.Parent() == pkg.Scope() { // dot-imported
			name = n.qualifier(pkg)
			replaced[id.Pos()] = &ast.SelectorExpr{X: ast.NewIdent(name), Sel: ast.NewIdent(id.Name)}
		} else if name != id.Name {
			replaced[id.Pos()] = ast.NewIdent(name)
		}
		see(name, param)
	}
	return replaced
}

// looked returns the identifiers that are looked up in a scope, in their order: all but those behind a dot and the
// fields of composite literals.
func (e *expression) looked() []*ast.Ident {
	var list []*ast.Ident
	selected := map[*ast.Ident]bool{}
	ast.Inspect(e.expr, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			selected[n.Sel] = true
		case *ast.Ident:
			obj := e.info.Uses[n]
			if v, ok := obj.(*types.Var); obj == nil || selected[n] || ok && v.IsField() {
				return true
			}
			list = append(list, n)
		}
		return true
	})
	return list
}

// source returns the expression as it stands in a generated method.
func (e *expression) source(n *scopeNames) string {
	replaced := e.rename(n, func(string, bool) {})
	fset := token.NewFileSet()
	expr, err := parser.ParseExprFrom(fset, "", e.text, 0) // a copy with the same places
	if err != nil {
		return ""
	}
	copied := astutil.Apply(expr, func(c *astutil.Cursor) bool {
		if id, ok := c.Node().(*ast.Ident); ok && replaced[id.Pos()] != nil {
			c.Replace(replaced[id.Pos()])
			return false
		}
		return true
	}, nil)
	var buf bytes.Buffer
	if err := format.Node(&buf, fset, copied); err != nil {
		return ""
	}
	return buf.String()
}
