package gen

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"go/types"
	"iter"
	"maps"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

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
	places   map[string]token.Pos // of what is declared, by name
	services []*service
	imports  *importer
	broken   bool // a source does not parse
	// invalid is a method of a service whose types could not be found out, nil if there is none.
	invalid *method
	// stubFaults are errors of the type checker in what stands for the code that is about to be generated.
	stubFaults []string
	// only are the sources that the unit is responsible for, nil for all that it compiles.
	only map[string]bool
	// alone is set where the unit is all that is known of its package: of other platforms' files only the text is, and
	// type errors are for others to report.
	alone bool
	// siblings are the units of the package on all platforms, this one among them.
	siblings []*unit
}

func newUnit(sink *findings, imp *importer, p *packages.Package, d *directory) *unit {
	u := &unit{pkg: p, dir: d, fset: imp.fset, sink: sink, imports: imp, declared: names{}, places: map[string]token.Pos{}}
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
		if s.ast.Name.Name != u.pkg.Name {
			continue
		}
		for id := range declaredIn(s.ast) {
			u.declared.add(id.Name)
			if _, known := u.places[id.Name]; !known {
				u.places[id.Name] = id.Pos()
			}
		}
	}
}

// declaredIn returns what the file declares in the package's scope.
func declaredIn(f *ast.File) iter.Seq[*ast.Ident] {
	return func(yield func(*ast.Ident) bool) {
		for _, decl := range f.Decls {
			for _, id := range declaredBy(decl) {
				if id.Name != "_" && id.Name != "init" && !yield(id) {
					return
				}
			}
		}
	}
}

// declaredBy returns the names of one declaration.
func declaredBy(decl ast.Decl) []*ast.Ident {
	var ids []*ast.Ident
	switch decl := decl.(type) {
	case *ast.FuncDecl:
		if decl.Recv == nil {
			ids = append(ids, decl.Name)
		}
	case *ast.GenDecl:
		for _, spec := range decl.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				ids = append(ids, spec.Name)
			case *ast.ValueSpec:
				ids = append(ids, spec.Names...)
			}
		}
	}
	return ids
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
		pos := u.fset.PositionFor(err.Pos, false)
		more := strings.HasPrefix(err.Msg, "\t") // of the error before
		switch {
		case u.alone, more && len(u.stubFaults) > 0:
		case own[pos.Filename]:
			u.sink.errorf(pos, "%s", strings.TrimSpace(err.Msg))
		case pos.Filename == "":
			u.stubFaults = append(u.stubFaults, strings.TrimSpace(err.Msg))
		}
	})
	return u.types
}

// checkRest reports what nothing else was to blame for: types that could not be found out, because of a package that
// does not compile, and code that could not be declared.
func (u *unit) checkRest() {
	if u.sink.failed() || u.alone {
		return
	}
	if m := u.invalid; m != nil {
		u.sink.list = append(u.sink.list, u.imports.faults...)
		if len(u.imports.faults) == 0 && !u.importsAs("C") { // the printer knows what to say of types of C
			u.errorf(m.pos, "%s has a type that could not be found out, want a package that compiles; run go vet", m.fn.Name())
		}
	}
	pos := u.sources[0].ast.Name.Pos()
	if len(u.services) > 0 {
		pos = u.services[0].spec.Name.Pos()
	}
	for _, fault := range u.stubFaults {
		u.errorf(pos, "what is generated here does not fit the package: %s", fault)
	}
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
func (u *unit) errorf(pos token.Pos, format string, args ...any) *Finding {
	return u.sink.errorf(u.position(pos), format, args...)
}

// warnf warns at a place of the unit.
func (u *unit) warnf(pos token.Pos, format string, args ...any) {
	u.sink.warnf(u.position(pos), format, args...)
}
