package gen

import (
	"go/types"
	"slices"
)

// seal is a type that a wrapper embeds for methods of another package that no type here can declare: unexported ones, and
// those without limits whose types cannot be written. Every other method of it is declared by the wrapper itself.
type seal struct {
	typ types.Type
	// alias is the name under which it is embedded, so that no other package sees the field.
	alias string
	// varies is set where its methods are not the same in all builds.
	varies bool
}

// sealWith finds what brings the unexported methods of other packages, one type for each of them: the innermost that the
// package can name, so that the wrapper declares the rest, and does not compile where the rest grows. Where several bring one
// method it is the interface itself.
func (s *service) sealWith(fns []*types.Func) {
	for _, fn := range fns {
		if !s.sealed(fn) {
			s.seals = append(s.seals, &seal{typ: s.unit.sealer(s.obj.Type(), fn)})
		}
	}
	if len(fns) == 0 {
		return
	}
	for _, fn := range fns {
		n := 0
		for _, seal := range s.seals {
			if has(seal.typ, fn) {
				n++
			}
		}
		if n != 1 {
			s.seals = []*seal{{typ: s.obj.Type()}}
			return
		}
	}
}

// unwritable removes from s.methods, and returns, those without limits that other packages declare with types that this
// one cannot write: the wrapper has them from what it embeds, too.
func (s *service) unwritable() []*types.Func {
	var fns []*types.Func
	s.methods = slices.DeleteFunc(s.methods, func(m *method) bool {
		p := &typePrinter{pkg: s.unit.types, qualifier: (*types.Package).Name, hidden: s.unit.declared}
		p.print(m.sig)
		does := len(m.limits) == 0 && m.fn.Pkg() != nil && m.fn.Pkg() != s.unit.types && len(p.problems) > 0
		if does {
			fns = append(fns, m.fn)
		}
		return does
	})
	return fns
}

// sealed reports whether what is embedded so far has the method.
func (s *service) sealed(fn *types.Func) bool {
	for _, seal := range s.seals {
		if has(seal.typ, fn) {
			return true
		}
	}
	return false
}

func has(t types.Type, fn *types.Func) bool {
	obj, _, _ := types.LookupFieldOrMethod(t, false, fn.Pkg(), fn.Name())
	return obj != nil
}

// sealer returns the innermost type in an interface that has the method and that the package can name.
func (u *unit) sealer(t types.Type, fn *types.Func) types.Type {
	if iface, ok := t.Underlying().(*types.Interface); ok {
		for embedded := range iface.EmbeddedTypes() {
			if !has(embedded, fn) {
				continue
			}
			if inner := u.sealer(embedded, fn); u.canWrite(inner) {
				return inner
			}
		}
	}
	return t
}

// canWrite reports whether a file of the unit can name a type, and what it is an instance of.
func (u *unit) canWrite(t types.Type) bool {
	if declarationOf(t) == nil {
		return false
	}
	p := &typePrinter{pkg: u.types, qualifier: (*types.Package).Name}
	if alias, ok := t.(*types.Alias); ok && !p.canName(alias.Origin().Obj()) {
		return false
	}
	p.print(t)
	return len(p.problems) == 0
}

// nameSeals gives each seal the name of an alias.
func (w *wrapperPlan) nameSeals(pkg, taken names) {
	for _, seal := range w.service.seals {
		seal.alias = pkg.with(taken).take(lowerFirst(w.service.wrapper()) + "Seal")
		pkg.add(seal.alias)
		taken.add(seal.alias)
	}
}

// sealTypes writes the aliases of what the wrapper embeds, and returns its fields.
func (w *writer) sealTypes(p *wrapperPlan, t *typeScope) string {
	fields := ""
	for _, seal := range p.service.seals {
		decl, args := "", ""
		if instance, ok := seal.typ.(interface{ TypeArgs() *types.TypeList }); ok && instance.TypeArgs().Len() > 0 || seal.typ == p.service.obj.Type() {
			decl, args = t.decl, t.args
		}
		text := t.print(seal.typ)
		if seal.typ == p.service.obj.Type() {
			text = p.service.name() + args
		}
		why := "no type of this package can declare"
		if seal.varies {
			why = "differ between builds"
		}
		w.printf("// %s is embedded for methods that %s.\n", seal.alias, why)
		w.printf("type %s%s = %s\n\n", seal.alias, decl, text)
		fields += seal.alias + args + "\n"
	}
	return fields
}
