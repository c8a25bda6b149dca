package gen

import (
	"fmt"
	"go/types"
	"strconv"
	"strings"
)

// typePrinter prints types as Go source, as they were written: an alias is printed by its name, never as
// what it stands for, unless the package cannot name it.
type typePrinter struct {
	// pkg is the package of the file that is printed to.
	pkg *types.Package
	// qualifier returns the name by which the file imports another package.
	qualifier func(*types.Package) string
	// params has the names of type parameters; one that is missing keeps its own.
	params map[*types.TypeParam]string
	// hidden are the predeclared names that the package declares anew.
	hidden names

	buf      strings.Builder
	problems []string
}

// print returns t as source. What cannot be written in the package is added to p.problems.
func (p *typePrinter) print(t types.Type) string {
	p.buf.Reset()
	p.typ(t)
	return p.buf.String()
}

func (p *typePrinter) problem(format string, args ...any) {
	p.problems = append(p.problems, fmt.Sprintf(format, args...))
}

func (p *typePrinter) text(s string) { p.buf.WriteString(s) }

func (p *typePrinter) typ(t types.Type) {
	switch t := t.(type) {
	case *types.Basic:
		p.basic(t)
	case *types.Alias:
		p.alias(t)
	case *types.Named:
		p.object(t.Obj())
		p.typeArgs(t.TypeArgs())
	case *types.TypeParam:
		p.typeParam(t)
	case *types.Pointer:
		p.text("*")
		p.typ(t.Elem())
	case *types.Slice:
		p.text("[]")
		p.typ(t.Elem())
	case *types.Array:
		p.text("[" + strconv.FormatInt(t.Len(), 10) + "]")
		p.typ(t.Elem())
	case *types.Map:
		p.text("map[")
		p.typ(t.Key())
		p.text("]")
		p.typ(t.Elem())
	case *types.Chan:
		p.channel(t)
	case *types.Signature:
		p.text("func")
		p.signature(t)
	case *types.Struct:
		p.structure(t)
	case *types.Interface:
		p.iface(t)
	case *types.Union:
		p.union(t)
	default:
		p.problem("the type %s has no source", t)
	}
}

func (p *typePrinter) basic(t *types.Basic) {
	switch t.Kind() {
	case types.Invalid:
		p.problem("a type of the signature cannot be named: types of C have names in their own file only, want Go types")
	case types.UnsafePointer:
		p.text(p.qualifier(types.Unsafe) + ".Pointer")
	default:
		p.predeclared(t.Name())
	}
}

// predeclared prints a name of the universe, or what it stands for where the package hides it.
func (p *typePrinter) predeclared(name string) {
	if !p.hidden.has(name) {
		p.text(name)
		return
	}
	same := map[string]string{"byte": "uint8", "uint8": "byte", "rune": "int32", "int32": "rune", "any": "interface{}"}
	other, ok := same[name]
	if !ok || p.hidden.has(other) {
		p.problem("the package declares %q, which hides the predeclared type that the signature needs", name)
		return
	}
	p.text(other)
}

func (p *typePrinter) alias(t *types.Alias) {
	obj := t.Obj()
	if obj.Pkg() != nil && !p.canName(obj) {
		p.typ(t.Rhs())
		return
	}
	p.object(obj)
	p.typeArgs(t.TypeArgs())
}

// canName reports whether the file can refer to a type of another package, or its own.
func (p *typePrinter) canName(obj *types.TypeName) bool {
	if obj.Parent() != nil && obj.Parent() != obj.Pkg().Scope() {
		return false
	}
	return obj.Pkg().Path() == p.pkg.Path() ||
		obj.Exported() && importable(p.pkg.Path(), obj.Pkg().Path()) && obj.Pkg().Name() != "main"
}

func (p *typePrinter) object(obj *types.TypeName) {
	switch pkg := obj.Pkg(); {
	case pkg == nil:
		p.predeclared(obj.Name())
	case !p.canName(obj):
		p.problem("the type %s.%s cannot be named in package %s", pkg.Path(), obj.Name(), p.pkg.Name())
	case pkg.Path() == p.pkg.Path():
		p.text(obj.Name())
	default:
		p.text(p.qualifier(pkg) + "." + obj.Name())
	}
}

// importable reports whether a package may import another, by the rule for internal directories.
func importable(from, path string) bool {
	i := strings.LastIndex("/"+path+"/", "/internal/")
	if i < 0 {
		return true
	}
	from = strings.TrimSuffix(from, "_test")
	root := strings.TrimSuffix(path[:max(i-1, 0)], "/")
	return root == "" || from == root || strings.HasPrefix(from, root+"/")
}

func (p *typePrinter) typeArgs(args *types.TypeList) {
	if args.Len() == 0 {
		return
	}
	p.text("[")
	for i := range args.Len() {
		if i > 0 {
			p.text(", ")
		}
		p.typ(args.At(i))
	}
	p.text("]")
}

func (p *typePrinter) typeParam(t *types.TypeParam) {
	if name, ok := p.params[t]; ok {
		p.text(name)
		return
	}
	p.text(t.Obj().Name())
}

func (p *typePrinter) channel(t *types.Chan) {
	switch t.Dir() {
	case types.SendOnly:
		p.text("chan<- ")
	case types.RecvOnly:
		p.text("<-chan ")
	default:
		p.text("chan ")
		if elem, ok := t.Elem().(*types.Chan); ok && elem.Dir() == types.RecvOnly {
			p.text("(")
			p.typ(elem)
			p.text(")")
			return
		}
	}
	p.typ(t.Elem())
}

// signature prints parameters and results: "(n int, rest ...string) error".
func (p *typePrinter) signature(t *types.Signature) {
	p.text("(")
	p.tuple(t.Params(), t.Variadic())
	p.text(")")
	results := t.Results()
	switch {
	case results.Len() == 0:
	case results.Len() == 1 && results.At(0).Name() == "":
		p.text(" ")
		p.typ(results.At(0).Type())
	default:
		p.text(" (")
		p.tuple(results, false)
		p.text(")")
	}
}

func (p *typePrinter) tuple(t *types.Tuple, variadic bool) {
	for i := range t.Len() {
		if i > 0 {
			p.text(", ")
		}
		if name := t.At(i).Name(); name != "" {
			p.text(name + " ")
		}
		p.param(t.At(i).Type(), variadic && i == t.Len()-1)
	}
}

// param prints the type of a parameter, which is a slice where it is the variadic one.
func (p *typePrinter) param(t types.Type, variadic bool) {
	if slice, ok := t.(*types.Slice); ok && variadic {
		p.text("...")
		t = slice.Elem()
	}
	p.typ(t)
}

func (p *typePrinter) structure(t *types.Struct) {
	if t.NumFields() == 0 {
		p.text("struct{}")
		return
	}
	p.text("struct{ ")
	for i := range t.NumFields() {
		if i > 0 {
			p.text("; ")
		}
		p.field(t.Field(i), t.Tag(i))
	}
	p.text(" }")
}

func (p *typePrinter) field(f *types.Var, tag string) {
	if !f.Exported() && f.Pkg() != nil && f.Pkg().Path() != p.pkg.Path() {
		p.problem("the field %s of a struct type of package %s cannot be written in package %s", f.Name(), f.Pkg().Path(), p.pkg.Name())
	}
	if !f.Embedded() {
		p.text(f.Name() + " ")
	}
	start := p.buf.Len()
	p.typ(f.Type())
	if f.Embedded() && lastName(p.buf.String()[start:]) != f.Name() {
		p.problem("the embedded field %s of a struct type cannot be written in package %s, which cannot name its type", f.Name(), p.pkg.Name())
	}
	switch {
	case tag == "":
	case strconv.CanBackquote(tag):
		p.text(" `" + tag + "`")
	default:
		p.text(" " + strconv.Quote(tag))
	}
}

// lastName returns the name that a field gets from the embedded type with this source.
func lastName(source string) string {
	source, _, _ = strings.Cut(strings.TrimPrefix(source, "*"), "[")
	return source[strings.LastIndex(source, ".")+1:]
}

func (p *typePrinter) iface(t *types.Interface) {
	if t.NumExplicitMethods()+t.NumEmbeddeds() == 0 {
		p.text("interface{}")
		return
	}
	p.text("interface{ ")
	sep := ""
	for i := range t.NumEmbeddeds() {
		p.text(sep)
		p.typ(t.EmbeddedType(i))
		sep = "; "
	}
	for i := range t.NumExplicitMethods() {
		m := t.ExplicitMethod(i)
		if !m.Exported() && m.Pkg().Path() != p.pkg.Path() {
			p.problem("the method %s of an interface type of package %s cannot be written in package %s", m.Name(), m.Pkg().Path(), p.pkg.Name())
		}
		p.text(sep + m.Name())
		p.signature(m.Type().(*types.Signature))
		sep = "; "
	}
	p.text(" }")
}

func (p *typePrinter) union(t *types.Union) {
	for i := range t.Len() {
		if i > 0 {
			p.text(" | ")
		}
		if t.Term(i).Tilde() {
			p.text("~")
		}
		p.typ(t.Term(i).Type())
	}
}

// constraint returns a type parameter's constraint as source, without the interface{ } around ~int | ~string.
func (p *typePrinter) constraint(t types.Type) string {
	if i, ok := t.(*types.Interface); ok && i.IsImplicit() && i.NumEmbeddeds() == 1 {
		if u, ok := i.EmbeddedType(0).(*types.Union); ok && u.Term(0).Tilde() {
			return p.print(u)
		}
	}
	return p.print(t)
}
