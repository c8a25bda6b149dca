package gen

import (
	"cmp"
	"fmt"
	"go/token"
	"go/types"
	"slices"
	"strings"

	"github.com/rlgen/rlgen/rules"
)

// resolve finds what the service's directives are for and checks it: everything that is wrong with the service by
// itself is reported.
func (s *service) resolve() {
	u := s.unit
	obj, ok := u.types.Scope().Lookup(s.name()).(*types.TypeName)
	if !ok {
		return // declared twice: the type checker said so
	}
	s.obj = obj
	if s.clashes() {
		return
	}
	if iface, ok := obj.Type().Underlying().(*types.Interface); ok {
		s.iface = iface
		s.interfaceMethods()
	} else {
		s.concreteMethods()
	}
	if s.given != nil && len(s.limited()) == 0 && s.limitsNothing() {
		u.errorf(s.given.pos, "wrapper on the type %s, which limits nothing; put a limit on the type or on one of its methods, such as //ratelimit:user 10,1s, or delete the line", s.name())
	}
	s.checkFound()
	s.checkDeny()
	s.checkConstructor()
}

// limitsNothing reports whether no directive on the type or its methods, on any platform, is a limit.
func (s *service) limitsNothing() bool {
	if s.unit.alone && s.unit.hasElsewhere() {
		return false // for all that is known
	}
	for _, u := range s.unit.siblings {
		if other := s.onPlatform(u); other != nil && len(other.lines)+len(other.own) > 0 {
			return false
		}
	}
	return true
}

// checkFound reports directives on methods that the type turns out not to have, such as those called _.
func (s *service) checkFound() {
	for _, own := range s.own {
		if !own.found {
			s.unit.errorf(own.lines[0].pos, "directive on %s, which is not in the method set of %s, want it on a method that can be called; give the method a name, or delete the line", own.name.Name, s.name())
		}
	}
}

// clashes reports the generated exported names that something else has.
func (s *service) clashes() bool {
	u := s.unit
	var taken []string
	last := ""
	for _, name := range s.generatedNames() {
		switch why := u.taken(s, name); why {
		case "":
		case last:
			taken = append(taken, name)
		default:
			last = why
			taken = append(taken, why+" "+name)
		}
	}
	if len(taken) == 0 {
		return false
	}
	pos := s.spec.Name.Pos()
	if s.given != nil {
		pos = s.given.column("wrapper")
	}
	u.errorf(pos, "%s, which the wrapper of %s needs; give the wrapper a name that is free: //ratelimit:wrapper %s",
		strings.Join(taken, " and "), s.name(), u.freeWrapper(s))
	return true
}

// generatedNames returns the names that are generated for the service for others to use.
func (s *service) generatedNames() []string {
	return []string{s.wrapper(), s.constructor(), s.provider()}
}

// taken says what has a name already that s is to get, empty if nothing has.
func (u *unit) taken(s *service, name string) string {
	switch {
	case u.declared.has(name):
		return "the package declares"
	case name == moduleName || name == setName:
		return "injection files declare"
	case name == "init" || name == "main" && u.pkg.Name == "main" || types.Universe.Lookup(name) != nil:
		return "Go itself declares"
	case u.importsAs(name):
		return "a file of the package imports a package as"
	}
	for _, other := range u.services {
		if other == s {
			return ""
		}
		if slices.Contains(other.generatedNames(), name) {
			return "the wrapper of " + other.name() + " is to declare"
		}
	}
	return ""
}

// importsAs reports whether a file of the unit imports a package by a name, which then cannot be declared.
func (u *unit) importsAs(name string) bool {
	for _, s := range u.sources {
		if scope := u.info.Scopes[s.ast]; scope != nil && scope.Lookup(name) != nil {
			return true
		}
		for _, spec := range s.ast.Imports {
			if spec.Name != nil && spec.Name.Name == name {
				return true
			}
		}
	}
	return false
}

// freeWrapper returns a name for the wrapper of s that clashes with nothing.
func (u *unit) freeWrapper(s *service) string {
	others := names{}
	for _, other := range u.services {
		if other != s {
			for _, name := range other.generatedNames() {
				others.add(name)
			}
		}
	}
	tried := names{}
	for {
		name := tried.take(derived("Limited", s.name()))
		free := true
		for _, n := range []string{name, derived("New", name), derived("Provide", name)} {
			free = free && u.taken(s, n) == "" && !others.has(n)
		}
		if free {
			return name
		}
	}
}

// interfaceMethods fills s.methods with every method of the interface, in the order of the source, those of
// embedded interfaces behind.
func (s *service) interfaceMethods() {
	u := s.unit
	if !s.iface.IsMethodSet() {
		u.errorf(s.firstLine(), "directive on %s, which can only constrain type parameters, want an interface that has values; put the methods into an interface of their own", s.name())
		s.own = nil
		return
	}
	if s.iface.NumMethods() == 0 {
		u.errorf(s.firstLine(), "directive on %s, which has no methods, want an interface or a type with methods; put it on the type that has them", s.name())
	}
	known := map[string]bool{}
	var explicit []*types.Func
	for i := range s.iface.NumExplicitMethods() {
		explicit = append(explicit, s.iface.ExplicitMethod(i))
		known[explicit[i].Id()] = true
	}
	slices.SortStableFunc(explicit, func(a, b *types.Func) int { return cmp.Compare(a.Pos(), b.Pos()) })
	for i := range s.iface.NumMethods() {
		if fn := s.iface.Method(i); !known[fn.Id()] {
			explicit = append(explicit, fn)
		}
	}
	var foreign []*types.Func
	for _, fn := range explicit {
		if !fn.Exported() && fn.Pkg().Path() != u.pkg.PkgPath {
			foreign = append(foreign, fn)
			continue
		}
		s.addMethod(fn, s.src)
	}
	s.sealVariants()
	s.sealWith(append(foreign, s.unwritable()...))
}

// concreteMethods fills s.methods with the limited methods that the type declares.
func (s *service) concreteMethods() {
	u := s.unit
	named, ok := types.Unalias(s.obj.Type()).(*types.Named)
	if !ok || named.Obj().Pkg() != u.types {
		u.errorf(s.firstLine(), "directive on %s, which declares no methods, want an interface or a type with methods; put it on the type that has them", s.name())
		return
	}
	named = named.Origin()
	var all []*types.Func
	for i := range named.NumMethods() {
		fn := named.Method(i)
		all = append(all, fn)
		_, star := types.Unalias(fn.Signature().Recv().Type()).(*types.Pointer)
		s.pointer = s.pointer || star
	}
	slices.SortStableFunc(all, func(a, b *types.Func) int { return u.comparePos(a.Pos(), b.Pos()) })
	for _, fn := range all {
		if s.own[fn.Name()] == nil && (len(s.lines) == 0 || !fn.Exported()) {
			continue
		}
		if m := s.addMethod(fn, u.source(fn.Pos())); len(m.limits) == 0 {
			s.methods = s.methods[:len(s.methods)-1]
		}
	}
	if len(s.lines) > 0 {
		all = append(all, s.promotedMethods(named)...)
	}
	if len(all) == 0 && len(s.own) == 0 && len(s.lines) > 0 && !s.hasMethodsElsewhere() {
		u.errorf(s.firstLine(), "directive on %s, which declares no methods, want an interface or a type with methods; put it on the type that has them", s.name())
	}
}

// promotedMethods adds to s.methods the exported methods that the type has from what it embeds: the type's directives
// hold for them as for its own. It returns them.
func (s *service) promotedMethods(named *types.Named) []*types.Func {
	var promoted []*types.Func
	methods := types.NewMethodSet(types.NewPointer(named))
	for i := range methods.Len() {
		fn, ok := methods.At(i).Obj().(*types.Func)
		if !ok || !fn.Exported() || len(methods.At(i).Index()) == 1 {
			continue
		}
		m := s.addPromoted(fn)
		promoted = append(promoted, fn)
		if len(m.limits) == 0 {
			s.methods = s.methods[:len(s.methods)-1]
		} else if !s.steadyPromoted(methods.At(i)) {
			m.varies = true
		}
	}
	return promoted
}

// addPromoted appends a method that is declared elsewhere: what is said of it is said of the type.
func (s *service) addPromoted(fn *types.Func) *method {
	m := s.newMethod(fn, s.src)
	m.pos, m.promoted = s.spec.Name.Pos(), true
	s.limit(m)
	return m
}

// comparePos orders places by file name and then by place, which does not depend on the order of parsing.
func (u *unit) comparePos(a, b token.Pos) int { return comparePlaces(u.position(a), u.position(b)) }

func comparePlaces(a, b token.Position) int {
	return cmp.Or(strings.Compare(a.Filename, b.Filename), cmp.Compare(a.Offset, b.Offset))
}

// firstLine returns the place of the service's first directive.
func (s *service) firstLine() token.Pos {
	first := token.NoPos
	see := func(lines []*directive) {
		for _, d := range lines {
			if !first.IsValid() || d.pos < first {
				first = d.pos
			}
		}
	}
	see(s.lines)
	for _, m := range s.own {
		see(m.lines)
	}
	if s.given != nil && !first.IsValid() {
		first = s.given.pos
	}
	return first
}

// addMethod appends a method with its limits.
func (s *service) addMethod(fn *types.Func, src *source) *method {
	m := s.newMethod(fn, src)
	if own := s.own[fn.Name()]; own != nil {
		own.found = true
		m.pos = own.name.Pos()
	} else if s.unit.source(m.pos) == nil {
		m.pos = s.spec.Name.Pos()
	}
	s.limit(m)
	return m
}

func (s *service) newMethod(fn *types.Func, src *source) *method {
	m := &method{service: s, fn: fn, sig: fn.Signature(), src: src, pos: fn.Pos()}
	m.ctx, m.carried = s.unit.contextParam(m.sig)
	m.err = errorResult(m.sig)
	return m
}

// limit gives m its limits, checks them, and appends it.
func (s *service) limit(m *method) {
	if invalid(m.sig) && s.unit.invalid == nil {
		s.unit.invalid = m
	}
	for _, d := range s.linesFor(m) {
		m.limits = append(m.limits, &limit{Limit: d.Limit, line: d})
	}
	m.settleDeny()
	s.methods = append(s.methods, m)
	if len(m.limits) > 0 {
		m.check()
	}
}

// linesFor returns the directives that hold for m, and reports one that exempts it and should not.
func (s *service) linesFor(m *method) []*directive {
	name := m.fn.Name()
	lines, exempt := s.standing(name)
	if exempt == nil {
		return append(lines, m.inherit()...)
	}
	switch {
	case len(s.own[name].lines) > 1:
		s.unit.errorf(exempt.pos, "%s beside other directives on %s, want it alone, since it exempts the method from all limits; delete it, or the others", exempt.Name, name)
	case len(s.lines) == 0 && !s.embedsLimited(m.fn):
		s.unit.errorf(exempt.pos, "%s on %s, whose type %s has no directives to be exempt from; delete the line", exempt.Name, name, s.name())
	}
	return nil
}

// check reports what is wrong with the method's limits.
func (m *method) check() {
	u, name := m.service.unit, m.fn.Name()
	if m.from != nil { // which is checked
		for _, l := range m.limits {
			m.checkExpressions(l)
		}
		return
	}
	if m.err < 0 && !m.zero {
		u.errorf(m.pos, "%s is limited and has no error result that a denial could be, want a result of type error, or deny=zero behind the directive to return zero values%s", name, m.exempt())
		if m.promoted {
			return
		}
	}
	for i, l := range m.limits {
		if whose := l.Whose(); (whose == rules.IP || whose == rules.User) && l.By == "" && m.ctx < 0 {
			u.errorf(l.line.pos, "%s limit on %s, which has no context.Context to take the identity from; give it one as its first parameter, or say whom to count by: by=%s%s", l.Kind, name, m.example(), m.exempt()).Mend = m.addContext()
		}
		m.checkEnd(l)
		for _, other := range m.limits[:i] {
			if l.Limit.String() == other.Limit.String() {
				u.errorf(l.line.pos, "%s has the limit %q twice, the other at line %d; delete one", name, l.Limit.String(), u.position(other.line.pos).Line).Mend = l.line.dropLine(u)
			}
		}
		m.checkExpressions(l)
	}
	m.checkTogether()
}

// checkTogether reports what is wrong with the method's limits only because there are several of them.
func (m *method) checkTogether() {
	u, p := m.service.unit, m.policy()
	if max := 16; len(m.limits) > max {
		u.errorf(m.limits[max].line.pos, "%s has %d limits, want at most %d; put rules of one kind into one limit", m.fn.Name(), len(m.limits), max)
		return
	}
	found := false
	at := func(pos token.Pos, other *limit, format string, args ...any) {
		found = true
		u.errorf(pos, "%s; the other is at line %d", fmt.Sprintf(m.fn.Name()+format, args...), u.position(other.line.pos).Line)
	}
	for i, l := range m.limits {
		for j, other := range m.limits[:i] {
			switch {
			case l.Limit.String() == other.Limit.String():
				found = true // reported
			case p.Name(i) == p.Name(j):
				at(l.line.column("name"), other, " has two limits named %q, want one for each; write name= and another word", p.Name(i))
			case p.KeyTemplate(i) == p.KeyTemplate(j):
				at(l.line.column("bucket"), other, " has two limits with the key %s, want one for each; write bucket= and another word, or put the rules into one limit", p.KeyTemplate(i))
			default:
				if fault := covered(l, other); fault != "" {
					at(l.line.column("rules"), other, ": %s", fault)
				}
			}
		}
	}
	if err := p.Validate(); err != nil && !found {
		u.errorf(m.limits[0].line.pos, "%s: %v", m.fn.Name(), err)
	}
}

// covered says which rule of two limits that count the same calls by the same id never denies a call that the others
// allow, empty if there is none.
func covered(l, other *limit) string {
	both := other.Limit
	if l.Mode != both.Mode || l.Plan != both.Plan && l.Plan != "" && both.Plan != "" {
		return ""
	}
	if l.Kind != both.Kind || l.Per != both.Per || l.By != both.By || l.When != both.When || l.Cost != both.Cost {
		return ""
	}
	if l.Kind == rules.Concurrency {
		return fmt.Sprintf("found %d and %d of the same calls in flight, of which only the smaller count ever denies one, want that alone", l.Count, both.Count)
	}
	both.Rules = l.Rules
	if rules.SameCount(&l.Limit, &both) != nil {
		return ""
	}
	both.Rules = slices.Concat(other.Rules, l.Rules)
	err := (&rules.Policy{Type: "p.T", Method: "M", Limits: []rules.Limit{both}}).Validate()
	if err == nil {
		return ""
	}
	for line := range strings.Lines(err.Error()) {
		if i := strings.LastIndex(line, "): rule "); i >= 0 && (strings.Contains(line, "never binds") || strings.Contains(line, "stands there already")) {
			return strings.TrimSpace(line[i+len("): "):])
		}
	}
	return ""
}

// example returns an expression over the parameters that tells callers apart, as far as types can say.
func (m *method) example() string {
	field := ""
	for v := range m.sig.Params().Variables() {
		if v.Name() == "" || v.Name() == "_" {
			continue
		}
		t := v.Type()
		if isKind(t, types.IsString) || isKind(t, types.IsInteger) {
			return v.Name()
		}
		if ptr, ok := t.Underlying().(*types.Pointer); ok {
			t = ptr.Elem()
		}
		if _, ok := t.Underlying().(*types.Struct); ok && field == "" {
			field = v.Name() + ".<field>"
		}
	}
	return cmp.Or(field, "<a parameter>")
}

// exempt says how to mend a method that has limits only because its type has.
func (m *method) exempt() string {
	if m.promoted {
		return fmt.Sprintf("; %s has it from what it embeds: declare it on %[1]s itself, with //ratelimit:none or with an error result", m.service.name())
	}
	for _, l := range m.limits {
		if !m.shared(l) {
			return ""
		}
	}
	return ", or exempt it by //ratelimit:none"
}

// errorResult returns the index of the last result that an error can be assigned to, -1 if there is none.
func errorResult(sig *types.Signature) int {
	for i := sig.Results().Len() - 1; i >= 0; i-- {
		if isError(sig.Results().At(i).Type()) {
			return i
		}
	}
	return -1
}

// isError reports whether t is an interface with the one method Error() string.
func isError(t types.Type) bool {
	if _, ok := types.Unalias(t).(*types.TypeParam); ok {
		return false
	}
	iface, ok := t.Underlying().(*types.Interface)
	universe := types.Universe.Lookup("error").Type().Underlying()
	return ok && types.Identical(iface, universe)
}
