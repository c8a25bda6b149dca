package gen

import (
	"go/ast"
	"go/types"
	"path"
	"strconv"
	"strings"
)

// plan has every package-level name that a unit's files declare, chosen before any text is.
type plan struct {
	names     names
	wrappers  map[*service]*wrapperPlan
	providers map[*service]*provider
}

// wrapperPlan names the parts of one wrapper.
type wrapperPlan struct {
	service *service
	// next is the field that has what is wrapped; a concrete type is embedded.
	next string
	// alias is set where a concrete type has a method of its own name, which an embedded field would hide: the alias
	// that is embedded instead, whose name is next.
	alias bool
	// guards and policies are by the names of the methods that the wrapper is planned for.
	guards   map[string]string
	policies map[string]string
	methods  []*method
}

// planAll names everything. A wrapper is planned by the unit that emits its type, and the units of other platforms,
// which may emit methods of it, take its names.
func planAll(units []*unit) map[*unit]*plan {
	plans := map[*unit]*plan{}
	for _, u := range units {
		plans[u] = u.plan()
	}
	for _, u := range units {
		for _, s := range u.services {
			for _, other := range u.siblings {
				if like := s.onPlatform(other); like != nil && other.emits(like.src) {
					plans[u].wrappers[s] = plans[other].wrappers[like]
				}
			}
		}
	}
	return plans
}

// plan names first what is exported, whose names are given, then the rest around it.
func (u *unit) plan() *plan {
	p := &plan{names: names{}, wrappers: map[*service]*wrapperPlan{}, providers: map[*service]*provider{}}
	for _, sibling := range u.siblings {
		for _, s := range sibling.services {
			p.names.add(s.wrapper())
			p.names.add(s.constructor())
			p.names.add(s.provider())
		}
	}
	p.names.add(moduleName)
	p.names.add(setName)
	taken := predeclaredNames().with(p.names, u.declared, u.importedNames())
	for _, s := range u.services {
		w := &wrapperPlan{service: s, guards: map[string]string{}, policies: map[string]string{}}
		p.wrappers[s] = w
		if !u.emits(s.src) {
			continue
		}
		w.methods = s.planned()
		for _, m := range w.methods {
			name := taken.take(lowerFirst(s.wrapper()) + upperFirst(m.fn.Name()))
			w.policies[m.fn.Name()] = name
			p.names.add(name)
		}
		w.nameFields(taken)
		if w.alias {
			p.names.add(w.next)
		}
		for _, seal := range s.seals {
			p.names.add(seal.alias)
		}
	}
	return p
}

// importedNames returns the names by which the unit's files import packages: a package-level name must differ.
func (u *unit) importedNames() names {
	n := names{}
	for _, s := range u.sources {
		for _, spec := range s.ast.Imports {
			if p, err := strconv.Unquote(spec.Path.Value); err == nil {
				n.add(path.Base(p))
			}
			if spec.Name != nil {
				n.add(spec.Name.Name)
			}
		}
	}
	return n
}

// nameFields names the wrapper's fields so that they hide no method.
func (w *wrapperPlan) nameFields(pkg names) {
	s := w.service
	taken := s.selectors()
	for _, m := range w.methods {
		taken.add(m.fn.Name())
	}
	switch {
	case s.iface != nil:
		w.next = taken.take("next")
	case taken.has(s.name()):
		w.alias = true
		w.next = pkg.with(taken).take(lowerFirst(s.wrapper()) + "Next")
		pkg.add(w.next)
		taken.add(w.next)
	default:
		w.next = s.name()
		taken.add(w.next)
	}
	w.nameSeals(pkg, taken)
	for _, m := range w.methods {
		w.guards[m.fn.Name()] = taken.take(lowerFirst(m.fn.Name()))
	}
}

// selectors returns the names that a selector on a value of the service finds: methods, and the fields of a struct.
func (s *service) selectors() names {
	n := names{}
	for _, m := range s.methods {
		n.add(m.fn.Name())
	}
	if s.iface != nil {
		return n
	}
	methods := types.NewMethodSet(types.NewPointer(s.obj.Type()))
	for i := range methods.Len() {
		n.add(methods.At(i).Obj().Name())
	}
	if st, ok := s.obj.Type().Underlying().(*types.Struct); ok {
		for f := range st.Fields() {
			n.add(f.Name())
		}
	}
	return n
}

// methodNames names everything that one generated method mentions.
type methodNames struct {
	recv, in, err string
	permit, ctx   string // where it matters how the call ends; the variable for what the method's context becomes
	params        []string
	results       []string // empty where the result has no name
	scope         *scopeNames
}

// methodNames keeps the user's names, but for those that hide what the body mentions, and chooses the rest around
// them.
func (w *writer) methodNames(m *method, t *typeScope) *methodNames {
	n := &methodNames{
		params:  make([]string, m.sig.Params().Len()),
		results: make([]string, m.sig.Results().Len()),
		scope: &scopeNames{
			pkg:        w.unit.types,
			params:     map[*types.Var]string{},
			qualifier:  w.qualifier,
			typeParams: t.params,
		},
	}
	for v := range m.sig.Params().Variables() {
		n.scope.params[v] = v.Name()
	}
	taken := w.mentioned(m, n.scope)
	for _, name := range t.list {
		taken.add(name)
	}
	keep := func(v *types.Var) string {
		if name := v.Name(); name != "" && !taken.has(name) {
			taken.add(name)
			return name
		}
		return ""
	}
	taken.add("_")
	for i := range n.params {
		n.params[i] = keep(m.sig.Params().At(i))
	}
	for i := range n.results {
		n.results[i] = keep(m.sig.Results().At(i))
	}
	for i, name := range n.params {
		if name == "" {
			n.params[i] = taken.take(m.paramName(i))
		}
		n.scope.params[m.sig.Params().At(i)] = n.params[i]
	}
	w.nameResults(m, n, taken)
	n.recv = taken.take("w")
	n.in = taken.take("in")
	if m.ends() {
		n.permit = taken.take("permit")
		n.ctx = "_"
		switch m.handing() {
		case inPlace:
			n.ctx = n.params[m.ctx]
		case byCopy:
			n.ctx = taken.take("ctx")
		}
	}
	return n
}

// nameResults names the results where the body returns bare, or where the user named some.
func (w *writer) nameResults(m *method, n *methodNames, taken names) {
	if m.zero {
		n.err = taken.take("err")
	}
	named := m.sig.Results().Len() > 0 && m.sig.Results().At(0).Name() != ""
	if len(m.limits) == 0 && !named {
		return
	}
	for i, name := range n.results {
		switch {
		case i == m.err && len(m.limits) > 0:
			if name == "" {
				n.results[i] = taken.take("err")
			}
			n.err = n.results[i]
		case name == "":
			n.results[i] = "_"
		}
	}
}

// paramName returns the name that a parameter without a usable one gets.
func (m *method) paramName(i int) string {
	v := m.sig.Params().At(i)
	switch {
	case v.Name() != "" && v.Name() != "_":
		return v.Name()
	case i == m.ctx && m.carried == isContext:
		return "ctx"
	default:
		return "arg" + strconv.Itoa(i)
	}
}

// mentioned returns the names from outside the method that its body mentions.
func (w *writer) mentioned(m *method, scope *scopeNames) names {
	n := names{}
	if len(m.limits) == 0 {
		return n
	}
	n.add("nil")
	n.add("bool")
	if m.needsInput() || m.carried > byValue || m.ends() {
		n.add(w.qualify(runtimePath, "ratelimit"))
	}
	if m.ctx < 0 {
		n.add(w.qualify("context", "context"))
	}
	for _, l := range m.limits {
		for _, e := range []*expression{l.by, l.cost, l.when} {
			if e != nil {
				for _, name := range e.outside(scope) {
					n.add(name)
				}
			}
		}
	}
	return n
}

// arguments returns the call's arguments.
func (n *methodNames) arguments(m *method) string {
	args := strings.Join(n.params, ", ")
	if m.sig.Variadic() {
		args += "..."
	}
	return args
}

// operand returns text so that a selector can stand behind it.
func operand(e *expression, text string) string {
	switch ast.Unparen(e.expr).(type) {
	case *ast.Ident, *ast.SelectorExpr, *ast.CallExpr, *ast.IndexExpr:
		return text
	}
	return "(" + text + ")"
}
