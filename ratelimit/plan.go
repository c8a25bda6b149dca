package ratelimit

import (
	"errors"
	"slices"
	"strings"

	"github.com/rlgen/rlgen/rules"
)

// planned is the limits of one kind that are for plans, where callers on none of them are refused.
type planned struct {
	limits []int
	plans  []string
}

// newPlanned returns what p has for plans: for each kind of which every limit has one, and none says missing=allow.
func newPlanned(p *rules.Policy) []planned {
	var all []planned
	for i := range p.Limits {
		first := func(l rules.Limit) bool { return l.Kind == p.Limits[i].Kind && l.Mode == rules.Enforce }
		if p.Limits[i].Plan == "" || slices.IndexFunc(p.Limits, first) != i {
			continue
		}
		if of, strict := plannedOf(p, p.Limits[i].Kind); strict {
			all = append(all, of)
		}
	}
	return all
}

// plannedOf returns the limits of a kind that are for plans, and whether callers on none of them are refused.
func plannedOf(p *rules.Policy, kind rules.Kind) (of planned, strict bool) {
	for i := range p.Limits {
		l := &p.Limits[i]
		if l.Kind != kind || l.Mode == rules.Shadow {
			continue
		}
		if l.Plan == "" || l.Missing == rules.MissingAllow {
			return of, false
		}
		of.limits = append(of.limits, i)
		if !slices.Contains(of.plans, l.Plan) {
			of.plans = append(of.plans, l.Plan)
		}
	}
	return of, true
}

// knowPlan refuses a call whose caller is on no plan that a kind of limits is for, where one of those applies to the call.
func (g *Guard) knowPlan(plan string, in []Input) error {
	for k := range g.planned {
		p := &g.planned[k]
		if slices.Contains(p.plans, plan) {
			continue
		}
		for _, i := range p.limits {
			if len(in) == 0 || !in[i].skipped() {
				return g.fail(i, ErrNoIdentity, p.unknown(plan))
			}
		}
	}
	return nil
}

// unknown is why a plan is refused.
func (p *planned) unknown(plan string) error {
	found := "no plan"
	if plan != "" {
		found = "a plan that no limit of this kind is for"
	}
	return errors.New("the caller is on " + found + ", want ratelimit.WithPlan with one of " + strings.Join(p.plans, ", ") +
		"; a limit without plan= applies to everybody, and missing=allow lets the others through")
}
