package gen_test

import (
	"bytes"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"

	"github.com/rlgen/rlgen/gen"
	"github.com/rlgen/rlgen/testdata/suite"
	"github.com/rlgen/rlgen/testdata/testmodule"
)

// TestForeign generates for services that embed interfaces of the standard library and of go-redis.
func TestForeign(t *testing.T) {
	t.Parallel()
	dir := testmodule.New(t)
	if err := os.CopyFS(dir, os.DirFS("../testdata/foreign")); err != nil {
		t.Fatal(err)
	}
	checkForeign(t, dir)
}

// TestThirdParty does the same for interfaces of a module with many dependencies. They are downloaded.
func TestThirdParty(t *testing.T) {
	t.Parallel()
	suite.NeedLong(t, "downloads modules")
	dir := testmodule.Dir(t)
	if err := os.CopyFS(dir, os.DirFS("../testdata/thirdparty")); err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "go.mod"), bytes.Replace(mod, []byte("replace github.com/rlgen/rlgen => ../.."), []byte(testmodule.Replace()), 1))
	if err := testmodule.Download(dir); err != nil {
		t.Fatal(err)
	}
	checkForeign(t, dir)
}

// checkForeign generates in a module, vets it, and holds each wrapper to its interface.
func checkForeign(t *testing.T, dir string) {
	t.Helper()
	r, err := gen.Run(t.Context(), gen.Config{Dir: dir, Patterns: []string{"./..."}, Env: testmodule.Env()})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range r.Findings {
		t.Errorf("found %s", f.Text(dir))
	}
	if err := r.Commit(); err != nil {
		t.Fatal(err)
	}
	vet := exec.Command("go", "vet", "./...")
	vet.Dir, vet.Env = dir, testmodule.Env()
	if out, err := vet.CombinedOutput(); err != nil {
		t.Fatalf("go vet: %v\n%s", err, out)
	}
	listed, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedTypes | packages.NeedImports | packages.NeedExportFile,
		Dir:  dir, Env: testmodule.Env(),
	}, "./...")
	if err != nil || packages.PrintErrors(listed) > 0 {
		t.Fatalf("Load: %v", err)
	}
	bodies := bodiesOf(t, r.Files)
	limited := map[string]bool{}
	for _, m := range r.Methods {
		limited[m.Policy.Type+" "+m.Policy.Method] = true
	}
	wrappers := 0
	for _, p := range listed {
		for _, name := range p.Types.Scope().Names() {
			if service, ok := strings.CutPrefix(name, "RateLimited"); ok {
				wrappers++
				checkWrapper(t, p.Types, service, bodies, limited)
			}
		}
	}
	if wrappers == 0 || len(r.Methods) < wrappers {
		t.Errorf("found %d wrappers and %d limited methods, want some of both", wrappers, len(r.Methods))
	}
}

// checkWrapper holds a wrapper to its interface: the same methods with the same types, each declared by the wrapper itself unless
// it is another package's own, and with a body that does nothing but pass the call on, or asks first.
func checkWrapper(t *testing.T, pkg *types.Package, service string, bodies map[string]string, limited map[string]bool) {
	t.Helper()
	iface := pkg.Scope().Lookup(service).Type().Underlying().(*types.Interface)
	wrapper := pkg.Scope().Lookup("RateLimited" + service).Type()
	methods := types.NewMethodSet(types.NewPointer(wrapper))
	for want := range iface.Methods() {
		got := methods.Lookup(want.Pkg(), want.Name())
		switch {
		case got == nil:
			t.Errorf("%s.%s has no method %s", pkg.Name(), wrapper, want.Name())
			continue
		case !types.Identical(got.Type(), want.Type()):
			t.Errorf("%s.%s has the type %s, want %s", wrapper, want.Name(), got.Type(), want.Type())
		case !want.Exported() && want.Pkg() != pkg:
			continue // it has to be embedded
		case strings.Contains(want.Signature().String(), "/internal/"):
			continue // as must be what has types that cannot be written here
		case len(got.Index()) != 1:
			t.Errorf("%s.%s is promoted, want it declared", wrapper, want.Name())
		}
		body := bodies[pkg.Path()+" RateLimited"+service+" "+want.Name()]
		if want := passOn(want, limited[pkg.Name()+"."+service+" "+want.Name()]); body != want {
			t.Errorf("%s.%s has the body\n%s\nwant\n%s", wrapper, service, body, want)
		}
	}
}

// passOn returns what the body of a wrapper's method is made of, but for the names of its parameters.
func passOn(fn *types.Func, limited bool) string {
	sig := fn.Signature()
	call := "w.next." + fn.Name() + "(" + strings.TrimSuffix(strings.Repeat("_, ", sig.Params().Len()), ", ")
	if sig.Variadic() {
		call += "..."
	}
	call += ")"
	if sig.Results().Len() > 0 {
		call = "return " + call
	}
	if limited {
		return "ask; " + call
	}
	return call
}

// bodiesOf returns the bodies of all generated methods as passOn has them, by package, wrapper and method.
func bodiesOf(t *testing.T, files []gen.File) map[string]string {
	t.Helper()
	bodies := map[string]string{}
	for _, f := range files {
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, f.Path, f.Text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		path := "example.com/m"
		if name := filepath.Base(filepath.Dir(f.Path)); file.Name.Name == name {
			path += "/" + name
		}
		for _, decl := range file.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv != nil {
				wrapper := fn.Recv.List[0].Type.(*ast.StarExpr).X.(*ast.Ident).Name
				bodies[path+" "+wrapper+" "+fn.Name.Name] = body(t, fset, fn)
			}
		}
	}
	return bodies
}

// body returns a method's body with _ for each parameter in its place, and "ask" for what stands before the call.
func body(t *testing.T, fset *token.FileSet, fn *ast.FuncDecl) string {
	t.Helper()
	var params []string
	for _, field := range fn.Type.Params.List {
		for _, name := range field.Names {
			params = append(params, name.Name)
		}
	}
	last := fn.Body.List[len(fn.Body.List)-1]
	ast.Inspect(last, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		for i, arg := range call.Args {
			if id, ok := arg.(*ast.Ident); ok && i < len(params) && id.Name == params[i] {
				id.Name = "_"
			}
		}
		sel := call.Fun.(*ast.SelectorExpr).X.(*ast.SelectorExpr)
		if id := sel.X.(*ast.Ident); id.Name == fn.Recv.List[0].Names[0].Name {
			id.Name = "w"
		}
		return false
	})
	var text bytes.Buffer
	if err := format.Node(&text, fset, last); err != nil {
		t.Fatal(err)
	}
	if len(fn.Body.List) > 1 {
		return "ask; " + text.String()
	}
	return text.String()
}
