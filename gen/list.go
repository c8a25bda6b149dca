package gen

import (
	"go/token"

	"github.com/rlgen/rlgen/rules"
)

// Method is one limited method.
type Method struct {
	// Pos is the place of the method's name; its Filename is absolute.
	Pos token.Position
	// Policy is what stands over the method.
	Policy *rules.Policy
	// Limits are the places of the directives of the policy's limits, which may stand over the type.
	Limits []token.Position
}

func describe(services []*service) []Method {
	var list []Method
	for _, s := range services {
		for _, m := range s.limited() {
			if !s.unit.emits(m.src) {
				continue
			}
			one := Method{Pos: s.unit.position(m.pos), Policy: m.policy()}
			for _, l := range m.limits {
				one.Limits = append(one.Limits, s.unit.position(l.line.pos))
			}
			list = append(list, one)
		}
	}
	return list
}
