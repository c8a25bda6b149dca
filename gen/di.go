package gen

import (
	"go/token"
	"path/filepath"
	"slices"
	"strings"
)

// diFile is what a package's injection files are for: services that are built alike.
type diFile struct {
	suffix, build string
	services      []*service
	// left are the services that are built on some platforms only, and the files everywhere.
	left []*service
}

// built is where a file is built, as its name and its //go:build line say.
type built struct{ suffix, build string }

func (s *service) built() built {
	suffix, build := s.src.platform()
	return built{suffix, build}
}

func (p built) anywhere() bool { return p == built{suffix: ".go"} }

// String returns the constraints as a person would write them.
func (p built) String() string {
	var parts []string
	if words := strings.Trim(strings.TrimSuffix(p.suffix, ".go"), "_"); words != "" {
		parts = append(parts, "*_"+words+".go")
	}
	if p.build != "" {
		parts = append(parts, p.build)
	}
	return strings.Join(parts, " with ")
}

// injected returns the services of the unit's package, on all platforms, that may be part of an injection file.
func (u *unit) injected() []*service {
	var list []*service
	for _, sibling := range u.siblings {
		for _, s := range sibling.services {
			if sibling.injects(s) {
				list = append(list, s)
			}
		}
	}
	slices.SortStableFunc(list, func(a, b *service) int {
		return comparePlaces(a.unit.position(a.spec.Pos()), b.unit.position(b.spec.Pos()))
	})
	return list
}

// diFile returns what the unit's injection files are for, nil if it has none: the services that are built everywhere,
// or, where all of the package's are constrained alike, those. One name cannot stand for a different set on each
// platform, and services of tests have no part in it.
func (u *unit) diFile() *diFile {
	all := u.injected()
	platforms := map[built]bool{}
	for _, s := range all {
		platforms[s.built()] = true
	}
	f := &diFile{}
	for _, s := range all {
		at := s.built()
		switch {
		case !at.anywhere() && len(platforms) > 1:
			f.left = append(f.left, s)
		case s.unit == u:
			f.suffix, f.build = at.suffix, at.build
			f.services = append(f.services, s)
		}
	}
	if len(f.services) == 0 {
		return nil
	}
	return f
}

// warnScattered warns of services that are in no injection file, since each is built elsewhere.
func (u *unit) warnScattered() {
	var places []string
	all := u.injected()
	for _, s := range all {
		if s.built().anywhere() {
			return
		}
		if text := s.built().String(); !slices.Contains(places, text) {
			places = append(places, text)
		}
	}
	if len(places) > 1 && all[0].unit == u {
		u.warnf(all[0].spec.Name.Pos(), "no injection file is generated, since the package's services are built in different places (%s) and one file would have to be built in all of them; build them alike, move some to a package of their own, or provide each by ratelimitfx.Provide and generate with -di=none",
			strings.Join(places, ", "))
	}
}

// injects reports whether a service of the unit may be part of an injection file.
func (u *unit) injects(s *service) bool {
	return len(s.planned()) > 0 && !s.src.test() && !u.external() && u.emits(s.src)
}

// diOutputs plans the injection files that the configuration asks for.
func (u *unit) diOutputs(p *plan, di DI) []*output {
	f := u.diFile()
	if f == nil {
		return nil
	}
	var inputs []string
	for _, s := range f.services {
		inputs = append(inputs, p.wrappers[s].injected())
	}
	for _, s := range f.left {
		inputs = append(inputs, "left "+s.wrapper()+" "+s.built().String())
	}
	var list []*output
	add := func(base string, body func(*writer)) {
		list = append(list, &output{
			unit:     u,
			inputs:   slices.Clone(inputs),
			spread:   true,
			source:   f.services[0].spec.Name.Pos(),
			path:     filepath.Join(u.dir.path, base+f.suffix),
			build:    f.build,
			excluded: f.build != "" || f.suffix != ".go",
			body:     body,
		})
	}
	if di.Fx {
		add(fxFile, func(w *writer) { w.fxModule(p, f) })
	}
	if di.Wire {
		add(wireFile, func(w *writer) { w.wireSet(p, f) })
	}
	return list
}

// fxModule writes the module: providers, and the policies for the group "ratelimit.policies".
func (w *writer) fxModule(p *plan, f *diFile) {
	fx := w.qualify(fxPath, "fx")
	var provided, composed, names, remarks []string
	for _, s := range f.services {
		prov, reason := w.unit.provider(s)
		switch {
		case prov == nil:
			remarks = append(remarks, w.fxRemark(s, reason))
			continue
		case prov.cleans && s.iface != nil: // fx knows no clean-up functions
			composed = append(composed, w.qualify(runtimeFxPath, "ratelimitfx")+".Provide["+s.name()+"]("+prov.ctor.Name()+", "+s.constructor()+")")
		case prov.variadic():
			provided = append(provided, fx+".Annotate("+prov.name()+")")
		default:
			provided = append(provided, prov.name())
		}
		if prov.cleans && s.iface == nil {
			remarks = append(remarks, "// "+prov.ctor.Name()+" returns a clean-up function, which fx.Provide does not take: provide what it makes by a function that appends the\n// clean-up to the fx.Lifecycle.\n")
		}
		names = append(names, provides(s))
	}
	w.printf("// %s %s, and supplies the policies to the group \"ratelimit.policies\".\n", moduleName, providesText(names))
	w.remarks(append(remarks, w.leftOut(f, w.fxRemark)...))
	w.printf("var %s = %s.Module(%q,\n", moduleName, fx, w.unit.pkg.PkgPath+".ratelimit")
	if len(provided) > 0 {
		w.printf("%s.Provide(%s),\n", fx, strings.Join(provided, ", "))
	}
	for _, option := range composed {
		w.printf("%s,\n", option)
	}
	w.printf("%s.Supply(\n", fx)
	for _, s := range f.services {
		for _, m := range p.wrappers[s].methods {
			w.printf("%s.Annotated{Group: \"ratelimit.policies\", Target: &%s},\n", fx, p.wrappers[s].policies[m.fn.Name()])
		}
	}
	w.printf("),\n)\n")
}

// wireSet writes the provider set.
func (w *writer) wireSet(p *plan, f *diFile) {
	wire := w.qualify(wirePath, "wire")
	var provided, names, remarks []string
	for _, s := range f.services {
		prov, reason := w.unit.provider(s)
		if prov == nil {
			remarks = append(remarks, w.wireRemark(s, reason))
			continue
		}
		provided = append(provided, prov.name())
		names = append(names, provides(s))
	}
	w.printf("// %s %s.\n", setName, providesText(names))
	w.remarks(append(remarks, w.leftOut(f, w.wireRemark)...))
	w.printf("var %s = %s.NewSet(%s)\n", setName, wire, strings.Join(provided, ", "))
}

// provides returns what the graph gets for a service, as a doc link.
func provides(s *service) string {
	if s.iface != nil {
		return "[" + s.name() + "]"
	}
	return "[*" + s.wrapper() + "]"
}

func providesText(names []string) string {
	if len(names) == 0 {
		return "provides nothing"
	}
	return "provides " + strings.Join(names, ", ") + " behind the limits of the directives"
}

// leftOut says of each service that is built on some platforms only why it has no part in the file.
func (w *writer) leftOut(f *diFile, remark func(*service, string) string) []string {
	var list []string
	for _, s := range f.left {
		list = append(list, remark(s, "it is built in some places only ("+s.built().String()+"), and this file everywhere"))
	}
	return list
}

func (w *writer) remarks(remarks []string) {
	for _, r := range remarks {
		w.printf("//\n%s", r)
	}
}

// because begins a remark that says why a service is not provided.
func because(s *service, reason string) string {
	reason, details, _ := strings.Cut(reason, "\n")
	text := "// " + s.name() + " is not among them: " + reason + ".\n"
	if details != "" {
		text += "//\n//   - " + strings.ReplaceAll(details, "\n", "\n//   - ") + "\n//\n"
	}
	return text
}

// nameable reports whether other packages can name the service and its wrapper.
func (s *service) nameable() bool { return token.IsExported(s.name()) && token.IsExported(s.wrapper()) }

// fxRemark says why a service is not provided, and what to write instead.
func (w *writer) fxRemark(s *service, reason string) string {
	if !s.nameable() {
		return because(s, reason)
	}
	pkg, args := w.unit.pkg.Name+".", s.argText()
	text := because(s, reason) + "// Where the program is put together, write\n//\n"
	if s.iface == nil {
		return text + "//\tfx.Provide(" + pkg + s.constructor() + args + ")\n" + where("", s.withArgs())
	}
	ctor, what := "impl.New", "impl.New is the implementation's constructor"
	if found, _ := w.unit.constructors(s); len(found) > 0 && found[0].ctor.Exported() {
		ctor, what = pkg+found[0].ctor.Name(), ""
	}
	return text + "//\tratelimitfx.Provide[" + pkg + s.name() + args + "](" + ctor + ", " + pkg + s.constructor() + args + ")\n" + where(what, s.withArgs())
}

// wireRemark says why a service is not provided, and what to write instead.
func (w *writer) wireRemark(s *service, reason string) string {
	if !s.nameable() {
		return because(s, reason)
	}
	pkg, args := w.unit.pkg.Name+".", s.argText()
	next, made, what := "*impl.Service", pkg+s.name()+args, "*impl.Service is what the implementation's constructor returns"
	if s.iface == nil {
		next, made, what = s.star()+made, "*"+pkg+s.wrapper()+args, ""
	}
	return because(s, reason) + "// Where the program is put together, add to the set\n//\n" +
		"//\tfunc limited(next " + next + ", limiter *ratelimit.Limiter) " + made + " {\n" +
		"//\t\treturn " + pkg + s.constructor() + args + "(next, limiter)\n//\t}\n" + where(what, s.withArgs())
}

// where ends a remark with what its names stand for.
func where(meanings ...string) string {
	meanings = slices.DeleteFunc(meanings, func(m string) bool { return m == "" })
	if len(meanings) == 0 {
		return ""
	}
	return "//\n// where " + strings.Join(meanings, ", and ") + ".\n"
}

// argText returns the names of the service's type parameters, to stand for arguments: "[K, V]"; empty if it has none.
func (s *service) argText() string {
	var list []string
	for t := range s.typeParams().TypeParams() {
		name := t.Obj().Name()
		if name == "_" {
			name = "T"
		}
		list = append(list, name)
	}
	if len(list) == 0 {
		return ""
	}
	return "[" + strings.Join(list, ", ") + "]"
}

// withArgs says what the type parameters of a remark stand for.
func (s *service) withArgs() string {
	if args := s.argText(); args != "" {
		return args + " are the types of one instance"
	}
	return ""
}
