package gen

import (
	"path/filepath"
	"slices"
	"strings"
)

// diFile is one dependency injection file: the services of one platform.
type diFile struct {
	suffix, build string
	services      []*service
}

// diFiles returns the unit's injection files. Services of tests have none, nor have those that are built on other
// platforms than the rest: one name cannot stand for a different set on each.
func (u *unit) diFiles() []*diFile {
	var files []*diFile
	for _, s := range u.services {
		if len(s.limited()) == 0 || s.src.test() || u.external() {
			continue
		}
		suffix, build := s.src.platform()
		i := slices.IndexFunc(files, func(f *diFile) bool { return f.suffix == suffix && f.build == build })
		if i < 0 {
			i = len(files)
			files = append(files, &diFile{suffix: suffix, build: build})
		}
		files[i].services = append(files[i].services, s)
	}
	if len(files) <= 1 {
		return files
	}
	everywhere := slices.IndexFunc(files, func(f *diFile) bool { return f.suffix == ".go" && f.build == "" })
	if everywhere < 0 {
		return nil
	}
	return files[everywhere : everywhere+1]
}

// diOutputs plans the injection files that the configuration asks for.
func (u *unit) diOutputs(p *plan, di DI) []*output {
	var list []*output
	for _, f := range u.diFiles() {
		var from []string
		for _, s := range f.services {
			if name := filepath.Base(s.src.path); !slices.Contains(from, name) {
				from = append(from, name)
			}
		}
		slices.Sort(from)
		add := func(base string, body func(*writer)) {
			list = append(list, &output{
				unit:  u,
				path:  filepath.Join(u.dir.path, base+f.suffix),
				from:  from,
				build: f.build,
				body:  body,
			})
		}
		if di.Fx {
			add("ratelimit_fx", func(w *writer) { w.fxModule(p, f) })
		}
		if di.Wire {
			add("ratelimit_wire", func(w *writer) { w.wireSet(p, f) })
		}
	}
	return list
}

// fxModule writes the module: providers, and the policies for the group "ratelimit.policies".
func (w *writer) fxModule(p *plan, f *diFile) {
	fx := w.qualify("go.uber.org/fx", "fx")
	var provided, names, remarks []string
	for _, s := range f.services {
		prov, reason := w.unit.provider(s)
		switch {
		case prov != nil && prov.cleans:
			remarks = append(remarks, w.mend(s, prov.ctor.Name()+" also returns a clean-up function, which fx does not know: register it with fx.Lifecycle"))
		case prov != nil:
			provided = append(provided, prov.name())
			names = append(names, provides(s))
		default:
			remarks = append(remarks, w.mend(s, reason))
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
		for _, m := range s.limited() {
			w.printf("%s.Annotated{Group: \"ratelimit.policies\", Target: &%s},\n", fx, p.wrappers[s].policies[m])
		}
	}
	w.printf("),\n)\n")
}

// wireSet writes the provider set.
func (w *writer) wireSet(p *plan, f *diFile) {
	wire := w.qualify("github.com/google/wire", "wire")
	var provided, names, remarks []string
	for _, s := range f.services {
		prov, reason := w.unit.provider(s)
		if prov == nil {
			remarks = append(remarks, w.mend(s, reason))
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
func (w *writer) mend(s *service, reason string) string {
	text := "// " + s.name() + " is not among them: " + reason + ".\n"
	if s.iface != nil && s.typeParams().Len() == 0 {
		pkg := w.unit.pkg.Name
		text += "// Where the program is put together, write\n//\n//\tratelimitfx.Provide[" + pkg + "." + s.name() + "](its constructor, " + pkg + "." + s.constructor() + ")\n"
	}
	return text
}
