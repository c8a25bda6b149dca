package gen

import (
	"go/token"
	"go/types"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// outputs plans the wrapper files of the unit: one for each source that declares a service or a limited method.
func (u *unit) outputs(p *plan) []*output {
	var list []*output
	for _, src := range u.sources {
		if !u.emits(src) {
			continue
		}
		var services []*service
		var methods []*method
		for _, s := range u.services {
			if len(p.wrappers[s].methods) == 0 {
				continue
			}
			if s.src == src {
				services = append(services, s)
			}
			for _, m := range s.methods {
				if m.src == src {
					methods = append(methods, m)
				}
			}
		}
		if len(services)+len(methods) == 0 {
			continue
		}
		list = append(list, &output{
			unit:     u,
			inputs:   p.inputs(services, methods),
			source:   firstPlace(services, methods),
			spread:   slices.ContainsFunc(services, func(s *service) bool { return s.iface == nil }),
			path:     src.output(),
			from:     []string{filepath.Base(src.path)},
			build:    src.constraint(),
			excluded: src.excluded,
			aliases:  importNames(src.ast),
			body: func(w *writer) {
				w.handshake()
				for _, s := range services {
					w.service(p.wrappers[s])
				}
				for _, m := range methods {
					w.method(p.wrappers[m.service], m)
				}
				for _, s := range services {
					if p.providers[s] != nil {
						w.provider(p.wrappers[s], p.providers[s])
					}
				}
			},
		})
	}
	return list
}

// firstPlace returns the place of the first of the services, of the methods if there are none.
func firstPlace(services []*service, methods []*method) token.Pos {
	if len(services) > 0 {
		return services[0].spec.Name.Pos()
	}
	return methods[0].pos
}

func (w *writer) handshake() {
	w.printf("// This file and the ratelimit package it is built with agree on version 1 of generated code.\n")
	w.printf("const _ = %s.GeneratedV1\n\n", w.qualify(runtimePath, "ratelimit"))
}

// typeScope is how one file calls the type parameters of a service, and its types.
type typeScope struct {
	*typePrinter
	decl string // "[K comparable, V any]", empty where there are none
	args string // "[K, V]"
	list []string
}

// typeScope names the service's type parameters for this file: one that hides a name of the file is renamed, a
// blank one is named.
func (w *writer) typeScope(s *service, m *method) *typeScope {
	t := &typeScope{typePrinter: &typePrinter{
		pkg:       w.unit.types,
		qualifier: w.qualifier,
		params:    map[*types.TypeParam]string{},
		hidden:    w.unit.declared,
	}}
	params := s.typeParams()
	if params.Len() == 0 {
		return t
	}
	taken := w.scope.with()
	for i := range params.Len() {
		name := params.At(i).Obj().Name()
		if name == "_" {
			name = "T"
		}
		name = taken.take(name)
		t.params[params.At(i)] = name
		t.list = append(t.list, name)
		if m != nil && m.sig.RecvTypeParams().Len() == params.Len() {
			t.params[m.sig.RecvTypeParams().At(i)] = name
		}
	}
	var decls []string
	for i, name := range t.list {
		decls = append(decls, name+" "+t.constraint(params.At(i).Constraint()))
	}
	t.decl = "[" + strings.Join(decls, ", ") + "]"
	if len(decls) == 1 && strings.HasPrefix(t.constraint(params.At(0).Constraint()), "*") {
		t.decl = "[" + decls[0] + ",]"
	}
	t.args = "[" + strings.Join(t.list, ", ") + "]"
	return t
}

// service writes the wrapper's policies, type, assertion and constructor.
func (w *writer) service(p *wrapperPlan) {
	s := p.service
	t := w.typeScope(s, nil)
	w.predeclared("nil")
	for _, m := range p.methods {
		w.policy(p, m)
	}
	next := s.name() + t.args
	if s.iface != nil {
		w.interfaceType(p, t, next)
	} else {
		w.concreteType(p, t, next)
	}
	w.constructor(p, t, next)
	for _, problem := range t.problems {
		w.problem(s.spec.Name.Pos(), "%s: %s", s.name(), problem)
	}
}

// policy writes the method's policy, one limit a line.
func (w *writer) policy(p *wrapperPlan, m *method) {
	policy := m.policy()
	rules := w.qualify(rulesPath, "rules")
	w.printf("var %s = %s.Policy{\n", p.policies[m.fn.Name()], rules)
	w.printf("Package: %q,\nType: %q,\nMethod: %q,\nLimits: []%s.Limit{\n", policy.Package, policy.Type, policy.Method, rules)
	for _, l := range policy.Limits {
		w.printf("{%s},\n", w.fields(reflect.ValueOf(l)))
	}
	w.printf("},\n}\n\n")
}

func (w *writer) interfaceType(p *wrapperPlan, t *typeScope, next string) {
	s := p.service
	seals := w.sealTypes(p, t)
	w.printf("// %s is %s [%s] that asks a limiter before it calls on.\n", s.wrapper(), article(s.name()), s.name())
	w.printf("type %s%s struct {\n%s%s %s\n", s.wrapper(), t.decl, seals, p.next, next)
	w.guards(p)
	if t.decl == "" {
		w.printf("var _ %s = (*%s)(nil)\n\n", next, s.wrapper())
	} else {
		w.printf("func _%s() { var _ %s = (*%s%s)(nil) }\n\n", t.decl, next, s.wrapper(), t.args)
	}
}

func (w *writer) concreteType(p *wrapperPlan, t *typeScope, next string) {
	s := p.service
	if p.alias {
		w.printf("type %s%s = %s\n\n", p.next, t.decl, next)
		next = p.next + t.args
	}
	w.printf("// %s is %s [%s] whose limited methods ask a limiter before they run; the others are those of %s.\n",
		s.wrapper(), article(s.name()), s.name(), s.name())
	w.printf("type %s%s struct {\n%s\n", s.wrapper(), t.decl, s.star()+next)
	w.guards(p)
}

// guards writes the guards and ends the wrapper's declaration.
func (w *writer) guards(p *wrapperPlan) {
	w.printf("\n")
	for _, m := range p.methods {
		w.printf("%s *%s.Guard\n", p.guards[m.fn.Name()], w.qualify(runtimePath, "ratelimit"))
	}
	w.printf("}\n\n")
}

func (w *writer) constructor(p *wrapperPlan, t *typeScope, next string) {
	s := p.service
	runtime := w.qualify(runtimePath, "ratelimit")
	nilable := s.iface != nil || s.pointer
	what := "limiter"
	if nilable {
		what = "next or limiter"
	}
	w.printf("// %s returns next behind the limits of its directives. It panics if %s is nil.\n", s.constructor(), what)
	taken := names{s.wrapper(): true}
	for _, name := range t.list {
		taken.add(name)
	}
	for _, name := range p.policies {
		taken.add(name)
	}
	param, limiter := taken.take("next"), taken.take("limiter")
	w.printf("func %s%s(%s %s, %s *%s.Limiter) *%s%s {\n", s.constructor(), t.decl, param, s.star()+next, limiter, runtime, s.wrapper(), t.args)
	if nilable {
		w.printf("if %s == nil {\n%s(%q)\n}\n", param, w.predeclared("panic"), w.unit.pkg.Name+"."+s.constructor()+": next is nil")
	}
	w.printf("return &%s%s{\n", s.wrapper(), t.args)
	for _, seal := range s.seals {
		w.printf("%s: %s,\n", seal.alias, param)
	}
	w.printf("%s: %s,\n", p.next, param)
	for _, m := range p.methods {
		w.printf("%s: %s.Guard(&%s),\n", p.guards[m.fn.Name()], limiter, p.policies[m.fn.Name()])
	}
	w.printf("}\n}\n\n")
}

// star returns what stands before the concrete type in the wrapper.
func (s *service) star() string {
	if s.pointer {
		return "*"
	}
	return ""
}

// method writes one method of the wrapper.
func (w *writer) method(p *wrapperPlan, m *method) {
	s := p.service
	t := w.typeScope(s, m)
	n := w.methodNames(m, t)
	w.methodDoc(m)
	w.printf("func (%s *%s%s) %s(%s)%s {\n", n.recv, s.wrapper(), t.args, m.fn.Name(), w.params(m, t, n), w.results(m, t, n))
	if len(m.limits) > 0 {
		w.take(p, m, n)
	}
	call := n.recv + "." + p.next + "." + m.fn.Name() + "(" + n.arguments(m) + ")"
	if m.sig.Results().Len() > 0 {
		call = "return " + call
	}
	w.printf("%s\n}\n\n", call)
	for _, problem := range t.problems {
		w.problem(m.pos, "%s: %s", m.fn.Name(), problem)
	}
}

func (w *writer) methodDoc(m *method) {
	s := m.service
	switch {
	case len(m.limits) == 0:
		w.printf("// %s implements [%s]. It is not limited.\n", m.fn.Name(), s.name())
	case m.from != nil:
		w.printf("// %s implements [%s]. Limits, those of [%s]: %s.\n", m.fn.Name(), s.name(), m.from.name(), m.limitsText())
	case s.iface != nil:
		w.printf("// %s implements [%s]. Limits: %s.\n", m.fn.Name(), s.name(), m.limitsText())
	default:
		w.printf("// %s calls [%s.%s]. Limits: %s.\n", m.fn.Name(), s.name(), m.fn.Name(), m.limitsText())
	}
	if len(m.limits) > 0 {
		w.printf("%s", m.denialText())
	}
}

// limitsText returns the limits as directives have them.
func (m *method) limitsText() string {
	var lines []string
	for _, l := range m.limits {
		lines = append(lines, l.Limit.String())
	}
	return strings.Join(lines, "; ")
}

func (w *writer) params(m *method, t *typeScope, n *methodNames) string {
	params := m.sig.Params()
	texts := make([]string, params.Len())
	for i := range texts {
		t.buf.Reset()
		t.param(params.At(i).Type(), m.sig.Variadic() && i == params.Len()-1)
		texts[i] = t.buf.String()
	}
	return fieldList(n.params, texts)
}

func (w *writer) results(m *method, t *typeScope, n *methodNames) string {
	results := m.sig.Results()
	texts := make([]string, results.Len())
	for i := range texts {
		texts[i] = t.print(results.At(i).Type())
	}
	switch {
	case len(texts) == 0:
		return ""
	case len(texts) == 1 && n.results[0] == "":
		return " " + texts[0]
	}
	return " (" + fieldList(n.results, texts) + ")"
}

// fieldList returns names and their types as a list, names of one type together: "from, to string, n int". Without
// names it is a list of types.
func fieldList(names, types []string) string {
	var b strings.Builder
	for i, typ := range types {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(names[i])
		if names[i] != "" && i+1 < len(types) && types[i+1] == typ {
			continue
		}
		if names[i] != "" {
			b.WriteString(" ")
		}
		b.WriteString(typ)
	}
	return b.String()
}

// take writes the question to the guard, and before it the inputs that its limits want.
func (w *writer) take(p *wrapperPlan, m *method, n *methodNames) {
	if m.needsInput() {
		w.printf("var %s [%d]%s.Input\n", n.in, len(m.limits), w.qualify(runtimePath, "ratelimit"))
		for i, l := range m.limits {
			w.input(l, n.in+"["+strconv.Itoa(i)+"]", n)
		}
	}
	args := w.contextArg(m, n)
	if m.needsInput() {
		args += ", " + n.in + "[:]..."
	}
	if m.ends() {
		w.takeUntilEnd(p, m, n, args)
		return
	}
	assign := "="
	if m.zero {
		assign = ":="
	}
	w.printf("if _, %[1]s %[5]s %[2]s.%[3]s.Take(%[4]s); %[1]s != nil {\nreturn\n}\n", n.err, n.recv, p.guards[m.fn.Name()], args, assign)
}

func (m *method) needsInput() bool {
	for _, l := range m.limits {
		if l.by != nil || l.cost != nil || l.when != nil {
			return true
		}
	}
	return false
}

// input writes what one limit computes of the call.
func (w *writer) input(l *limit, in string, n *methodNames) {
	if l.when != nil {
		when := l.when.source(n.scope)
		if _, basic := types.Unalias(l.when.typ).(*types.Basic); !basic {
			when = w.predeclared("bool") + "(" + when + ")"
		}
		if l.by == nil && l.cost == nil {
			w.printf("%s.When(%s)\n", in, when)
			return
		}
		w.printf("if %s.When(%s) {\n", in, when)
		defer w.printf("}\n")
	}
	if l.by != nil {
		w.id(l.by, in, n)
	}
	if l.cost != nil {
		cost := l.cost.source(n.scope)
		if !l.cost.untyped() {
			cost = w.qualify(runtimePath, "ratelimit") + ".Permits(" + cost + ")"
		}
		w.printf("%s.Cost(%s)\n", in, cost)
	}
}

// id writes what makes a value the id of an input.
func (w *writer) id(e *expression, in string, n *methodNames) {
	by, convert := "By", ""
	value := e.source(n.scope)
	switch e.form(w.unit.types) {
	case asIs:
	case byStringer:
		value = operand(e, value) + ".String()"
	case byPointer:
		convert = "Ref"
	case byInterface:
		convert = "Stringer"
	case asText:
		convert = "Text"
	case asInt:
		by, convert = "ByInt", "Int"
		if e.untyped() {
			value = w.predeclared("int64") + "(" + value + ")" // an int may be smaller
		}
	case asBool:
		convert = "Bool"
	}
	if convert != "" {
		value = w.qualify(runtimePath, "ratelimit") + "." + convert + "(" + value + ")"
	}
	w.printf("%s.%s(%s)\n", in, by, value)
}

func article(name string) string {
	if strings.ContainsAny(name[:1], "AEIOUaeiou") {
		return "an"
	}
	return "a"
}
