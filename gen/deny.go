package gen

import (
	"fmt"
	"go/types"

	"github.com/rlgen/rlgen/rules"
)

// settleDeny sets what a denied call of m returns. Where a type's directive says deny=zero, that is for those of its methods
// that have no error result; a method's own directive cannot say so where there is one.
func (m *method) settleDeny() {
	for _, l := range m.limits {
		switch {
		case l.Deny != rules.DenyZero:
		case m.err < 0:
			m.zero = true
		case m.shared(l):
			l.Deny = rules.DenyError
		default:
			m.service.unit.errorf(l.line.column("deny"), "deny=zero on %s, which has a result of type error for a denial to be, want it on methods without one; delete it", m.fn.Name())
		}
	}
}

// checkDeny reports a type's directive with deny=zero that no method needs.
func (s *service) checkDeny() {
	if s.iface == nil && len(s.unit.siblings) > 1 {
		return // other platforms may have the method
	}
	for _, d := range s.lines {
		if d.Limit.Deny != rules.DenyZero || len(s.limited()) == 0 || s.needsZero(d) {
			continue
		}
		s.unit.errorf(d.column("deny"), "deny=zero on the type %s, whose limited methods all have a result of type error for a denial to be, want it where one has none; delete it", s.name())
	}
}

// needsZero reports whether the directive is for a method without an error result.
func (s *service) needsZero(d *directive) bool {
	for _, m := range s.methods {
		for _, l := range m.limits {
			if l.line == d && m.err < 0 {
				return true
			}
		}
	}
	return false
}

// denialText says what a denied call returns, where that is not the one error behind all other results.
func (m *method) denialText() string {
	results := m.sig.Results()
	switch {
	case m.zero && results.Len() == 0:
		return "// A denied call does nothing.\n"
	case m.zero:
		return "// A denied call returns zero values.\n"
	case m.err != results.Len()-1 || errorResults(m.sig) > 1:
		return fmt.Sprintf("// A denial is result %d, the last of type error.\n", m.err+1)
	}
	return ""
}

// errorResults returns the number of results that an error can be assigned to.
func errorResults(sig *types.Signature) int {
	n := 0
	for v := range sig.Results().Variables() {
		if isError(v.Type()) {
			n++
		}
	}
	return n
}
