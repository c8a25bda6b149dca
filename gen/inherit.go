package gen

import (
	"go/ast"
	"go/token"
	"go/types"
	"os"
	"slices"

	"github.com/rlgen/rlgen/rules"
)

// inherit gives m the directives of the interface that its service has it from, where the service has none for it: limits
// stand on methods, and a method that is limited stays so where another interface of the package embeds it. It keeps its
// key, so that both wrappers count together.
func (m *method) inherit() []*directive {
	s := m.service
	if s.iface == nil || s.own[m.fn.Name()] != nil {
		return nil
	}
	bases := s.limitedBases(s.obj.Type(), m.fn.Name())
	switch {
	case len(bases) == 0:
	case len(s.lines) > 0:
		s.unit.warnf(s.embedding(m.fn), "%s has %s from %s, where it is limited; the directives of %[1]s hold for it instead, and not those; to have both, declare it in %[1]s with directives of its own",
			s.name(), m.fn.Name(), bases[0].name())
	case len(bases) > 1:
		s.unit.errorf(s.embedding(m.fn), "%s has %s from %s and from %s, and both limit it, want one of them; declare it in %[1]s with directives of its own",
			s.name(), m.fn.Name(), bases[0].name(), bases[1].name())
	default:
		m.from = bases[0].service
		m.sig = bases[0].fn.Signature() // whose parameters the directives name
		m.pos = s.embedding(m.fn)
		lines, _ := m.from.standing(m.fn.Name())
		return lines
	}
	return nil
}

// embedsLimited reports whether the service has a method from an interface where it is limited.
func (s *service) embedsLimited(fn *types.Func) bool {
	return s.iface != nil && (len(s.limitedBases(s.obj.Type(), fn.Name())) > 0 || s.unit.limitsEmbedded(s.spec, fn))
}

// limitsEmbedded reports whether an embedded interface of another package limits the method.
func (u *unit) limitsEmbedded(spec *ast.TypeSpec, fn *types.Func) bool {
	iface, ok := ast.Unparen(spec.Type).(*ast.InterfaceType)
	if !ok {
		return false
	}
	for _, field := range iface.Methods.List {
		t := u.info.TypeOf(field.Type)
		if len(field.Names) > 0 || t == nil {
			continue
		}
		obj, _, _ := types.LookupFieldOrMethod(t, false, fn.Pkg(), fn.Name())
		if embedded, ok := obj.(*types.Func); ok && embedded.Pkg() != u.types && u.imports.limitsElsewhere(embedded) {
			return true
		}
	}
	return false
}

// base is a service that limits a method which another one has from it.
type base struct {
	*service
	fn *types.Func
}

// limitedBases returns the services whose directives hold for a method that t has from what it embeds, the nearest on
// each way.
func (s *service) limitedBases(t types.Type, name string) []base {
	iface, ok := t.Underlying().(*types.Interface)
	if !ok {
		return nil
	}
	var bases []base
	for embedded := range iface.EmbeddedTypes() {
		for _, found := range s.basesOf(embedded, name) {
			if !slices.ContainsFunc(bases, func(b base) bool { return b.service == found.service }) {
				bases = append(bases, found)
			}
		}
	}
	return bases
}

func (s *service) basesOf(t types.Type, name string) []base {
	obj, _, _ := types.LookupFieldOrMethod(t, false, s.unit.types, name)
	fn, ok := obj.(*types.Func)
	if !ok {
		return nil
	}
	if other := s.unit.serviceOf(t); other != nil && other != s {
		lines, exempt := other.standing(name)
		if exempt != nil {
			return nil
		}
		if len(lines) > 0 {
			return []base{{other, fn}}
		}
	}
	return s.limitedBases(t, name)
}

// serviceOf returns the service of a type, nil if it is none of the unit's.
func (u *unit) serviceOf(t types.Type) *service {
	obj := declarationOf(t)
	for _, s := range u.services {
		if obj != nil && u.types.Scope().Lookup(s.name()) == obj {
			return s
		}
	}
	return nil
}

// declarationOf returns what declares a type, nil if nothing does.
func declarationOf(t types.Type) *types.TypeName {
	switch t := t.(type) {
	case *types.Alias:
		return t.Origin().Obj()
	case *types.Named:
		return t.Origin().Obj()
	}
	return nil
}

// embedding returns the place in the interface's declaration of the first embedded type that has the method.
func (s *service) embedding(fn *types.Func) token.Pos { return s.unit.embedding(s.spec, fn) }

func (u *unit) embedding(spec *ast.TypeSpec, fn *types.Func) token.Pos {
	iface, ok := ast.Unparen(spec.Type).(*ast.InterfaceType)
	if !ok {
		return spec.Name.Pos()
	}
	for _, field := range iface.Methods.List {
		if len(field.Names) > 0 {
			continue
		}
		t := u.info.TypeOf(field.Type)
		if t == nil {
			continue
		}
		if obj, _, _ := types.LookupFieldOrMethod(t, false, fn.Pkg(), fn.Name()); obj != nil {
			return field.Type.Pos()
		}
	}
	return spec.Name.Pos()
}

// checkInherited warns of a method that another package's interface, which s has it from, says is limited: what its
// directives refer to cannot be seen from here.
func (u *unit) checkInherited(s *service, m *method) {
	own := s.own[m.fn.Name()]
	if len(m.limits) > 0 || own != nil || m.fn.Pkg() == nil || m.fn.Pkg() == u.types || !u.imports.limitsElsewhere(m.fn) {
		return
	}
	u.warnf(s.embedding(m.fn), "%s has %s from package %s, where it is limited, and passes it on without limits; declare it in %[1]s with a directive of its own, or with //ratelimit:none", s.name(), m.fn.Name(), m.fn.Pkg().Path())
}

// limitsElsewhere reports whether the source that declares an interface's method has a directive for it.
func (imp *importer) limitsElsewhere(fn *types.Func) bool {
	pos := imp.foreignPosition(fn.Pos())
	if pos.Filename == "" {
		return false
	}
	limited, known := imp.limited[pos.Filename]
	if !known {
		limited = limitedLines(pos.Filename)
		imp.limited[pos.Filename] = limited
	}
	return limited[pos.Line]
}

// limitedLines returns the lines of a file that declare a limited method of an interface.
func limitedLines(path string) map[int]bool {
	text, err := os.ReadFile(path)
	if err != nil || !mentions(text) {
		return nil
	}
	u := &unit{fset: token.NewFileSet(), sink: &findings{}}
	u.parse(path, text, false)
	if u.broken {
		return nil
	}
	u.collect()
	lines := map[int]bool{}
	for _, s := range u.services {
		iface, ok := ast.Unparen(s.spec.Type).(*ast.InterfaceType)
		if !ok {
			continue
		}
		for _, field := range iface.Methods.List {
			for _, name := range field.Names {
				if standing, _ := s.standing(name.Name); len(standing) > 0 {
					lines[u.position(name.Pos()).Line] = true
				}
			}
		}
	}
	return lines
}

// standing returns the directives that hold for a method, those of its type and its own, and the one that exempts it, nil
// if none does.
func (s *service) standing(name string) (lines []*directive, exempt *directive) {
	var own []*directive
	if m := s.own[name]; m != nil {
		own = m.lines
	}
	kinds := map[rules.Kind]bool{}
	for _, d := range own {
		if d.Counts() {
			kinds[d.Limit.Kind] = true
		} else {
			exempt = d
		}
	}
	if exempt != nil {
		return nil, exempt
	}
	for _, d := range s.lines {
		if !kinds[d.Limit.Kind] {
			lines = append(lines, d)
		}
	}
	return append(lines, own...), nil
}
