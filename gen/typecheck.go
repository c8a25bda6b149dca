package gen

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/types"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// typeCheck checks that the generated files of a unit compile with its sources, so that no file
// that does not compile is written. Files that only other platforms compile are not checked. Nor is
// what files use of packages that nothing imports yet, such as the runtime before the first run.
func (u *unit) typeCheck(generated []*File) error {
	var files []*ast.File
	for _, s := range u.sources {
		if s.excluded {
			continue
		}
		f, err := parser.ParseFile(u.fset, s.path, s.text, parser.SkipObjectResolution)
		if err != nil {
			return nil // that is reported elsewhere
		}
		dropBodies(f)
		files = append(files, f)
	}
	var paths []string
	for _, g := range generated {
		f, err := parser.ParseFile(u.fset, g.Path, g.Text, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		paths = append(paths, g.Path)
		files = append(files, f)
	}
	var failed error
	config := u.imports.config(u.pkg, listedImporter{packageImporter{u.imports, u.pkg}}, func(err types.Error) {
		pos := u.fset.PositionFor(err.Pos, false)
		ours := slices.Contains(paths, pos.Filename)
		if ours && failed == nil && !strings.HasPrefix(err.Msg, "could not import") {
			failed = fmt.Errorf("gen: %s:%d: the generated code does not compile, which is a bug of rlgen; nothing is written: %s",
				filepath.Base(pos.Filename), pos.Line, strings.TrimSpace(err.Msg))
		}
	})
	_, _ = config.Check(u.pkg.PkgPath, u.fset, files, nil)
	return failed
}

// dropBodies removes the bodies of functions, which have no part in what generated code means.
func dropBodies(f *ast.File) {
	for _, decl := range f.Decls {
		if fn, ok := decl.(*ast.FuncDecl); ok && fn.Body != nil {
			fn.Body.List = nil
		}
	}
}

// listedImporter resolves imports of generated code: those of the package, and others that the load
// listed.
type listedImporter struct{ packageImporter }

func (imp listedImporter) Import(path string) (*types.Package, error) {
	if path == "unsafe" {
		return types.Unsafe, nil
	}
	if p := imp.from.Imports[path]; p != nil {
		return imp.load(p)
	}
	if p := imp.byPath[path]; p != nil && !strings.HasSuffix(p.ID, ".test") {
		return imp.load(p)
	}
	return nil, errors.New("no package of the load imports it")
}

// config returns a configuration of the type checker for a package.
func (imp *importer) config(p *packages.Package, from types.Importer, report func(types.Error)) *types.Config {
	cfg := &types.Config{
		Importer:    from,
		FakeImportC: true,
		Sizes:       p.TypesSizes,
		Error: func(err error) {
			var e types.Error
			if errors.As(err, &e) {
				report(e)
			}
		},
	}
	if p.Module != nil && p.Module.GoVersion != "" {
		cfg.GoVersion = "go" + p.Module.GoVersion
	}
	return cfg
}
