package gen

import (
	"path/filepath"
	"slices"
	"strings"
)

// diFile is what a package's injection files are for: services that are built alike.
type diFile struct {
	suffix, build string
	services      []*service
}

// diFile returns what the unit's injection files are for, nil if it has none: the services that are built everywhere,
// or, where all of the package's are constrained alike, those. One name cannot stand for a different set on each
// platform, and services of tests have no part in it.
func (u *unit) diFile() *diFile {
	type platform struct{ suffix, build string }
	platforms := map[platform]bool{}
	for _, sibling := range u.siblings {
		for _, s := range sibling.services {
			if sibling.injects(s) {
				suffix, build := s.src.platform()
				platforms[platform{suffix, build}] = true
			}
		}
	}
	f := &diFile{}
	for _, s := range u.services {
		suffix, build := s.src.platform()
		anywhere := suffix == ".go" && build == ""
		if u.injects(s) && (anywhere || len(platforms) == 1) {
			f.suffix, f.build = suffix, build
			f.services = append(f.services, s)
		}
	}
	if len(f.services) == 0 {
		return nil
	}
	return f
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
	var list []*output
	add := func(base string, body func(*writer)) {
		list = append(list, &output{
			unit:   u,
			inputs: slices.Clone(inputs),
			spread: true,
			source: f.services[0].spec.Name.Pos(),
			path:   filepath.Join(u.dir.path, base+f.suffix),
			build:  f.build,
			body:   body,
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
	var provided, names, remarks []string
	for _, s := range f.services {
		prov, reason := w.unit.provider(s)
		switch {
		case prov != nil && prov.cleans:
			remarks = append(remarks, w.mend(s, prov.ctor.Name(), prov.ctor.Name()+" also returns a clean-up function, which fx does not know"))
		case prov != nil:
			provided = append(provided, prov.name())
			names = append(names, provides(s))
		default:
			remarks = append(remarks, w.mend(s, "", reason))
		}
	}
	w.printf("// %s %s, and supplies the policies to the group \"ratelimit.policies\".\n", moduleName, providesText(names))
	w.remarks(remarks)
	w.printf("var %s = %s.Module(%q,\n", moduleName, fx, w.unit.pkg.PkgPath+".ratelimit")
	if len(provided) > 0 {
		w.printf("%s.Provide(%s),\n", fx, strings.Join(provided, ", "))
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
			remarks = append(remarks, w.mend(s, "", reason))
			continue
		}
		provided = append(provided, prov.name())
		names = append(names, provides(s))
	}
	w.printf("// %s %s.\n", setName, providesText(names))
	w.remarks(remarks)
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

func (w *writer) remarks(remarks []string) {
	for _, r := range remarks {
		w.printf("//\n%s", r)
	}
}

// mend returns a remark that says why a service is not provided, and what to write instead.
func (w *writer) mend(s *service, ctor, reason string) string {
	text := "// " + s.name() + " is not among them: " + reason + ".\n"
	if s.iface != nil && s.typeParams().Len() == 0 {
		pkg := w.unit.pkg.Name
		if ctor = pkg + "." + ctor; ctor == pkg+"." {
			ctor = "its constructor"
		}
		text += "// Where the program is put together, write\n//\n//\tratelimitfx.Provide[" + pkg + "." + s.name() + "](" + ctor + ", " + pkg + "." + s.constructor() + ")\n"
	}
	return text
}
