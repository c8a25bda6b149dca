package gen

import (
	"bytes"
	"context"
	"errors"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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
	listed    bool              // go list knows of a package in it
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

// load reads the directories that the patterns name, and gives types to the packages in them. It has go list say what the
// patterns name only where the file system does not: that takes half as long as the rest of loading.
func (l *loader) load() ([]*directory, []*unit, error) {
	if dirs := l.walked(); len(dirs) > 0 {
		units, err := l.units(dirs)
		if err == nil && !slices.ContainsFunc(dirs, func(d *directory) bool { return d.hit && !d.listed }) {
			return dirs, units, nil
		}
		*l.sink = findings{}
	}
	dirs, err := l.directories()
	if err != nil {
		return nil, nil, err
	}
	units, err := l.units(dirs)
	return dirs, units, err
}

// walked returns the directories that there is something to do in, by their paths, where all patterns are paths and each of
// them names one that may have directives. It returns none else: then go list knows what they name, or what is wrong with them.
func (l *loader) walked() []*directory {
	byPath := map[string]*directory{}
	for _, pattern := range l.patterns() {
		hit := false
		for _, path := range l.below(pattern) {
			d, err := byPath[path], error(nil)
			if d == nil {
				d, err = readDirectory(path)
			}
			if err != nil {
				return nil
			}
			hit = hit || d.hit
			byPath[path] = d
		}
		if !hit {
			return nil
		}
	}
	maps.DeleteFunc(byPath, func(_ string, d *directory) bool { return !d.hit && len(d.generated) == 0 })
	dirs := slices.Collect(maps.Values(byPath))
	slices.SortFunc(dirs, func(a, b *directory) int { return strings.Compare(a.path, b.path) })
	return dirs
}

// patterns returns what names the packages.
func (l *loader) patterns() []string {
	if len(l.cfg.Patterns) == 0 {
		return []string{"."}
	}
	return l.cfg.Patterns
}

// below returns the directories that a pattern stands for, none where it is not a path.
func (l *loader) below(pattern string) []string {
	path, all := strings.CutSuffix(pattern, "/...")
	switch {
	case strings.Contains(path, "..."):
		return nil
	case filepath.IsAbs(path):
		path = filepath.Clean(path)
	case path == "." || path == ".." || strings.HasPrefix(path, "./") || strings.HasPrefix(path, "../"):
		path = filepath.Join(l.cfg.Dir, path)
	default:
		return nil
	}
	if all {
		return walk(path)
	}
	return []string{path}
}

// directories lists the patterns and reads the Go files of the directories that they name.
func (l *loader) directories() ([]*directory, error) {
	cfg := l.config(packages.NeedName | packages.NeedFiles)
	cfg.Tests = true
	listed, err := packages.Load(cfg, l.cfg.Patterns...)
	if err != nil {
		return nil, loadError(err)
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

// unlisted returns the directories that patterns such as ./... and example.com/m/... stand for: go list leaves out those
// of which this platform builds no file.
func (l *loader) unlisted() []string {
	var dirs []string
	for _, root := range l.roots() {
		dirs = append(dirs, walk(root)...)
	}
	return dirs
}

// walk returns the directories at and below root that root/... stands for.
func walk(root string) []string {
	var dirs []string
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
	return dirs
}

// roots returns the directories below which the patterns with dots mean every package.
func (l *loader) roots() []string {
	var roots []string
	for _, pattern := range l.cfg.Patterns {
		root, ok := strings.CutSuffix(pattern, "/...")
		switch {
		case pattern == "all" || pattern == "...":
			for _, m := range l.mainModules() {
				roots = append(roots, m.dir)
			}
		case !ok:
		case filepath.IsAbs(root):
			roots = append(roots, root)
		case strings.HasPrefix(root, "."):
			roots = append(roots, filepath.Join(l.cfg.Dir, root))
		default:
			for _, m := range l.mainModules() {
				if rest, ok := strings.CutPrefix(root+"/", m.path+"/"); ok {
					roots = append(roots, filepath.Join(m.dir, filepath.FromSlash(rest)))
				}
			}
		}
	}
	return roots
}

// mainModule is a module that the go command works in.
type mainModule struct{ path, dir string }

// mainModules returns the modules of the workspace, or the one that the directory is in.
func (l *loader) mainModules() []mainModule {
	cmd := exec.CommandContext(l.ctx, "go", "list", "-m", "-f={{if .Main}}{{.Path}}\t{{.Dir}}{{end}}")
	cmd.Dir, cmd.Env = l.cfg.Dir, l.cfg.Env
	out, err := cmd.Output()
	if err != nil {
		return nil // go list says why
	}
	var modules []mainModule
	for line := range strings.Lines(string(out)) {
		if path, dir, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok {
			modules = append(modules, mainModule{path, dir})
		}
	}
	return modules
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

// loadError returns what the go command said, without what package packages puts before it.
func loadError(err error) error {
	if _, said, ok := strings.Cut(err.Error(), "stderr: "); ok && strings.TrimSpace(said) != "" {
		return errors.New(strings.TrimSpace(said))
	}
	return err
}

// listErrors reports what go list says of a package that is not looked into any further: nothing else would say it.
func (l *loader) listErrors(p *packages.Package, d *directory) {
	if d != nil {
		return
	}
	for _, e := range p.Errors {
		l.sink.errorf(parsePosition(e.Pos), "%s", oneLine(e.Msg))
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
		d.add(file, text)
	}
	return d, nil
}

// add adds a Go file.
func (d *directory) add(path string, text []byte) {
	d.files[path] = text
	switch {
	case isGenerated(path, text):
		d.generated = append(d.generated, path)
	case mentions(text):
		d.hit = true
		d.testHit = d.testHit || strings.HasSuffix(path, "_test.go")
	}
}

// units gives types to the packages of the directories that may have directives.
func (l *loader) units(dirs []*directory) ([]*unit, error) {
	var patterns []string
	tests := false
	var generated []string
	byPath := map[string]*directory{}
	for _, d := range dirs {
		if !d.hit {
			continue
		}
		patterns = append(patterns, d.path)
		byPath[d.path] = d
		tests = tests || d.testHit
		generated = append(generated, d.generated...)
	}
	if len(patterns) == 0 {
		return nil, nil
	}
	cfg := l.config(packages.NeedName | packages.NeedFiles | packages.NeedImports | packages.NeedDeps |
		packages.NeedExportFile | packages.NeedTypesSizes | packages.NeedModule | packages.NeedForTest)
	cfg.Tests = tests
	roots, err := packages.Load(cfg, patterns...)
	if err != nil || slices.ContainsFunc(roots, unsound) {
		if cfg.Overlay = clausesOf(byPath, generated); len(cfg.Overlay) > 0 {
			roots, err = packages.Load(cfg, patterns...)
		}
	}
	if err != nil {
		return nil, loadError(err)
	}
	for _, p := range roots {
		if files := slices.Concat(p.GoFiles, p.IgnoredFiles); len(files) > 0 && byPath[filepath.Dir(files[0])] != nil {
			byPath[filepath.Dir(files[0])].listed = true
		}
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
	return units, l.stubDependencies(imp, roots, byPath)
}

// stubDependencies stubs the packages of the main module that the roots import and that nothing is generated for now: what
// they are about to get may be missing, or stale. What is wrong with them is for another run to say.
func (l *loader) stubDependencies(imp *importer, roots []*packages.Package, dirs map[string]*directory) error {
	var failed error
	packages.Visit(roots, nil, func(p *packages.Package) {
		if imp.units[p.ID] != nil || len(p.GoFiles) == 0 || p.Module == nil || !p.Module.Main || strings.HasSuffix(p.ID, ".test") {
			return
		}
		path := filepath.Dir(p.GoFiles[0])
		d, err := dirs[path], error(nil)
		if d == nil {
			if d, err = readDirectory(path); err != nil {
				failed = errors.Join(failed, err)
				return
			}
			dirs[path] = d
		}
		if !d.hit {
			return
		}
		u := newUnit(&findings{}, imp, p, d)
		u.declareAll(u.sources)
		u.collect()
		if !u.broken {
			imp.units[p.ID] = u
			imp.fromText[p.ID] = true
			u.stub()
		}
	})
	return failed
}

// unsound reports whether something is wrong with a package, so that a generated file may be.
func unsound(p *packages.Package) bool { return len(p.Errors) > 0 || p.ExportFile == "" }

// clausesOf returns what go list is to see of generated files that it could not read.
func clausesOf(dirs map[string]*directory, generated []string) map[string][]byte {
	overlay := map[string][]byte{}
	for _, file := range generated {
		if clause := dirs[filepath.Dir(file)].clauseOf(file); clause != nil {
			overlay[file] = clause
		}
	}
	return overlay
}

var packageClause = regexp.MustCompile(`(?m)^package[ \t]+([\pL_][\pL\pN_]*)`)

// clauseOf returns what go list is to see of a generated file that it could not read, of which a merge may have left
// anything: its build constraint and its package clause. It returns nil for a file in order.
func (d *directory) clauseOf(path string) []byte {
	text := d.files[path]
	if _, err := parser.ParseFile(token.NewFileSet(), "", text, parser.SkipObjectResolution); err == nil {
		return nil
	}
	var clause []byte
	for line := range bytes.Lines(text) {
		if constraint.IsGoBuild(strings.TrimSpace(string(line))) {
			clause = append(clause, line...)
			clause = append(clause, '\n')
			break
		}
	}
	name := d.packageName(path)
	if m := packageClause.FindSubmatch(text); m != nil {
		name = string(m[1])
	}
	return append(clause, "package "+name+"\n"...)
}

// packageName returns the package of a generated file by that of its source, or of another file of the directory.
func (d *directory) packageName(generated string) string {
	base, suffix := splitName(filepath.Base(generated))
	source := filepath.Join(d.path, strings.TrimSuffix(base, "_ratelimit")+suffix)
	for _, path := range append([]string{source}, slices.Sorted(maps.Keys(d.files))...) {
		f, err := parser.ParseFile(token.NewFileSet(), "", d.files[path], parser.PackageClauseOnly)
		if err == nil && path != generated && (path == source || !strings.HasSuffix(path, "_test.go")) {
			return f.Name.Name
		}
	}
	return "main"
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
