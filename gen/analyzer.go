package gen

import (
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/unitchecker"
	"golang.org/x/tools/go/packages"
)

// Analyzer reports what [Run] reports of each package, with the mends as suggested fixes, and generated files that are
// missing or whose hash is not that of their source. It looks at the files that rlgen did not write, and knows one
// package on one platform: what is wrong between packages is for rlgen check to find, and so are the directives of other
// platforms' files, which go vet does not read again when they alone change.
var Analyzer = newAnalyzer()

func newAnalyzer() *analysis.Analyzer {
	a := &analysis.Analyzer{
		Name: "ratelimit",
		Doc: `check the directives of rate limits

Every comment that is, or nearly is, a directive (//ratelimit:user 10,1s) must be one that rlgen
understands, on a method or a type that it can limit, and what rlgen generated must be of the
directives and signatures that stand there now.`,
		URL: "https://pkg.go.dev/github.com/rlgen/rlgen/gen",
		// Code may name what is not generated yet: that is to be said, not that it has no types.
		RunDespiteErrors: true,
	}
	warnings := a.Flags.Bool("warnings", true, "report what is likely a mistake and does not stand in the way of generating")
	a.Run = func(pass *analysis.Pass) (any, error) {
		p := &passUnit{pass: pass, files: map[string]*token.File{}}
		found, err := p.findings()
		for _, f := range found {
			if !f.Warning || *warnings {
				p.report(f)
			}
		}
		return nil, err
	}
	return a
}

// Tool is the program's main function where the go command calls it as its -vettool or -fixtool: it runs the [Analyzer]
// as the arguments say, and ends the program.
func Tool() { unitchecker.Main(Analyzer) }

// passUnit is the unit of an analysis pass.
type passUnit struct {
	pass  *analysis.Pass
	dir   *directory
	files map[string]*token.File // the pass's own, by path
}

// findings returns what is to be said of the pass's package.
func (p *passUnit) findings() ([]Finding, error) {
	paths, err := p.read()
	if err != nil || !p.dir.hit && len(p.dir.generated) == 0 {
		return nil, err
	}
	sink := &findings{}
	u := newUnit(sink, p.importer(), p.pkg(paths), p.dir)
	u.alone = true
	units := []*unit{u}
	shareExcluded(units, map[string]*directory{p.dir.path: p.dir})
	setSiblings(units)
	checkAll(sink, units)
	if !sink.failed() && !u.broken {
		u.drift()
	}
	return sink.sorted(), nil
}

// read reads the files of the pass, and returns the paths of those that it compiles.
func (p *passUnit) read() (compiled []string, err error) {
	p.dir = &directory{files: map[string][]byte{}}
	for _, f := range p.pass.Files {
		file := p.pass.Fset.File(f.FileStart)
		path := file.Name()
		switch name := filepath.Base(path); {
		case name == "_cgo_gotypes.go":
			continue
		case strings.HasSuffix(name, ".cgo1.go"): // what cgo made of the file that its //line comments name
			path = p.pass.Fset.Position(f.Name.Pos()).Filename
		}
		p.files[path] = file
		compiled = append(compiled, path)
	}
	for _, path := range slices.Concat(compiled, p.pass.IgnoredFiles) {
		if !strings.HasSuffix(path, ".go") {
			continue
		}
		text, err := p.readFile(path)
		if err != nil {
			return nil, err
		}
		p.dir.path = filepath.Dir(path)
		p.dir.add(path, text)
	}
	return compiled, nil
}

// readFile reads a file of the package, or one that cgo made such a file from, which passes do not know.
func (p *passUnit) readFile(path string) ([]byte, error) {
	if file := p.files[path]; file != nil && file.Name() != path {
		return os.ReadFile(path)
	}
	return p.pass.ReadFile(path)
}

// pkg describes the pass's package as a load would.
func (p *passUnit) pkg(compiled []string) *packages.Package {
	path, _, _ := strings.Cut(p.pass.Pkg.Path(), " [")
	pkg := &packages.Package{
		ID:         path,
		Name:       p.pass.Pkg.Name(),
		PkgPath:    path,
		GoFiles:    compiled,
		TypesSizes: p.pass.TypesSizes,
		Module:     &packages.Module{GoVersion: strings.TrimPrefix(p.pass.Pkg.GoVersion(), "go")},
	}
	tests := !slices.ContainsFunc(compiled, func(path string) bool { return !strings.HasSuffix(path, "_test.go") })
	if tested, ok := strings.CutSuffix(path, "_test"); ok && tests {
		pkg.ForTest = tested
	}
	return pkg
}

// importer returns what gives the unit the types of the packages that the pass's files import.
func (p *passUnit) importer() *importer {
	imp := newImporter(token.NewFileSet(), nil)
	imp.given, imp.givenFset = map[string]*types.Package{}, p.pass.Fset
	for _, f := range p.pass.Files {
		for _, spec := range f.Imports {
			path, err := strconv.Unquote(spec.Path.Value)
			if name := p.pass.TypesInfo.PkgNameOf(spec); err == nil && name != nil {
				imp.given[path] = name.Imported()
			}
		}
	}
	if imp.given["context"] == nil {
		imp.given["context"] = imported(p.pass.Pkg, "context", map[*types.Package]bool{})
	}
	return imp
}

// imported returns the package of a path among those that pkg imports, directly or not; nil if it is not among them.
func imported(pkg *types.Package, path string, seen map[*types.Package]bool) *types.Package {
	for _, dep := range pkg.Imports() {
		if dep.Path() == path {
			return dep
		}
		if !seen[dep] {
			seen[dep] = true
			if found := imported(dep, path, seen); found != nil {
				return found
			}
		}
	}
	return nil
}

// report reports a finding as a diagnostic of the pass.
func (p *passUnit) report(f Finding) {
	d := analysis.Diagnostic{Pos: p.pos(f.Pos), Category: "error", Message: f.Message}
	if f.Warning {
		d.Category, d.Message = "warning", "warning: "+f.Message
	}
	if fix, ok := p.fix(f.Mend); ok {
		d.SuggestedFixes = []analysis.SuggestedFix{fix}
	}
	p.pass.Report(d)
}

// fix returns a mend as a fix of the pass's files; not ok if another has to be changed.
func (p *passUnit) fix(m *Mend) (fix analysis.SuggestedFix, ok bool) {
	if m == nil {
		return fix, false
	}
	fix.Message = m.Message
	for _, e := range m.Edits {
		file := p.files[e.Filename]
		if file == nil || file.Name() != e.Filename || e.End > file.Size() {
			return fix, false
		}
		fix.TextEdits = append(fix.TextEdits, analysis.TextEdit{Pos: file.Pos(e.Start), End: file.Pos(e.End), NewText: []byte(e.Text)})
	}
	return fix, true
}

// pos returns a place in the pass's files: the same byte of the same file, of what cgo made the same line.
func (p *passUnit) pos(at token.Position) token.Pos {
	file := p.files[at.Filename]
	if file == nil {
		return p.ignoredPos(at)
	}
	if file.Name() == at.Filename {
		return file.Pos(min(at.Offset, file.Size()))
	}
	for line := 1; line <= file.LineCount(); line++ {
		start := file.LineStart(line)
		if pos := p.pass.Fset.Position(start); pos.Filename == at.Filename && pos.Line == at.Line {
			return min(start+token.Pos(at.Column-1), token.Pos(file.Base()+file.Size()))
		}
	}
	return token.Pos(file.Base())
}

// ignoredPos returns a place in a file that the pass does not compile, or the package's first place where there is none.
func (p *passUnit) ignoredPos(at token.Position) token.Pos {
	text, ok := p.dir.files[at.Filename]
	if !ok {
		return p.first()
	}
	file := p.pass.Fset.AddFile(at.Filename, -1, len(text))
	file.SetLinesForContent(text)
	p.files[at.Filename] = file
	return file.Pos(min(at.Offset, len(text)))
}

func (p *passUnit) first() token.Pos {
	if len(p.pass.Files) == 0 {
		return token.NoPos
	}
	return p.pass.Files[0].Package
}

// drift reports what is generated otherwise than the unit's directives and types say now.
func (u *unit) drift() {
	p, di := planAll([]*unit{u})[u], DI{Found: true}.in(u.dir)
	u.planProviders(p, di)
	if u.sink.failed() {
		return
	}
	made := map[string]bool{}
	for _, o := range append(u.outputs(p), u.diOutputs(p, di)...) {
		made[o.path] = true
		if text, ok := u.dir.files[o.path]; !ok || !hasHeader(text) || !(o.spread && u.hasElsewhere()) {
			u.compare(o)
		}
	}
	if u.hasElsewhere() {
		return
	}
	for _, path := range u.dir.generated {
		if !made[path] && !isEmptied(u.dir.files[path]) && slices.Contains(u.pkg.GoFiles, path) {
			u.sink.errorf(clausePosition(path, u.dir.files[path]), "no directive makes %s any longer; run go generate", filepath.Base(path))
		}
	}
}

// compare reports a file that is missing, or made from something else.
func (u *unit) compare(o *output) {
	name := filepath.Base(o.path)
	switch text, ok := u.dir.files[o.path]; {
	case !ok:
		u.errorf(o.source, "%s, which limits what the directives here say, is missing; run go generate", name)
	case !hasHeader(text):
		u.errorf(o.source, "%s stands where rlgen writes what it generates, and rlgen did not write it; rename it", name)
	case hashOf(text) != o.hash():
		u.errorf(o.source, "%s is not what its source makes now; run go generate", name)
	}
}

// clausePosition returns the place of a file's package clause.
func clausePosition(path string, text []byte) token.Position {
	fset := token.NewFileSet()
	f, _ := parser.ParseFile(fset, path, text, parser.PackageClauseOnly)
	if f == nil || !f.Package.IsValid() {
		return token.Position{Filename: path, Line: 1, Column: 1}
	}
	return fset.PositionFor(f.Package, false)
}

// hasElsewhere reports whether a file that the unit does not compile has directives, or methods that directives hold
// for: then a concrete type may have limits that the unit does not know.
func (u *unit) hasElsewhere() bool {
	limited := limitedElsewhere(u.dir, []*unit{u})
	return slices.ContainsFunc(u.sources, func(s *source) bool {
		return s.excluded && (mentions(s.text) || declaresOf(s.ast, limited))
	})
}
