package gen

import (
	"errors"
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/scanner"
	"go/token"
	"go/types"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/rlgen/rlgen/rules"
)

// expression is the value of by, cost or when, with types.
type expression struct {
	expr ast.Expr
	info *types.Info
	typ  types.Type
	text string
	// params are the method's parameters by what stands for them in the expression's scope.
	params map[types.Object]*types.Var
}

// checkExpressions types the expressions of a limit and reports what is wrong with them.
func (m *method) checkExpressions(l *limit) {
	if l.By != "" {
		if l.by = m.expression(l, "by", l.By); l.by != nil {
			m.checkBy(l)
		}
	}
	if l.Cost != "" {
		if l.cost = m.expression(l, "cost", l.Cost); l.cost != nil {
			m.checkCost(l)
		}
	}
	if l.When != "" {
		if l.when = m.expression(l, "when", l.When); l.when != nil {
			m.checkWhen(l)
		}
	}
}

// checkWhen reports a condition that is no bool, or always the same. A condition with a declared
// constant may differ in other builds.
func (m *method) checkWhen(l *limit) {
	value := l.when.info.Types[l.when.expr].Value
	for _, obj := range l.when.info.Uses {
		if c, ok := obj.(*types.Const); ok && c.Pkg() != nil {
			value = nil
		}
	}
	switch {
	case !isKind(l.when.typ, types.IsBoolean):
		m.refuse(l, "when", "when=%s has type %s, want a bool%s", l.When, m.typeString(l.when.typ), hintWhen(l.when.typ, l.When))
	case value != nil && constant.BoolVal(value):
		m.refuse(l, "when", "when=%s is true for every call, want a condition; delete the option", l.When)
	case value != nil:
		m.refuse(l, "when", "when=%s is false for every call, so the limit never applies, want a condition; delete the limit", l.When)
	}
}

// refuse reports what is wrong with an option's value.
func (m *method) refuse(l *limit, option, format string, args ...any) {
	u := m.service.unit
	where := ""
	if m.shared(l) {
		where = " (on " + m.fn.Name() + ")"
	}
	u.errorf(l.line.column(option), "%s", fmt.Sprintf(format, args...)+where)
}

// shared reports whether the limit is that of the type, so that what is said of it must name the method.
func (m *method) shared(l *limit) bool {
	s := m.service
	if m.from != nil {
		s = m.from
	}
	return slices.Contains(s.lines, l.line)
}

func (m *method) typeString(t types.Type) string {
	return types.TypeString(t, types.RelativeTo(m.service.unit.types))
}

// expression parses and types one expression where the method's parameters are in scope; nil if it has an error,
// which is reported.
func (m *method) expression(l *limit, option, text string) *expression {
	u := m.service.unit
	fset := token.NewFileSet()
	expr, err := parser.ParseExprFrom(fset, "", text, 0)
	if err != nil {
		var list scanner.ErrorList
		if errors.As(err, &list) {
			u.errorf(l.line.at(option, list[0].Pos.Offset), "%s=%s: %s, want a Go expression", option, text, list[0].Msg)
		}
		return nil
	}
	if what, pos := sideEffect(expr); what != "" {
		u.errorf(l.line.at(option, fset.Position(pos).Offset), "%s=%s has %s, want an expression without, since it is computed for every call; put it into a function, and call that", option, text, what)
		return nil
	}
	e := &expression{expr: expr, text: text, info: &types.Info{
		Types: map[ast.Expr]types.TypeAndValue{},
		Uses:  map[*ast.Ident]types.Object{},
	}}
	pos := m.openScope(l.line.src, e)
	if err := types.CheckExpr(fset, u.types, pos, expr, e.info); err != nil {
		m.typeError(l, option, fset, e, err)
		return nil
	}
	tv := e.info.Types[expr]
	if what, at := e.writes(); what != "" {
		u.errorf(l.line.at(option, fset.Position(at).Offset), "%s=%s calls %s, which changes more than the call's own, want an expression without; put it into a function, and call that", option, text, what)
		return nil
	}
	if tv.IsBuiltin() {
		m.refuse(l, option, "%s=%s is no value until it is called, want an expression over the parameters of %s, such as %s", option, text, m.fn.Name(), m.example())
		return nil
	}
	if invalid(tv.Type) || e.usesInvalid() {
		if u.invalid == nil {
			u.invalid = m
		}
		return nil // what makes it so is reported
	}
	if !tv.IsValue() {
		m.refuse(l, option, "%s=%s is not a value, want an expression over the parameters of %s, such as %s", option, text, m.fn.Name(), m.example())
		return nil
	}
	if obj := e.testOnly(u, l.line.src); obj != nil {
		m.refuse(l, option, "%s=%s uses %s, which only tests declare; declare it in a file that is no test", option, text, obj.Name())
		return nil
	}
	e.typ = tv.Type
	return e
}

// usesInvalid reports whether the expression names something whose type could not be found out.
func (e *expression) usesInvalid() bool {
	for _, obj := range e.info.Uses {
		switch obj.(type) {
		case *types.Builtin, *types.PkgName, *types.Nil: // which have no type
			continue
		}
		if invalid(obj.Type()) {
			return true
		}
	}
	return false
}

// openScope declares the method's parameters in a scope of its own inside the file's, and returns the place at which
// [types.CheckExpr] looks names up in it: any that belongs to the file's scope alone. The declarations are copies: the
// originals are visible behind the signature only.
func (m *method) openScope(src *source, e *expression) token.Pos {
	u := m.service.unit
	file := u.info.Scopes[src.ast]
	at := src.ast.FileStart
	for file.Innermost(at) != file {
		at++
	}
	scope := types.NewScope(file, at, at+1, m.fn.Name())
	for _, list := range []*types.TypeParamList{m.sig.RecvTypeParams(), m.service.typeParams()} {
		for t := range list.TypeParams() {
			scope.Insert(types.NewTypeName(token.NoPos, u.types, t.Obj().Name(), t))
		}
		if list.Len() > 0 {
			break
		}
	}
	e.params = map[types.Object]*types.Var{}
	for v := range m.sig.Params().Variables() {
		if v.Name() != "" && v.Name() != "_" {
			copied := types.NewParam(token.NoPos, u.types, v.Name(), v.Type())
			scope.Insert(copied)
			e.params[copied] = v
		}
	}
	m.findImports(src, e, scope)
	return at
}

// findImports declares in an expression's scope the packages that it names and its file does not import by that name: what
// only a directive uses, the file cannot import. They are found among the file's blank imports, the imports of the package's
// other files, and the standard library's packages that are named like their paths.
func (m *method) findImports(src *source, e *expression, scope *types.Scope) {
	ast.Inspect(e.expr, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		id, ok := sel.X.(*ast.Ident)
		if !ok {
			return true
		}
		if _, obj := scope.LookupParent(id.Name, token.NoPos); obj == nil {
			if pkg := m.service.unit.findImport(src, id.Name); pkg != nil {
				scope.Insert(types.NewPkgName(token.NoPos, m.service.unit.types, id.Name, pkg))
			}
		}
		return true
	})
}

// findImport returns the package that a directive of src means by a name that src does not declare, nil if there is none.
func (u *unit) findImport(src *source, name string) *types.Package {
	from := packageImporter{u.imports, u.pkg}
	for _, s := range append([]*source{src}, u.sources...) {
		for _, spec := range s.ast.Imports {
			path, err := strconv.Unquote(spec.Path.Value)
			if err != nil || s.excluded {
				continue
			}
			named := spec.Name != nil && spec.Name.Name != "_" && spec.Name.Name != "."
			if named && spec.Name.Name != name {
				continue
			}
			if pkg, err := from.Import(path); err == nil && (named || pkg.Name() == name) {
				return pkg
			}
		}
	}
	if p := u.imports.byPath[name]; p != nil && p.Module == nil && p.Name == name {
		if pkg, err := u.imports.load(p); err == nil {
			return pkg
		}
	}
	return nil
}

// typeError reports an error of the type checker at its place inside the expression.
func (m *method) typeError(l *limit, option string, fset *token.FileSet, e *expression, err error) {
	u, at := m.service.unit, l.line.column(option)
	var terr types.Error
	if !errors.As(err, &terr) {
		m.refuse(l, option, "%v", err)
		return
	}
	message := oneLine(terr.Msg)
	name, undefined := strings.CutPrefix(message, "undefined: ")
	if undefined {
		why := m.undefined(name)
		if message += why; strings.Contains(why, " parameters ") && why[0] == ';' {
			message += e.notImported(name, l.line.src)
		}
	} else if strings.Contains(message, "has no field or method") && !strings.Contains(message, "but does have") {
		message += e.missingField(terr.Pos, u.types) + m.hidden(l.line.src, e)
	} else if strings.Contains(message, "cannot call") {
		message += m.hidden(l.line.src, e)
	}
	if m.shared(l) {
		message += " (on " + m.fn.Name() + ")"
	}
	if terr.Pos.IsValid() {
		at = l.line.at(option, fset.Position(terr.Pos).Offset)
	}
	found := u.errorf(at, "%s: %s", option, message)
	if undefined {
		found.Mend = u.mendWord(at, name, rules.Suggest(name, m.paramNames()))
	}
}

// hidden says which parameter of the expression hides what was probably meant, empty if none does.
func (m *method) hidden(src *source, e *expression) string {
	hint := ""
	ast.Inspect(e.expr, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		if !ok || hint != "" || !slices.Contains(m.paramNames(), id.Name) {
			return hint == ""
		}
		var called ast.Node
		ast.Inspect(e.expr, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				if ast.Unparen(n.Fun) == id {
					called = n
				}
			case *ast.SelectorExpr:
				if n.X == id {
					called = n
				}
			}
			return true
		})
		if _, obj := m.service.unit.info.Scopes[src.ast].LookupParent(id.Name, token.NoPos); obj != nil && called != nil {
			hint = "; the parameter " + id.Name + " hides what the file calls " + id.Name + ": give it another name"
		}
		return true
	})
	return hint
}

// writes returns the first built-in function that the expression calls to change what is there, and its place.
func (e *expression) writes() (what string, pos token.Pos) {
	ast.Inspect(e.expr, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		if b, isBuiltin := e.info.Uses[id].(*types.Builtin); ok && isBuiltin && what == "" {
			switch b.Name() {
			case "append", "copy", "recover":
				what, pos = b.Name(), id.Pos()
			}
		}
		return true
	})
	return what, pos
}

// paramNames returns the names of the parameters that expressions see.
func (m *method) paramNames() []string {
	var params []string
	for v := range m.sig.Params().Variables() {
		if v.Name() != "" && v.Name() != "_" {
			params = append(params, v.Name())
		}
	}
	return params
}

// missingField suggests a field or method for the selector whose name stands at pos.
func (e *expression) missingField(pos token.Pos, pkg *types.Package) string {
	hint := ""
	ast.Inspect(e.expr, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok || sel.Sel.Pos() != pos || e.info.Types[sel.X].Type == nil {
			return true
		}
		if s := rules.Suggest(sel.Sel.Name, members(e.info.Types[sel.X].Type, pkg)); s != "" {
			hint = "; did you mean " + s + "?"
		}
		return false
	})
	return hint
}

// members returns the names of the methods of t, and of its fields if it is a struct or points to one.
func members(t types.Type, pkg *types.Package) []string {
	var list []string
	see := func(obj types.Object) {
		if obj.Exported() || obj.Pkg() == pkg {
			list = append(list, obj.Name())
		}
	}
	methods := types.NewMethodSet(t)
	for i := range methods.Len() {
		see(methods.At(i).Obj())
	}
	if ptr, ok := t.Underlying().(*types.Pointer); ok {
		t = ptr.Elem()
	}
	if st, ok := t.Underlying().(*types.Struct); ok {
		for f := range st.Fields() {
			see(f)
		}
	}
	return list
}

// undefined says which names an expression sees, and why it does not see this one.
func (m *method) undefined(name string) string {
	params := m.paramNames()
	if recv := m.sig.Recv(); recv != nil && recv.Name() == name && m.service.iface == nil {
		return ", the receiver; want an expression over the parameters of " + m.fn.Name()
	}
	for v := range m.sig.Results().Variables() {
		if v.Name() == name {
			return ", a result; the limit is decided before the call, want an expression over the parameters of " + m.fn.Name()
		}
	}
	if s := rules.Suggest(name, params); s != "" {
		return "; did you mean " + s + "?"
	}
	if len(params) == 0 {
		return "; the parameters of " + m.fn.Name() + " have no names: give them some"
	}
	return "; " + m.fn.Name() + " has the parameters " + strings.Join(params, ", ")
}

// notImported says how to name a package that src does not import, if the expression uses name as one.
func (e *expression) notImported(name string, src *source) string {
	hint := ""
	ast.Inspect(e.expr, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if id, ok := sel.X.(*ast.Ident); ok && id.Name == name {
				hint = fmt.Sprintf("; if it is a package, %s does not import it: import it there as _", filepath.Base(src.path))
			}
		}
		return true
	})
	return hint
}

// sideEffect returns the first part of the expression that must not be computed for every call.
func sideEffect(expr ast.Expr) (what string, pos token.Pos) {
	ast.Inspect(expr, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			what, pos = "a function literal", n.Pos()
		case *ast.UnaryExpr:
			if n.Op == token.ARROW {
				what, pos = "a receive from a channel", n.Pos()
			}
		}
		return what == ""
	})
	return what, pos
}

// testOnly returns an object that a test file declares, nil if there is none or src is a test itself.
func (e *expression) testOnly(u *unit, src *source) types.Object {
	if src.test() {
		return nil
	}
	for _, id := range e.looked() {
		obj := e.info.Uses[id]
		if s := u.source(obj.Pos()); s != nil && s.test() && obj.Parent() == u.types.Scope() {
			return obj
		}
	}
	return nil
}

// checkCost reports a cost that is no integer, or a constant that no rule could ever allow.
func (m *method) checkCost(l *limit) {
	e := l.cost
	if !isKind(e.typ, types.IsInteger) {
		m.refuse(l, "cost", "cost=%s has type %s, want an integer%s", l.Cost, m.typeString(e.typ), hintCost(e.typ, l.Cost))
		return
	}
	value := e.info.Types[e.expr].Value
	if value == nil {
		return
	}
	smallest := int64(math.MaxInt64)
	for _, r := range l.Rules {
		smallest = min(smallest, r.Count)
	}
	n, exact := constant.Int64Val(value)
	switch {
	case constant.Sign(value) < 0:
		m.refuse(l, "cost", "cost=%s is negative, want 1 or more", l.Cost)
	case constant.Sign(value) == 0 && l.Free != rules.FreeAllow:
		m.refuse(l, "cost", "cost=%s counts as 1, want 1 or more; write free=allow beside it if calls are to pass without being charged", l.Cost)
	case !exact || n > smallest:
		m.refuse(l, "cost", "cost=%s can never be allowed, want at most %d, the smallest count of the limit", l.Cost, smallest)
	}
}

// hintWhen says what to write in place of a condition that is none.
func hintWhen(t types.Type, text string) string {
	zero := ""
	if isKind(t, types.IsUntyped) {
		return ""
	}
	switch t.Underlying().(type) {
	case *types.Pointer, *types.Interface, *types.Slice, *types.Map, *types.Chan, *types.Signature:
		zero = "nil"
	default:
		if isKind(t, types.IsString) {
			zero = `""`
		} else if isKind(t, types.IsNumeric) {
			zero = "0"
		}
	}
	if zero == "" {
		return ""
	}
	return "; write when=" + text + "!=" + zero
}

// hintCost says what to write in place of a cost that is no integer.
func hintCost(t types.Type, text string) string {
	switch t.Underlying().(type) {
	case *types.Slice, *types.Map, *types.Array:
		return "; write cost=len(" + text + ")"
	}
	switch {
	case isKind(t, types.IsUntyped):
		return ""
	case isKind(t, types.IsString):
		return "; write cost=len(" + text + ")"
	case isKind(t, types.IsFloat|types.IsInteger):
		return "; write cost=int64(" + text + ")"
	}
	return ""
}
