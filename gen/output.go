package gen

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"go/types"
	"iter"
	"maps"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// File is one file that a run generates.
type File struct {
	// Path is absolute.
	Path string
	Text []byte
}

// output is one file to generate, before it is text.
type output struct {
	unit *unit
	path string
	from []string // names of the sources, none for what is made of the package
	// build is the //go:build line, empty for none.
	build string
	// aliases are the names by which the source imports packages, by path.
	aliases map[string]string
	body    func(*writer)
	// inputs say what the file is made from, for its hash.
	inputs []string
	// excluded is set if the current platform does not compile the file, or may not.
	excluded bool
	// spread is set where files of other platforms have a part in what the file is.
	spread bool
	// source is the place, in a file that a person wrote, that the file is for.
	source token.Pos
}

// writer writes the body of one file.
type writer struct {
	unit *unit
	// scope are the names that the file's scope and those around it know.
	scope names
	// imports has the name of each imported package by its path, wanted those that were asked for.
	imports map[string]string
	wanted  map[string]string
	buf     bytes.Buffer
	// problems are types that cannot be written, at the places that need them.
	problems []problem
}

type problem struct {
	pos  token.Pos
	text string
}

func (w *writer) problem(pos token.Pos, format string, args ...any) {
	w.problems = append(w.problems, problem{pos, fmt.Sprintf(format, args...)})
}

func (w *writer) printf(format string, args ...any) { fmt.Fprintf(&w.buf, format, args...) }

// qualify returns the name by which the file imports a package.
func (w *writer) qualify(path, name string) string {
	w.wanted[path] = name
	if known, ok := w.imports[path]; ok {
		return known
	}
	return name
}

func (w *writer) qualifier(pkg *types.Package) string { return w.qualify(pkg.Path(), pkg.Name()) }

// predeclared returns a name of the universe. Where the package declares the name, that is reported there.
func (w *writer) predeclared(name string) string {
	if w.unit.declared.has(name) {
		w.problem(w.unit.places[name], "the package declares %s, which hides what generated code means by that name; rename it", name)
	}
	return name
}

// render returns the file, not formatted yet. The body is written once more where it names other packages than the file that it is
// to replace: first to learn which, then with the names that they get. Where a type cannot be written, that is reported and there is no text.
func (o *output) render(planned names) File {
	former := o.formerImports()
	w := o.write(planned, former)
	if !maps.Equal(w.wanted, former) {
		w = o.write(planned, w.wanted)
	}
	for _, p := range w.problems {
		o.unit.errorf(p.pos, "%s", p.text)
	}
	if len(w.problems) > 0 {
		return File{Path: o.path}
	}
	var buf bytes.Buffer
	buf.WriteString(header(strings.Join(o.from, ", ")) + "\n" + hashPrefix + o.hash() + "\n\n")
	if o.build != "" {
		buf.WriteString(o.build + "\n\n")
	}
	fmt.Fprintf(&buf, "package %s\n\n", o.unit.pkg.Name)
	writeImports(&buf, w.imports, w.wanted)
	buf.Write(w.buf.Bytes())
	return File{Path: o.path, Text: buf.Bytes()}
}

// write returns the body of a file that names these packages, by their paths.
func (o *output) write(planned names, packages map[string]string) *writer {
	scope := predeclaredNames().with(planned, o.unit.declared)
	w := &writer{unit: o.unit, scope: scope, imports: o.nameImports(packages, scope), wanted: map[string]string{}}
	o.body(w)
	return w
}

// formerImports returns the packages that the file imports which o is to replace, and their names, as far as they are known.
func (o *output) formerImports() map[string]string {
	text, ok := o.unit.dir.files[o.path]
	if !ok {
		return nil
	}
	file, err := parser.ParseFile(token.NewFileSet(), "", text, parser.ImportsOnly)
	if err != nil {
		return nil
	}
	packages := map[string]string{}
	for _, spec := range file.Imports {
		imported, _ := strconv.Unquote(spec.Path.Value)
		packages[imported] = path.Base(imported)
		if p := o.unit.imports.byPath[imported]; p != nil {
			packages[imported] = p.Name
		}
	}
	return packages
}

// formatAll formats the texts of files, which is most of what rendering takes, on all processors as they come. Files without a text it returns as they are.
func formatAll(files iter.Seq[*File]) error {
	next := make(chan *File)
	var (
		workers sync.WaitGroup
		mu      sync.Mutex
		errs    []error
	)
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for f := range next {
				if err := f.format(); err != nil {
					mu.Lock()
					errs = append(errs, err)
					mu.Unlock()
				}
			}
		})
	}
	for f := range files {
		next <- f
	}
	close(next)
	workers.Wait()
	return errors.Join(errs...)
}

func (f *File) format() error {
	text, err := format.Source(f.Text)
	if err != nil {
		return fmt.Errorf("gen: %s: the generated code does not parse, which is a bug of rlgen: %w\n%s", filepath.Base(f.Path), err, f.Text)
	}
	f.Text = text
	return nil
}

// nameImports gives a free name to each package: the source's own name for it, else its own. It adds them to
// scope.
func (o *output) nameImports(wanted map[string]string, scope names) map[string]string {
	imports := map[string]string{}
	for _, path := range sortedKeys(wanted) {
		name := o.aliases[path]
		if name == "" || scope.has(name) {
			name = wanted[path]
		}
		imports[path] = scope.take(name)
	}
	return imports
}

// writeImports writes the import declaration: the standard library first. A package is named unless
// both its own name and the last element of its path are the name that the file uses.
func writeImports(buf *bytes.Buffer, imports, own map[string]string) {
	if len(imports) == 0 {
		return
	}
	var std, other []string
	for _, p := range sortedKeys(imports) {
		line := strconv.Quote(p)
		if name := imports[p]; name != path.Base(p) || name != own[p] {
			line = name + " " + line
		}
		if first, _, _ := strings.Cut(p, "/"); strings.Contains(first, ".") {
			other = append(other, line)
		} else {
			std = append(std, line)
		}
	}
	if lines := append(std, other...); len(lines) == 1 {
		buf.WriteString("import " + lines[0] + "\n\n")
		return
	}
	buf.WriteString("import (\n" + strings.Join(std, "\n") + "\n\n" + strings.Join(other, "\n") + "\n)\n\n")
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// importNames returns the names that a source gives to packages, by path.
func importNames(f *ast.File) map[string]string {
	aliases := map[string]string{}
	for _, spec := range f.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err == nil && spec.Name != nil && spec.Name.Name != "_" && spec.Name.Name != "." {
			aliases[p] = spec.Name.Name
		}
	}
	return aliases
}
