package gen

import (
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"go/types"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/tools/go/packages"
)

// directory is one directory that the patterns name.
type directory struct {
	path      string
	files     map[string][]byte // every Go file in it, by absolute path
	generated []string          // those that carry our header, sorted
	hit       bool              // a file that a person wrote may have a directive
	testHit   bool              // and so may a test file
}

// loader finds packages and gives them types.
type loader struct {
	cfg  Config
	ctx  context.Context
	sink *findings
}

func (l *loader) config(mode packages.LoadMode) *packages.Config {
	return &packages.Config{
		Mode:       mode,
		Context:    l.ctx,
		Dir:        l.cfg.Dir,
		Env:        l.cfg.Env,
		BuildFlags: l.cfg.BuildFlags,
		Fset:       token.NewFileSet(),
	}
}

// directories lists the patterns and reads the Go files of the directories that they name.
func (l *loader) directories() ([]*directory, error) {
	cfg := l.config(packages.NeedName | packages.NeedFiles)
	cfg.Tests = true
	listed, err := packages.Load(cfg, l.cfg.Patterns...)
	if err != nil {
		return nil, err
	}
	byPath := map[string]*directory{}
	var dirs []*directory
	for _, p := range listed {
		files := slices.Concat(p.GoFiles, p.IgnoredFiles)
		if strings.HasSuffix(p.ID, ".test") || len(files) == 0 {
			l.listErrors(p, byPath[p.Dir])
			continue
		}
		path := filepath.Dir(files[0])
		d := byPath[path]
		if d == nil {
			if d, err = readDirectory(path); err != nil {
				return nil, err
			}
			byPath[path] = d
			dirs = append(dirs, d)
		}
		l.listErrors(p, d)
	}
	for _, path := range l.unlisted() {
		if byPath[path] != nil {
			continue
		}
		d, err := readDirectory(path)
		if err != nil {
			return nil, err
		}
		if d.hit || len(d.generated) > 0 {
			dirs = append(dirs, d)
		}
	}
	slices.SortFunc(dirs, func(a, b *directory) int { return strings.Compare(a.path, b.path) })
	return dirs, nil
}

// unlisted returns the directories that patterns such as ./... stand for: go list leaves out those of which this
// platform builds no file.
func (l *loader) unlisted() []string {
	var dirs []string
	for _, pattern := range l.cfg.Patterns {
		root, ok := strings.CutSuffix(pattern, "/...")
		if !ok || !strings.HasPrefix(pattern, ".") && !filepath.IsAbs(pattern) {
			continue
		}
		if !filepath.IsAbs(root) {
			root = filepath.Join(l.cfg.Dir, root)
		}
		_ = filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
			switch {
			case err != nil || !e.IsDir():
				return nil
			case path != root && skipped(path):
				return fs.SkipDir
			}
			dirs = append(dirs, path)
			return nil
		})
	}
	return dirs
}

// skipped reports whether ./... leaves a directory out: testdata, vendor, _x, .x and other modules.
func skipped(path string) bool {
	name := filepath.Base(path)
	if name == "testdata" || name == "vendor" || name[0] == '_' || name[0] == '.' {
		return true
	}
	_, err := os.Stat(filepath.Join(path, "go.mod"))
	return err == nil
}

// listErrors reports what go list says of a package that is not looked into any further: nothing else would say it.
func (l *loader) listErrors(p *packages.Package, d *directory) {
	if d != nil {
		return
	}
	for _, e := range p.Errors {
		l.sink.errorf(parsePosition(e.Pos), "%s", strings.TrimSpace(e.Msg))
	}
}

// parsePosition reads "file:line:col", "file:line" or "-".
func parsePosition(text string) token.Position {
	var pos token.Position
	parts := strings.Split(text, ":")
	if len(parts) < 2 {
		return pos
	}
	pos.Filename = parts[0]
	pos.Line, _ = strconv.Atoi(parts[1])
	if len(parts) > 2 {
		pos.Column, _ = strconv.Atoi(parts[2])
	}
	return pos
}

func readDirectory(path string) (*directory, error) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	d := &directory{path: path, files: map[string][]byte{}}
	for _, e := range entries {
		name := e.Name()
		if e.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasPrefix(name, "_") || strings.HasPrefix(name, ".") {
			continue
		}
		file := filepath.Join(path, name)
		text, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) { // a link to nowhere, as editors leave for locks
			continue
		}
		if err != nil {
			return nil, err
		}
		d.files[file] = text
		switch {
		case hasHeader(text):
			d.generated = append(d.generated, file)
		case mentions(text):
			d.hit = true
			d.testHit = d.testHit || strings.HasSuffix(name, "_test.go")
		}
	}
	return d, nil
}

// units gives types to the packages of the directories that may have directives.
func (l *loader) units(dirs []*directory) ([]*unit, error) {
	var patterns []string
	tests := false
	overlay := map[string][]byte{}
	byPath := map[string]*directory{}
	for _, d := range dirs {
		if !d.hit {
			continue
		}
		patterns = append(patterns, d.path)
		byPath[d.path] = d
		tests = tests || d.testHit
		for _, file := range d.generated {
			if clause := clauseOf(d.files[file]); clause != nil {
				overlay[file] = clause
			}
		}
	}
	if len(patterns) == 0 {
		return nil, nil
	}
	cfg := l.config(packages.NeedName | packages.NeedFiles | packages.NeedImports | packages.NeedDeps |
		packages.NeedExportFile | packages.NeedTypesSizes | packages.NeedModule | packages.NeedForTest)
	cfg.Tests = tests
	cfg.Overlay = overlay
	roots, err := packages.Load(cfg, patterns...)
	if err != nil {
		return nil, err
	}
	imp := newImporter(cfg.Fset, roots)
	var units []*unit
	for _, p := range preferTests(roots) {
		if len(p.GoFiles) == 0 {
			continue
		}
		if d := byPath[filepath.Dir(p.GoFiles[0])]; d != nil {
			u := newUnit(l.sink, imp, p, d)
			imp.units[p.ID] = u
			units = append(units, u)
		}
	}
	slices.SortStableFunc(units, func(a, b *unit) int { return strings.Compare(a.pkg.PkgPath, b.pkg.PkgPath) })
	shareExcluded(units, byPath)
	return units, nil
}

// clauseOf returns what go list is to see of a generated file that it could not read: its package clause. It
// returns nil for a file in order.
func clauseOf(text []byte) []byte {
	fset := token.NewFileSet()
	if _, err := parser.ParseFile(fset, "", text, parser.SkipObjectResolution); err == nil {
		return nil
	}
	f, _ := parser.ParseFile(fset, "", text, parser.PackageClauseOnly)
	if f == nil || f.Name == nil {
		return nil
	}
	return text[:fset.Position(f.Name.End()).Offset]
}

// preferTests drops the main packages of tests, and a package that also stands there with its test files.
func preferTests(roots []*packages.Package) []*packages.Package {
	withTests := map[string]bool{}
	for _, p := range roots {
		if p.ForTest == p.PkgPath && p.ForTest != "" {
			withTests[p.PkgPath] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(roots), func(p *packages.Package) bool {
		return strings.HasSuffix(p.ID, ".test") || p.ForTest == "" && withTests[p.PkgPath]
	})
}

// unit is one package, as one compilation sees it.
type unit struct {
	pkg   *packages.Package
	dir   *directory
	fset  *token.FileSet
	sink  *findings
	types *types.Package
	info  *types.Info
	// sources are the package's files but for the generated ones, and with them excluded ones; by name.
	sources []*source
	// declared are the names that the files declare in the package's scope, excluded files and tests included.
	declared names
	services []*service
	imports  *importer
	broken   bool // a source does not parse
	// only are the sources that the unit is responsible for, nil for all that it compiles.
	only map[string]bool
	// siblings are the units of the package on all platforms, this one among them.
	siblings []*unit
}

func newUnit(sink *findings, imp *importer, p *packages.Package, d *directory) *unit {
	u := &unit{pkg: p, dir: d, fset: imp.fset, sink: sink, imports: imp, declared: names{}}
	for _, path := range slices.Sorted(slices.Values(p.GoFiles)) {
		text, ok := d.files[path]
		if ok && !slices.Contains(d.generated, path) {
			u.parse(path, text, false)
		}
	}
	return u
}

func (u *unit) parse(path string, text []byte, excluded bool) {
	file, err := parser.ParseFile(u.fset, path, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil && !excluded {
		u.broken = true
		u.syntaxErrors(err)
	}
	if file == nil {
		return
	}
	u.sources = append(u.sources, &source{path: path, text: text, ast: file, excluded: excluded})
}

func (u *unit) syntaxErrors(err error) {
	var list scanner.ErrorList
	if !errors.As(err, &list) {
		u.sink.errorf(token.Position{}, "%v", err)
		return
	}
	for _, e := range list {
		u.sink.errorf(e.Pos, "%s", e.Msg)
	}
}

// shareExcluded adds to the first unit of each directory the files that no unit of it compiles, so that their
// directives are seen, and to all of them the names that any file declares.
func shareExcluded(units []*unit, dirs map[string]*directory) {
	first := map[*directory]*unit{}
	compiled := map[string]bool{}
	for _, u := range units {
		if first[u.dir] == nil {
			first[u.dir] = u
		}
		for _, s := range u.sources {
			compiled[s.path] = true
		}
	}
	for _, d := range dirs {
		u := first[d]
		if u == nil {
			continue
		}
		for _, path := range slices.Sorted(maps.Keys(d.files)) {
			if !compiled[path] && !slices.Contains(d.generated, path) {
				u.parse(path, d.files[path], true)
			}
		}
	}
	for _, u := range units {
		for _, other := range units {
			if other.dir == u.dir {
				u.declareAll(other.sources)
			}
		}
	}
}

func (u *unit) declareAll(sources []*source) {
	for _, s := range sources {
		if s.ast.Name.Name == u.pkg.Name {
			declaredNames(s.ast, u.declared)
		}
	}
}

// declaredNames adds what the file declares in the package's scope.
func declaredNames(f *ast.File, to names) {
	for _, decl := range f.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			if decl.Recv == nil {
				to.add(decl.Name.Name)
			}
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					to.add(spec.Name.Name)
				case *ast.ValueSpec:
					for _, name := range spec.Names {
						to.add(name.Name)
					}
				}
			}
		}
	}
	delete(to, "_")
	delete(to, "init")
}

// check gives types to the unit's declarations, once, and reports what is wrong with them. Function bodies are not
// looked at.
func (u *unit) check() *types.Package {
	if u.info != nil {
		return u.types
	}
	u.info = &types.Info{
		Types:     map[ast.Expr]types.TypeAndValue{},
		Defs:      map[*ast.Ident]types.Object{},
		Uses:      map[*ast.Ident]types.Object{},
		Implicits: map[ast.Node]types.Object{},
		Scopes:    map[ast.Node]*types.Scope{},
	}
	var files []*ast.File
	own := map[string]bool{}
	for _, s := range u.sources {
		if !s.excluded {
			files = append(files, s.ast)
			own[s.path] = true
		}
	}
	u.types = u.imports.check(u.pkg, files, u.info, func(err types.Error) {
		if pos := u.fset.PositionFor(err.Pos, false); own[pos.Filename] {
			u.sink.errorf(pos, "%s", strings.TrimSpace(err.Msg))
		}
	})
	return u.types
}

// source returns the source that has pos, nil if none has.
func (u *unit) source(pos token.Pos) *source {
	for _, s := range u.sources {
		if s.ast.FileStart <= pos && pos <= s.ast.FileEnd {
			return s
		}
	}
	return nil
}

// position returns pos as the file has it, whatever its //line comments say.
func (u *unit) position(pos token.Pos) token.Position { return u.fset.PositionFor(pos, false) }

// external reports whether the unit is a package of tests beside the one that it tests.
func (u *unit) external() bool { return u.pkg.ForTest != "" && u.pkg.ForTest != u.pkg.PkgPath }

// errorf reports at a place of the unit.
func (u *unit) errorf(pos token.Pos, format string, args ...any) {
	u.sink.errorf(u.position(pos), format, args...)
}

// warnf warns at a place of the unit.
func (u *unit) warnf(pos token.Pos, format string, args ...any) {
	u.sink.warnf(u.position(pos), format, args...)
}
