package gen

import (
	"go/types"

	"github.com/rlgen/rlgen/rules"
)

// holds reports whether a limit of the method holds something while it runs.
func (m *method) holds() bool {
	for _, l := range m.limits {
		if l.Kind.Holds() {
			return true
		}
	}
	return false
}

// ends reports whether it matters to the method's limits how a call ends.
func (m *method) ends() bool {
	for _, l := range m.limits {
		if l.Kind.Holds() || l.Charge != rules.ChargeAlways {
			return true
		}
	}
	return false
}

// handing says how a method gets the context of what its call holds.
type handing uint8

const (
	notHanded handing = iota // it has no context, or one that cannot be replaced
	inPlace                  // its parameter is a context.Context
	byCopy                   // its parameter has WithContext(context.Context), which returns another of its type
)

func (m *method) handing() handing {
	obj := m.service.unit.imports.context()
	if m.ctx < 0 || obj == nil || !m.holds() {
		return notHanded
	}
	t := m.sig.Params().At(m.ctx).Type()
	switch {
	case m.carried == isContext && types.AssignableTo(obj.Type(), t):
		return inPlace
	case m.carried != isContext && m.carried != inSlice && copies(t, obj.Type(), m.service.unit.types):
		return byCopy
	}
	return notHanded
}

// copies reports whether t has a method WithContext(context.Context) t.
func copies(t, ctx types.Type, pkg *types.Package) bool {
	method := types.NewMethodSet(t).Lookup(pkg, "WithContext")
	if method == nil {
		return false
	}
	sig, ok := method.Type().(*types.Signature)
	return ok && !sig.Variadic() && sig.Params().Len() == 1 && sig.Results().Len() == 1 &&
		types.Identical(sig.Params().At(0).Type(), ctx) && types.Identical(sig.Results().At(0).Type(), t)
}

// takeUntilEnd writes the question to the guard, and what is to happen when the call ends.
func (w *writer) takeUntilEnd(p *wrapperPlan, m *method, n *methodNames, args string) {
	guard := n.recv + "." + p.guards[m.fn.Name()]
	if m.holds() {
		w.printf("%s, %s, %s := %s.Hold(%s)\n", n.ctx, n.permit, n.err, guard, args)
	} else {
		w.printf("%s, %s := %s.Take(%s)\n", n.permit, n.err, guard, args)
	}
	w.printf("if %s != nil {\nreturn\n}\n", n.err)
	switch {
	case m.zero:
		w.printf("defer %s.Done(nil)\n", n.permit)
	case types.Identical(m.sig.Results().At(m.err).Type(), types.Universe.Lookup("error").Type()):
		w.printf("defer %s.Done(&%s)\n", n.permit, n.err)
	default:
		w.printf("defer %s.Done(%s, &%s)\n", w.qualify(runtimePath, "ratelimit"), n.permit, n.err)
	}
	if m.handing() == byCopy {
		carrier := n.params[m.ctx]
		if isNamed(m.sig.Params().At(m.ctx).Type(), "net/http", "Request") {
			w.printf("defer %s.CarryBack(%s, &%s)\n", w.qualify(runtimePath, "ratelimit"), carrier, carrier)
		}
		w.printf("%s = %s\n", carrier, w.carry(m, carrier, n.ctx))
	}
}

// carry returns the expression for a carrier with another context.
func (w *writer) carry(m *method, carrier, ctx string) string {
	switch m.carried {
	case inPointer:
		return w.qualify(runtimePath, "ratelimit") + ".CarryOf(" + carrier + ", " + ctx + ")"
	case inInterface:
		return w.qualify(runtimePath, "ratelimit") + ".CarryIn(" + carrier + ", " + ctx + ")"
	}
	return carrier + ".WithContext(" + ctx + ")"
}

// checkEnd reports what a limit asks of the end of a call that the method cannot give.
func (m *method) checkEnd(l *limit) {
	u, name := m.service.unit, m.fn.Name()
	if l.Charge != rules.ChargeAlways && m.err < 0 {
		u.errorf(l.line.column("charge"), "charge=%s on %s, which has no result of type error to say how a call ended, want one; delete it%s", l.Charge, name, m.exempt())
	}
	if stream := m.stream(); l.Kind.Holds() && stream != nil {
		u.warnf(l.line.pos, "%s on %s, whose result %s is read when it has returned: by then the call holds nothing any more, and its context is done; want what it reads in the result, or a func parameter that it calls", l.Kind, name, types.TypeString(stream, types.RelativeTo(u.types)))
	}
	if l.Kind != rules.Lock || m.handing() != notHanded {
		return
	}
	const want = "want a context.Context as its first parameter, where that matters"
	if m.ctx < 0 {
		u.warnf(l.line.pos, "lock on %s, which has no context.Context: it is not told when the lock is lost, and the same lock does not nest in it; %s", name, want)
	} else {
		u.warnf(l.line.pos, "lock on %s, whose context cannot be replaced by the one of the lock: it is not told when the lock is lost, and the same lock does not nest in it; %s", name, want)
	}
}
