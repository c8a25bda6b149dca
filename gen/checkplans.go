package gen

import (
	"go/token"
	"slices"
	"strings"

	"github.com/rlgen/rlgen/rules"
)

// checkPlans warns of plans that one directive of a package alone has, and that look like one which several have: who is on a plan by its right
// name would be refused, or meet no limit.
func (u *unit) checkPlans() {
	lines := map[string][]token.Pos{}
	var all []*limit
	for _, s := range u.services {
		for _, m := range s.limited() {
			for _, l := range m.limits {
				if at := l.line.pos; l.Plan != "" && !slices.Contains(lines[l.Plan], at) {
					lines[l.Plan] = append(lines[l.Plan], at)
					all = append(all, l)
				}
			}
		}
	}
	var usual []string
	for plan, at := range lines {
		if len(at) > 1 {
			usual = append(usual, plan)
		}
	}
	slices.Sort(usual)
	for _, l := range all {
		near := rules.Suggest(l.Plan, usual)
		if len(lines[l.Plan]) == 1 && near != "" && !kindred(l.Plan, near) {
			u.warnf(l.line.column("plan"), "plan %q stands here alone in the package, and %q in %d other lines; did you mean %[2]q?", l.Plan, near, len(lines[near]))
		}
	}
}

// kindred reports whether two plans are called alike on purpose: one's name begins with the other's, or they differ in numbers alone.
func kindred(a, b string) bool {
	const numbers = "0123456789"
	return strings.HasPrefix(a, b) || strings.HasPrefix(b, a) || strings.Trim(a, numbers) == strings.Trim(b, numbers)
}
