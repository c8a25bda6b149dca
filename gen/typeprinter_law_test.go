package gen

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestTypePrinterLaw holds the printer to its contract: what it prints of any type reads back as an identical one, with the
// same aliases, names of parameters and tags. The same types are drawn in every run; -rapid.seed draws anew.
func TestTypePrinterLaw(t *testing.T) {
	if seed := flag.Lookup("rapid.seed"); seed.Value.String() == "0" {
		if err := flag.Set("rapid.seed", "1"); err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := flag.Set("rapid.seed", "0"); err != nil {
				t.Error(err)
			}
		}()
	}
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		want := w.function()
		text, printer := w.file(want)
		if len(printer.problems) > 0 {
			t.Fatalf("print(%s) has problems: %q", want, printer.problems)
		}
		got := w.read(text)
		if !types.Identical(want, got) {
			t.Fatalf("print(%s) =\n%s\nwhich reads back as\n%s", want, text, got)
		}
		params := want.TypeParams()
		for i := range params.Len() {
			if diff := differs(printer, params.At(i).Constraint(), got.TypeParams().At(i).Constraint()); diff != "" {
				t.Fatalf("constraint %s reads back otherwise: %s\n%s", params.At(i).Constraint(), diff, text)
			}
		}
		for i := range want.Params().Len() {
			if diff := differs(printer, want.Params().At(i).Type(), got.Params().At(i).Type()); diff != "" {
				t.Fatalf("%s reads back otherwise: %s\n%s", want.Params().At(i).Type(), diff, text)
			}
		}
	})
}

// file prints a function with the signature in a file of p, as wrappers are: what is imported and type parameters get names
// that hide nothing.
func (w *world) file(sig *types.Signature) (string, *typePrinter) {
	scope := predeclaredNames().with(names{"F": true})
	for _, name := range w.p.Scope().Names() {
		scope.add(name)
	}
	imports := map[string]string{}
	p := &typePrinter{pkg: w.p, params: map[*types.TypeParam]string{}, hidden: w.hidden}
	p.qualifier = func(pkg *types.Package) string {
		if imports[pkg.Path()] == "" {
			imports[pkg.Path()] = scope.take(pkg.Name())
		}
		return imports[pkg.Path()]
	}
	for v := range sig.Params().Variables() { // so that parameters are named around the imports
		p.print(v.Type())
	}
	for param := range sig.TypeParams().TypeParams() {
		p.constraint(param.Constraint())
	}
	var decls []string
	for param := range sig.TypeParams().TypeParams() {
		p.params[param] = scope.take(strings.Replace(param.Obj().Name(), "_", "T", 1))
	}
	for param := range sig.TypeParams().TypeParams() {
		decls = append(decls, p.params[param]+" "+p.constraint(param.Constraint()))
	}
	var b strings.Builder
	b.WriteString("package p\n\n")
	for _, path := range slices.Sorted(maps.Keys(imports)) {
		fmt.Fprintf(&b, "import %s %q\n", imports[path], path)
	}
	b.WriteString("\nfunc F")
	if len(decls) > 0 {
		b.WriteString("[" + strings.Join(decls, ", ") + "]")
	}
	fmt.Fprintf(&b, "(_ %s, ", p.print(sig.Params().At(0).Type()))
	fmt.Fprintf(&b, "_ %s) {}\n", p.print(sig.Params().At(1).Type()))
	return b.String(), p
}

// read returns the signature of F in the text of a file of p.
func (w *world) read(text string) *types.Signature {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "f.go", text, parser.SkipObjectResolution)
	if err != nil {
		w.t.Fatalf("%v\n%s", err, text)
	}
	cfg := types.Config{Importer: w, IgnoreFuncBodies: true}
	if err := types.NewChecker(&cfg, fset, w.p, nil).Files([]*ast.File{file}); err != nil {
		w.t.Fatalf("%v\n%s", err, text)
	}
	return w.p.Scope().Lookup("F").(*types.Func).Signature()
}

// Import returns a package of the world.
func (w *world) Import(path string) (*types.Package, error) {
	if path == "unsafe" {
		return types.Unsafe, nil
	}
	if pkg := w.packages[path]; pkg != nil {
		pkg.MarkComplete()
		return pkg, nil
	}
	return nil, fmt.Errorf("no package %s", path)
}

// differs says where two identical types are not written in the same way, as far as they can be; empty if they are.
func differs(p *typePrinter, want, got types.Type) string {
	if alias, ok := want.(*types.Alias); ok {
		obj := alias.Origin().Obj()
		if obj.Pkg() != nil && !p.canName(obj) {
			return differs(p, alias.Rhs(), got)
		}
		read, ok := got.(*types.Alias)
		if !ok && p.hidden.has(obj.Name()) {
			return ""
		}
		if !ok || read.Origin().Obj() != obj {
			return fmt.Sprintf("got %s, want the alias %s", got, want)
		}
		return differLists(p, alias.TypeArgs().Types(), read.TypeArgs().Types())
	}
	if read, ok := got.(*types.Alias); ok {
		return fmt.Sprintf("got the alias %s, want %s", read, want)
	}
	switch want := want.(type) {
	case *types.Basic:
		if got := got.(*types.Basic); want.Name() != got.Name() && !p.hidden.has(want.Name()) {
			return fmt.Sprintf("got %s, want %s", got, want)
		}
	case *types.Named:
		return differLists(p, want.TypeArgs().Types(), got.(*types.Named).TypeArgs().Types())
	case *types.Map:
		got := got.(*types.Map)
		if diff := differs(p, want.Key(), got.Key()); diff != "" {
			return diff
		}
		return differs(p, want.Elem(), got.Elem())
	case interface{ Elem() types.Type }:
		return differs(p, want.Elem(), got.(interface{ Elem() types.Type }).Elem())
	case *types.Signature:
		got := got.(*types.Signature)
		if diff := differTuples(p, want.Params(), got.Params()); diff != "" {
			return diff
		}
		return differTuples(p, want.Results(), got.Results())
	case *types.Struct:
		got := got.(*types.Struct)
		for i := range want.NumFields() {
			if diff := differs(p, want.Field(i).Type(), got.Field(i).Type()); diff != "" {
				return diff
			}
			if want.Tag(i) != got.Tag(i) || want.Field(i).Embedded() != got.Field(i).Embedded() {
				return fmt.Sprintf("got the field %s %q, want %s %q", got.Field(i), got.Tag(i), want.Field(i), want.Tag(i))
			}
		}
	case *types.Interface:
		return differInterfaces(p, want, got.(*types.Interface))
	case *types.Union:
		got := got.(*types.Union)
		for i := range want.Len() {
			if diff := differs(p, want.Term(i).Type(), got.Term(i).Type()); diff != "" {
				return diff
			}
		}
	}
	return ""
}

func differInterfaces(p *typePrinter, want, got *types.Interface) string {
	if want.NumExplicitMethods() != got.NumExplicitMethods() || want.NumEmbeddeds() != got.NumEmbeddeds() {
		return fmt.Sprintf("got %s, want %s", got, want)
	}
	for i := range want.NumExplicitMethods() {
		if diff := differs(p, want.ExplicitMethod(i).Type(), got.ExplicitMethod(i).Type()); diff != "" {
			return diff
		}
	}
	for i := range want.NumEmbeddeds() {
		if diff := differs(p, want.EmbeddedType(i), got.EmbeddedType(i)); diff != "" {
			return diff
		}
	}
	return ""
}

func differTuples(p *typePrinter, want, got *types.Tuple) string {
	for i := range want.Len() {
		if want.At(i).Name() != got.At(i).Name() {
			return fmt.Sprintf("got the name %q, want %q", got.At(i).Name(), want.At(i).Name())
		}
		if diff := differs(p, want.At(i).Type(), got.At(i).Type()); diff != "" {
			return diff
		}
	}
	return ""
}

func differLists(p *typePrinter, want, got func(func(types.Type) bool)) string {
	read := slices.Collect(got)
	for i, t := range slices.Collect(want) {
		if diff := differs(p, t, read[i]); diff != "" {
			return diff
		}
	}
	return ""
}
