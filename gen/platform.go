package gen

import (
	"go/ast"
	"go/build"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/rlgen/rlgen/rules"
)

// platform is what a build is for. The zero platform is that of the configuration.
type platform struct {
	goos, goarch string
	tags         string // besides those of the configuration, separated by commas
	cgo          string // CGO_ENABLED, empty where it does not matter
}

// on returns a loader for another platform.
func (l *loader) on(p platform) *loader {
	other := *l
	other.cfg.Env = slices.Clone(l.cfg.Env)
	if p.cgo == "" && (p.goos != l.goos() || p.goarch != l.goarch()) {
		p.cgo = "0"
	}
	other.cfg.Env = append(other.cfg.Env, "GOOS="+p.goos, "GOARCH="+p.goarch)
	if p.cgo != "" {
		other.cfg.Env = append(other.cfg.Env, "CGO_ENABLED="+p.cgo)
	}
	if p.tags != "" {
		tags := append(l.tags(), strings.Split(p.tags, ",")...)
		other.cfg.BuildFlags = append(slices.Clone(l.cfg.BuildFlags), "-tags="+strings.Join(tags, ","))
	}
	return &other
}

func (l *loader) goos() string   { return l.variable("GOOS", runtime.GOOS) }
func (l *loader) goarch() string { return l.variable("GOARCH", runtime.GOARCH) }

// variable returns what the go command will take for an environment variable.
func (l *loader) variable(name, otherwise string) string {
	value := otherwise
	for _, entry := range l.cfg.Env {
		if v, ok := strings.CutPrefix(entry, name+"="); ok && v != "" {
			value = v
		}
	}
	return value
}

// tags returns the build tags of the configuration.
func (l *loader) tags() []string {
	var tags []string
	for _, flag := range l.cfg.BuildFlags {
		if value, ok := strings.CutPrefix(flag, "-tags="); ok {
			tags = strings.Split(value, ",")
		}
	}
	return tags
}

// platformFor returns a platform that builds a file, preferring the configuration's own system and architecture.
func (l *loader) platformFor(s *source) (platform, bool) {
	suffix, line := s.platform()
	expr := nameConstraint(suffix)
	if line != "" {
		parsed, err := constraint.Parse(line)
		if err != nil {
			return platform{}, false
		}
		expr = append(expr, parsed)
	}
	all := func(ok func(tag string) bool) bool {
		return !slices.ContainsFunc(expr, func(e constraint.Expr) bool { return !e.Eval(ok) })
	}
	for _, p := range l.candidates(expr) {
		tags := append(l.tags(), strings.Split(p.tags, ",")...)
		if all(func(tag string) bool { return p.has(tag) || slices.Contains(tags, tag) }) {
			return p, true
		}
	}
	return platform{}, false
}

// nameConstraint returns what a file's name says of where it is built: "_linux_arm64.go".
func nameConstraint(suffix string) []constraint.Expr {
	var list []constraint.Expr
	for _, word := range strings.Split(strings.TrimSuffix(suffix, ".go"), "_") {
		if word != "" && word != "test" {
			list = append(list, &constraint.TagExpr{Tag: word})
		}
	}
	return list
}

// candidates returns platforms in the order in which they are tried: without the constraint's own tags and with them.
// A file that wants the tag "ignore" is never built.
func (l *loader) candidates(list []constraint.Expr) []platform {
	cgo := []string{""}
	var tags []string
	for _, expr := range list {
		all := tagsOf(expr)
		if slices.Contains(all, "cgo") {
			cgo = []string{"0", "1"}
		}
		tags = append(tags, slices.DeleteFunc(all, knownTag)...)
	}
	var platforms []platform
	for _, set := range tagSets(tags) {
		for _, enabled := range cgo {
			platforms = append(platforms, platform{l.goos(), l.goarch(), set, enabled})
		}
		for _, goos := range slices.Concat([]string{l.goos()}, knownOS) {
			for _, goarch := range archesOf(goos) {
				for _, enabled := range cgo {
					platforms = append(platforms, platform{goos, goarch, set, enabled})
				}
			}
		}
	}
	return platforms
}

// tagSets returns the sets of tags that are tried, smaller ones first: all there are of few tags, else each tag alone and
// all of them.
func tagSets(tags []string) []string {
	slices.Sort(tags)
	tags = slices.Compact(tags)
	sets := []string{""}
	switch {
	case len(tags) == 0 || slices.Contains(tags, "ignore"):
	case len(tags) > 6:
		sets = append(sets, tags...)
		sets = append(sets, strings.Join(tags, ","))
	default:
		for bits := 1; bits < 1<<len(tags); bits++ {
			var set []string
			for i, tag := range tags {
				if bits&(1<<i) != 0 {
					set = append(set, tag)
				}
			}
			sets = append(sets, strings.Join(set, ","))
		}
		slices.SortStableFunc(sets, func(a, b string) int { return strings.Count(a, ",") - strings.Count(b, ",") })
	}
	return sets
}

// archesOf returns the architectures that a system is tried with.
func archesOf(goos string) []string {
	switch goos {
	case "js", "wasip1":
		return []string{"wasm"}
	case "aix":
		return []string{"ppc64"}
	case "nacl", "hurd", "zos":
		return nil // the go command knows the words and builds for none of them
	case "linux":
		return []string{"amd64", "arm64", "386", "arm", "loong64", "mips64", "mips64le", "mips", "mipsle", "ppc64", "ppc64le", "riscv64", "s390x"}
	default:
		return []string{"amd64", "arm64"}
	}
}

// knownTag reports whether a tag is of a system, an architecture or one of Go's own.
func knownTag(tag string) bool {
	return slices.Contains(knownOS, tag) || slices.Contains(knownArch, tag) || goTag(tag) || tag == "unix"
}

// has reports whether the go command sets a tag for the platform by itself.
func (p platform) has(tag string) bool {
	switch {
	case tag == "cgo":
		return p.cgo == "1"
	case tag == p.goos, tag == p.goarch, tag == "gc", slices.Contains(build.Default.ReleaseTags, tag):
		return true
	case tag == "linux":
		return p.goos == "android"
	case tag == "solaris":
		return p.goos == "illumos"
	case tag == "darwin":
		return p.goos == "ios"
	case tag == "unix":
		return !slices.Contains([]string{"windows", "plan9", "js", "wasip1", "nacl", "zos"}, p.goos)
	}
	return false
}

// elsewhere gives types, for as many other platforms as it takes, to the files with directives that the units leave
// out. It returns the units of those platforms, of which each is responsible for the files that no other compiles.
func (l *loader) elsewhere(dirs []*directory, units []*unit) ([]*unit, error) {
	compiled := map[string]bool{}
	for _, u := range units {
		u.compiled(compiled)
	}
	var more []*unit
	each := func(d *directory, wanted func(path string) bool) error {
		for _, path := range slices.Sorted(maps.Keys(d.files)) {
			if !d.hit || compiled[path] || slices.Contains(d.generated, path) || !wanted(path) {
				continue
			}
			found, err := l.compile(d, path, compiled)
			if err != nil {
				return err
			}
			more = append(more, found...)
		}
		return nil
	}
	for _, d := range dirs {
		if err := each(d, func(path string) bool { return mentions(d.files[path]) }); err != nil {
			return nil, err
		}
		limited := limitedElsewhere(d, append(units, more...))
		err := each(d, func(path string) bool {
			file, _ := parser.ParseFile(token.NewFileSet(), path, d.files[path], parser.SkipObjectResolution)
			return len(limited) > 0 && file != nil && declaresOf(file, limited)
		})
		if err != nil {
			return nil, err
		}
	}
	return more, nil
}

// compile loads a directory for a platform that builds the file.
func (l *loader) compile(d *directory, path string, compiled map[string]bool) ([]*unit, error) {
	fset := token.NewFileSet()
	file, _ := parser.ParseFile(fset, path, d.files[path], parser.ParseComments|parser.SkipObjectResolution)
	if file == nil || file.Name == nil || file.Name.Name == "" {
		return nil, nil
	}
	p, ok := l.platformFor(&source{path: path, ast: file})
	if !ok {
		l.builtNowhere(fset, file)
		return nil, nil
	}
	units, err := l.on(p).units([]*directory{d})
	if err != nil {
		return nil, err
	}
	var found []*unit
	for _, u := range units {
		own := map[string]bool{}
		u.compiled(own)
		maps.DeleteFunc(own, func(path string, _ bool) bool { return compiled[path] })
		if len(own) > 0 {
			u.only = own
			found = append(found, u)
		}
	}
	for _, u := range found {
		u.compiled(compiled)
	}
	if !compiled[path] {
		l.builtNowhere(fset, file)
	}
	return found, nil
}

// builtNowhere reports the directives of a file that no platform builds.
func (l *loader) builtNowhere(fset *token.FileSet, file *ast.File) {
	for _, group := range file.Comments {
		for _, c := range group.List {
			exact, near := rules.Match(c.Text)
			if near != nil {
				l.sink.errorf(fset.PositionFor(c.Pos()+token.Pos(near.Column-1), false), "%s", near.Msg)
			}
			if exact {
				l.sink.errorf(fset.PositionFor(c.Pos(), false), "directive in a file that is built nowhere, want build constraints that some platform meets; delete one or the other")
			}
		}
	}
}

// compiled adds the files that the unit compiles.
func (u *unit) compiled(to map[string]bool) {
	for _, s := range u.sources {
		if !s.excluded {
			to[s.path] = true
		}
	}
}

// emits reports whether the unit is responsible for what is generated from a source.
func (u *unit) emits(s *source) bool {
	return !s.excluded && (u.only == nil || u.only[s.path])
}

// setSiblings tells each unit of the units of its package, on all platforms.
func setSiblings(units []*unit) {
	byPath := map[string][]*unit{}
	for _, u := range units {
		byPath[u.pkg.PkgPath] = append(byPath[u.pkg.PkgPath], u)
	}
	for _, u := range units {
		u.siblings = byPath[u.pkg.PkgPath]
	}
}

// shareServices makes known to the unit that is responsible for a type that it is a service, where only files of other
// platforms say so.
func shareServices(units []*unit) {
	for _, u := range units {
		for _, s := range u.services {
			for _, other := range u.siblings {
				spec := other.findType(s.name())
				if spec == nil {
					continue
				}
				if src := other.source(spec.Pos()); src.path == s.src.path && other.emits(src) {
					other.service(spec)
				}
			}
		}
	}
}

// onPlatform returns the service in another unit that is of the same declaration, nil if there is none.
func (s *service) onPlatform(u *unit) *service {
	i := slices.IndexFunc(u.services, func(other *service) bool { return other.name() == s.name() && other.src.path == s.src.path })
	if i < 0 {
		return nil
	}
	return u.services[i]
}

// planned returns the limited methods that the wrapper's guards are for: those of every platform, since the type and
// its constructor stand in one file. Of methods of one name, each for another platform, it returns the first.
func (s *service) planned() []*method {
	if s.iface != nil {
		return s.limited()
	}
	var list []*method
	for _, u := range s.unit.siblings {
		other := s.onPlatform(u)
		if other == nil {
			continue
		}
		for _, m := range other.limited() {
			if u.emits(m.src) {
				list = append(list, m)
			}
		}
	}
	slices.SortStableFunc(list, func(a, b *method) int { return comparePlaces(a.place(), b.place()) })
	seen := map[string]*method{}
	return slices.DeleteFunc(list, func(m *method) bool {
		first := seen[m.fn.Name()]
		if first == nil {
			seen[m.fn.Name()] = m
			return false
		}
		if first.limitsText() != m.limitsText() {
			m.service.unit.errorf(m.pos, "%s has other limits in %s, want the same on all platforms", m.fn.Name(), filepath.Base(first.src.path))
		}
		return true
	})
}

func (m *method) place() token.Position { return m.service.unit.position(m.pos) }

func goTag(tag string) bool {
	return tag == "gc" || tag == "gccgo" || tag == "cgo" || strings.HasPrefix(tag, "go1.")
}
