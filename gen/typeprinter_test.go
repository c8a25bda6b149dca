package gen

import (
	"fmt"
	"go/ast"
	goimporter "go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"strings"
	"testing"
)

// checkPackage types a package with declarations that the cases refer to.
func checkPackage(t *testing.T, decls string) *types.Package {
	t.Helper()
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "p.go", `package p

import (
	"context"
	"io"
	"net/http"
	"unsafe"
)

var _ context.Context
var _ io.Reader
var _ http.Header
var _ unsafe.Pointer

type local struct{ n int }
type list[T any] = []T
type pair[A comparable, B any] struct { a A; b B }
type Named = local

`+decls, 0)
	if err != nil {
		t.Fatal(err)
	}
	cfg := types.Config{Importer: goimporter.ForCompiler(fset, "gc", nil)}
	pkg, err := cfg.Check("example.com/p", fset, []*ast.File{file}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return pkg
}

func TestTypePrinterReadsBack(t *testing.T) {
	cases := []string{
		"int",
		"byte",
		"uint8",
		"rune",
		"any",
		"error",
		"interface{}",
		"struct{}",
		"local",
		"Named",
		"list[int]",
		"list[list[Named]]",
		"pair[string, *local]",
		"*[]**[2]map[[3]string]byte",
		"chan int",
		"<-chan int",
		"chan<- int",
		"chan (<-chan int)",
		"chan chan<- int",
		"<-chan chan<- int",
		"chan<- <-chan int",
		"chan<- func() <-chan int",
		"chan chan (<-chan int)",
		"func()",
		"func(int) string",
		"func(a int, b ...string) (n int, err error)",
		"func() (int, error)",
		"func() (n int)",
		"func(...func(...int)) func() func()",
		"func(http http.ResponseWriter) *http.Request",
		"struct{ A int; b, c string }",
		"struct{ io.Reader; *http.Request; local; _ int }",
		"struct{ A int `json:\"a\"` }",
		"struct{ A int \"back`quote\" }",
		"interface{ M() }",
		"interface{ io.Closer; Len(a int) (n int) }",
		"map[struct{ K string }]interface{ M(x struct{ V any }) }",
		"unsafe.Pointer",
		"[]unsafe.Pointer",
		"context.Context",
	}
	var decls strings.Builder
	for i, text := range cases {
		fmt.Fprintf(&decls, "type X%d = %s\n", i, text)
	}
	pkg := checkPackage(t, decls.String())
	for i, text := range cases {
		t.Run(text, func(t *testing.T) {
			p := &typePrinter{pkg: pkg, qualifier: (*types.Package).Name}
			got := p.print(pkg.Scope().Lookup(fmt.Sprint("X", i)).Type().(*types.Alias).Rhs())
			want := strings.ReplaceAll(text, "b, c string", "b string; c string")
			if got != want || len(p.problems) > 0 {
				t.Errorf("print(%s) = %s, %v", text, got, p.problems)
			}
		})
	}
}

func TestTypePrinterConstraint(t *testing.T) {
	cases := []string{
		"any",
		"comparable",
		"~int | ~string",
		"interface{ *int }",
		"interface{ ~[]byte; M() }",
		"interface{ int | string }",
		"C[T]",
	}
	decls := "type C[T any] interface{ M(T) }\n"
	for i, text := range cases {
		decls += fmt.Sprintf("type X%d[T %s] struct{}\n", i, text)
	}
	pkg := checkPackage(t, decls)
	for i, text := range cases {
		t.Run(text, func(t *testing.T) {
			p := &typePrinter{pkg: pkg, qualifier: (*types.Package).Name}
			params := pkg.Scope().Lookup(fmt.Sprint("X", i)).Type().(*types.Named).TypeParams()
			if got := p.constraint(params.At(0).Constraint()); got != text {
				t.Errorf("constraint(%s) = %s", text, got)
			}
		})
	}
}

func TestTypePrinterRenames(t *testing.T) {
	pkg := checkPackage(t, "type X[T any] struct{ f func(T, pair[string, T]) http.Header }")
	x := pkg.Scope().Lookup("X").Type().(*types.Named)
	p := &typePrinter{
		pkg:       pkg,
		qualifier: func(p *types.Package) string { return p.Name() + "2" },
		params:    map[*types.TypeParam]string{x.TypeParams().At(0): "T9"},
	}
	got := p.print(x.Underlying().(*types.Struct).Field(0).Type())
	if want := "func(T9, pair[string, T9]) http2.Header"; got != want {
		t.Errorf("print = %s, want %s", got, want)
	}
}

func TestTypePrinterHiddenNames(t *testing.T) {
	cases := []struct {
		text, hidden, want string
		problem            bool
	}{
		{text: "byte", hidden: "byte", want: "uint8"},
		{text: "rune", hidden: "rune", want: "int32"},
		{text: "any", hidden: "any", want: "interface{}"},
		{text: "string", hidden: "string", problem: true},
	}
	for _, c := range cases {
		t.Run(c.text, func(t *testing.T) {
			p := &typePrinter{pkg: types.NewPackage("p", "p"), qualifier: (*types.Package).Name, hidden: names{c.hidden: true}}
			got := p.print(types.Universe.Lookup(c.text).Type())
			if got != c.want || (len(p.problems) > 0) != c.problem {
				t.Errorf("print(%s) = %q, %v, want %q", c.text, got, p.problems, c.want)
			}
		})
	}
}

func TestTypePrinterElsewhere(t *testing.T) {
	far := checkPackage(t, "type alias = []string\ntype E = struct{}\ntype e = E\ntype S struct{ A alias; L local; U struct{ x int }; E struct{ E }; F struct{ e } }")
	s := far.Scope().Lookup("S").Type().Underlying().(*types.Struct)
	for i, want := range []struct {
		text    string
		problem bool
	}{{"[]string", false}, {"", true}, {"struct{ x int }", true}, {"struct{ p.E }", false}, {"struct{ p.E }", true}} {
		p := &typePrinter{pkg: types.NewPackage("example.com/near", "near"), qualifier: (*types.Package).Name}
		if got := p.print(s.Field(i).Type()); got != want.text || (len(p.problems) > 0) != want.problem {
			t.Errorf("print(%s) = %q, %v, want %q", s.Field(i).Type(), got, p.problems, want.text)
		}
	}
}

func TestImportable(t *testing.T) {
	cases := []struct {
		from, path string
		want       bool
	}{
		{"a/b", "c/d", true},
		{"a/b", "a/internal/x", true},
		{"a", "a/internal/x", true},
		{"a_test", "a/internal/x", true},
		{"b", "a/internal/x", false},
		{"ab", "a/internal/x", false},
		{"a/b", "a/internal", true},
		{"b", "a/internal", false},
		{"a/b", "internal/x", true},
		{"a", "a/internalx/y", true},
	}
	for _, c := range cases {
		t.Run(c.from+" "+c.path, func(t *testing.T) {
			if got := importable(c.from, c.path); got != c.want {
				t.Errorf("importable(%q, %q) = %v, want %v", c.from, c.path, got, c.want)
			}
		})
	}
}
