// Package gen turns directives into wrappers: it loads packages, collects the directives of their comments, checks
// them against the types they stand on, plans every name, renders the files, and writes those that changed.
//
// The package never imports what the generated code runs on.
package gen

import (
	"context"
	"go/token"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Config says what to generate. The zero Config generates wrappers for the package in the current directory.
type Config struct {
	// Dir is the directory that patterns are seen from; the current one if empty.
	Dir string
	// Patterns name packages, as go list takes them; the package in Dir if there are none.
	Patterns []string
	// Env is the environment of the go command; that of the process if nil.
	Env []string
	// BuildFlags are passed to the go command: "-tags=integration".
	BuildFlags []string
	// DI says which injection files to generate.
	DI DI
	// Empty makes Commit empty obsolete files instead of removing them. In go generate, files must
	// stay: the go command lists all of them first, and opens each later.
	Empty bool
}

// Result is what a run found, and what it would write.
type Result struct {
	// Findings are in the order of their places.
	Findings []Finding
	// Methods are the limited methods, in the order of packages and places.
	Methods []Method
	// Files are what the packages' directives make, by path; without use if the result Failed.
	Files []File
	// Obsolete are files with our header, by path, that no directive makes any longer.
	Obsolete []string

	empty   bool     // Config.Empty
	emptied []string // obsolete files that an earlier run has emptied
}

// Failed reports whether there is a finding that is more than a warning: then nothing is to be written.
func (r *Result) Failed() bool {
	return slices.ContainsFunc(r.Findings, func(f Finding) bool { return !f.Warning })
}

// Run loads the packages, checks their directives and renders their files. It reads and writes nothing else. An error
// means that the packages could not be loaded at all, or a bug; what is wrong with them is in the findings.
func Run(ctx context.Context, cfg Config) (*Result, error) {
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil {
		return nil, err
	}
	cfg.Dir = dir
	if cfg.Env == nil {
		cfg.Env = os.Environ()
	}
	sink := &findings{}
	l := &loader{cfg: cfg, ctx: ctx, sink: sink}
	dirs, units, err := l.load()
	if err != nil {
		return nil, err
	}
	elsewhere, err := l.elsewhere(dirs, units)
	if err != nil {
		return nil, err
	}
	units = append(units, elsewhere...)
	setSiblings(units)
	services := checkAll(sink, units)
	r := &Result{Methods: describe(services), empty: cfg.Empty}
	if !sink.failed() {
		if r.Files, err = renderAll(sink, units, cfg.DI); err != nil {
			return nil, err
		}
	}
	if !sink.failed() {
		r.Obsolete, r.emptied = obsolete(dirs, r.Files)
	}
	r.Findings = sink.sorted()
	return r, nil
}

// checkAll collects the directives of all units and checks them, and returns their services in the order of their
// places.
func checkAll(sink *findings, units []*unit) []*service {
	for _, u := range units {
		u.collect()
	}
	shareServices(units)
	for _, u := range units {
		if !u.broken {
			u.stub()
		}
	}
	var services []*service
	for _, u := range units {
		if u.broken {
			continue
		}
		u.check()
		slices.SortStableFunc(u.services, func(a, b *service) int { return u.comparePos(a.spec.Pos(), b.spec.Pos()) })
		u.services = slices.DeleteFunc(u.services, func(s *service) bool {
			s.resolve()
			return s.obj == nil
		})
		u.checkRest()
		u.checkWarnings()
		services = append(services, u.services...)
	}
	checkVariants(services)
	checkBetween(sink, services)
	return services
}

// renderAll plans and renders the files of all units.
func renderAll(sink *findings, units []*unit, di DI) ([]File, error) {
	var rendered []*File
	compiled := map[*unit][]*File{} // by the current platform
	err := formatAll(func(format func(*File) bool) {
		for o, f := range renderEach(sink, units, di) {
			rendered = append(rendered, f)
			if !o.excluded && o.unit.only == nil {
				compiled[o.unit] = append(compiled[o.unit], f)
			}
			if len(f.Text) > 0 {
				format(f)
			}
		}
	})
	if sink.failed() {
		return nil, nil
	}
	for _, u := range units {
		if files := compiled[u]; err == nil && len(files) > 0 {
			err = u.typeCheck(files)
		}
	}
	slices.SortFunc(rendered, func(a, b *File) int { return strings.Compare(a.Path, b.Path) })
	var files []File
	for _, f := range rendered {
		files = append(files, *f)
	}
	return files, err
}

// renderEach plans and renders the files of all units, one by one.
func renderEach(sink *findings, units []*unit, di DI) iter.Seq2[*output, *File] {
	return func(yield func(*output, *File) bool) {
		plans := planAll(units)
		for _, u := range units {
			p, di := plans[u], di.in(u.dir)
			u.planProviders(p, di)
			for _, o := range append(u.outputs(p), u.diOutputs(p, di)...) {
				f := o.render(p.names)
				if old, ok := u.dir.files[f.Path]; ok && !isGenerated(f.Path, old) {
					sink.errorf(token.Position{Filename: f.Path, Line: 1, Column: 1}, "the file stands where rlgen writes what it generates, and rlgen did not write it; rename it")
				}
				if !yield(o, &f) {
					return
				}
			}
		}
	}
}

// planProviders plans the provider functions that the wrapper files have, and reports names of injection files that
// the package declares itself.
func (u *unit) planProviders(p *plan, di DI) {
	if !di.Fx && !di.Wire {
		return
	}
	u.warnScattered()
	f := u.diFile()
	if f == nil {
		return
	}
	for name, wanted := range map[string]bool{moduleName: di.Fx, setName: di.Wire} {
		if wanted && u.declared.has(name) {
			u.errorf(f.services[0].spec.Name.Pos(), "the package declares %s, which is generated for dependency injection; rename it, or generate with -di=none", name)
		}
	}
	for _, s := range f.services {
		u.warnSeveral(s)
		if prov, _ := u.provider(s); prov != nil && (di.Wire || !prov.cleans || s.iface == nil) {
			p.providers[s] = prov
		}
	}
}

// obsolete returns the generated files that are not among the new ones: list, and those that an
// earlier run has emptied.
func obsolete(dirs []*directory, files []File) (list, emptied []string) {
	made := map[string]bool{}
	for _, f := range files {
		made[f.Path] = true
	}
	for _, d := range dirs {
		for _, path := range d.generated {
			switch {
			case made[path]:
			case isEmptied(d.files[path]):
				emptied = append(emptied, path)
			default:
				list = append(list, path)
			}
		}
	}
	return list, emptied
}
