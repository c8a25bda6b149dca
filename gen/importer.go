package gen

import (
	"errors"
	"fmt"
	"go/ast"
	"go/build/constraint"
	goimporter "go/importer"
	"go/parser"
	"go/scanner"
	"go/token"
	"go/types"
	"io"
	"os"
	"strings"

	"golang.org/x/tools/go/packages"
)

// What generated code imports.
const (
	runtimePath = "github.com/rlgen/rlgen/ratelimit"
	rulesPath   = "github.com/rlgen/rlgen/rules"
	fxPath      = "go.uber.org/fx"
	wirePath    = "github.com/google/wire"

	runtimeFxPath = runtimePath + "/ratelimitfx"
)

// importer gives types to the packages that a load listed. What is generated for, what imports such a package, and
// what has no export data is checked from its source, declarations only; all else is read from export data.
type importer struct {
	fset      *token.FileSet
	checked   map[string]*types.Package // by packages' ID
	exports   types.Importer            // of what is read from export data
	byPath    map[string]*packages.Package
	fromText  map[string]bool              // by ID, memo of needsSource
	faults    []Finding                    // of packages that nothing is generated for
	units     map[string]*unit             // by ID: what is generated for
	given     map[string]*types.Package    // by import path: what the caller has types of
	givenFset *token.FileSet               // of the types that are given
	limited   map[string]map[int]bool      // by file: memo of limitsElsewhere
	builds    map[string][]constraint.Expr // by file: memo of buildExprs
}

func newImporter(fset *token.FileSet, roots []*packages.Package) *importer {
	imp := &importer{
		fset:     fset,
		checked:  map[string]*types.Package{},
		byPath:   map[string]*packages.Package{},
		fromText: map[string]bool{},
		units:    map[string]*unit{},
		limited:  map[string]map[int]bool{},
		builds:   map[string][]constraint.Expr{},
	}
	imp.exports = goimporter.ForCompiler(fset, "gc", imp.openExports)
	for _, p := range roots {
		imp.fromText[p.ID] = true
	}
	packages.Visit(roots, nil, func(p *packages.Package) {
		if imp.byPath[p.PkgPath] == nil {
			imp.byPath[p.PkgPath] = p
		}
	})
	return imp
}

// foreignPosition returns a place in what the units import.
func (imp *importer) foreignPosition(pos token.Pos) token.Position {
	if imp.givenFset != nil {
		return imp.givenFset.PositionFor(pos, false)
	}
	return imp.fset.PositionFor(pos, false)
}

// needsSource reports whether p is checked from its source.
func (imp *importer) needsSource(p *packages.Package) bool {
	if known, ok := imp.fromText[p.ID]; ok {
		return known
	}
	imp.fromText[p.ID] = false // a cycle through a broken import ends here
	needs := p.ExportFile == "" && p.PkgPath != "unsafe" || p.ForTest != ""
	for _, dep := range p.Imports {
		needs = needs || imp.needsSource(dep)
	}
	imp.fromText[p.ID] = needs
	return needs
}

// load returns the types of p.
func (imp *importer) load(p *packages.Package) (*types.Package, error) {
	if p.PkgPath == "unsafe" {
		return types.Unsafe, nil
	}
	if u := imp.units[p.ID]; u != nil {
		if pkg := u.check(); pkg != nil {
			return pkg, nil
		}
		return nil, fmt.Errorf("import cycle through %s", p.PkgPath)
	}
	if pkg := imp.checked[p.ID]; pkg != nil {
		return pkg, nil
	}
	if imp.needsSource(p) {
		return imp.loadSource(p)
	}
	return imp.exports.Import(p.PkgPath)
}

// openExports opens the export data of a package, as the importer of the standard library wants it.
func (imp *importer) openExports(path string) (io.ReadCloser, error) {
	p := imp.byPath[path]
	if p == nil || p.ExportFile == "" {
		return nil, fmt.Errorf("no export data for %s", path)
	}
	return os.Open(p.ExportFile)
}

func (imp *importer) loadSource(p *packages.Package) (*types.Package, error) {
	if len(p.GoFiles) == 0 {
		if len(p.Errors) > 0 {
			return nil, errors.New(oneLine(p.Errors[0].Msg))
		}
		return nil, fmt.Errorf("no Go files in %s", p.PkgPath)
	}
	var files []*ast.File
	for _, path := range p.GoFiles {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		f, err := parser.ParseFile(imp.fset, path, text, parser.SkipObjectResolution)
		if f != nil {
			files = append(files, f)
		}
		var list scanner.ErrorList
		if errors.As(err, &list) {
			imp.fault(list[0].Pos, list[0].Msg)
		}
	}
	return imp.check(p, files, nil, func(err types.Error) {
		imp.fault(imp.fset.PositionFor(err.Pos, false), err.Msg)
	}), nil
}

// fault takes note of what is wrong with a package that nothing is generated for.
func (imp *importer) fault(pos token.Position, msg string) {
	imp.faults = append(imp.faults, Finding{Pos: pos, Message: strings.TrimSpace(msg)})
}

// check checks the declarations of files as package p.
func (imp *importer) check(p *packages.Package, files []*ast.File, info *types.Info, report func(types.Error)) *types.Package {
	cfg := imp.config(p, packageImporter{imp, p}, report)
	cfg.IgnoreFuncBodies = true
	pkg, _ := cfg.Check(p.PkgPath, imp.fset, files, info)
	imp.checked[p.ID] = pkg
	return pkg
}

// packageImporter resolves the imports of one package.
type packageImporter struct {
	*importer
	from *packages.Package
}

func (imp packageImporter) Import(path string) (*types.Package, error) {
	if path == "unsafe" {
		return types.Unsafe, nil
	}
	if p := imp.from.Imports[path]; p != nil {
		return imp.load(p)
	}
	if pkg := imp.given[path]; pkg != nil {
		return pkg, nil
	}
	switch path { // of a stub
	case runtimePath:
		return imp.stubbed(path, "ratelimit", "Limiter")
	case fxPath:
		return imp.stubbed(path, "fx", "Option")
	case wirePath:
		return imp.stubbed(path, "wire", "ProviderSet")
	}
	for _, e := range imp.from.Errors {
		if strings.Contains(e.Msg, path) {
			return nil, errors.New(oneLine(e.Msg))
		}
	}
	return nil, fmt.Errorf("no package %s is listed", path)
}

// stubbed returns a package that a stub imports: the real one, or what the stub needs of it where nothing imports
// it yet.
func (imp *importer) stubbed(path, name, typ string) (*types.Package, error) {
	if p := imp.byPath[path]; p != nil {
		return imp.load(p)
	}
	if pkg := imp.checked[path]; pkg != nil {
		return pkg, nil
	}
	pkg := types.NewPackage(path, name)
	named := types.NewTypeName(token.NoPos, pkg, typ, nil)
	types.NewNamed(named, types.NewStruct(nil, nil), nil)
	pkg.Scope().Insert(named)
	pkg.MarkComplete()
	imp.checked[path] = pkg
	return pkg, nil
}

// oneLine returns a message of the go command on one line.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
