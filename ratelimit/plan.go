package ratelimit

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/rlgen/rlgen/rules"
)

// planned is the limits of one kind that are for plans, where callers on none of them are refused.
type planned struct {
	limits []int
	plans  []string
}

// newPlanned returns what g has for plans: for each kind of which every limit has one, and none says missing=allow.
func (g *Guard) newPlanned(written *rules.Policy) []planned {
	var all []planned
	for _, kind := range []rules.Kind{rules.IP, rules.User, rules.Global, rules.Key} {
		if of, strict := g.plannedOf(kind, written); strict && len(of.limits) > 0 {
			all = append(all, of)
		}
	}
	return all
}

// plannedOf returns the limits of a kind that are for plans, and whether callers on none of them are refused. The plan of a limit that is written as a shadow
// is not known for that; the plan of one that an override has made a shadow, or turned off, still is.
func (g *Guard) plannedOf(kind rules.Kind, written *rules.Policy) (of planned, strict bool) {
	for i := range g.limits {
		l := &g.limits[i]
		if l.Kind != kind || l.shadow && written.Limits[i].Mode == rules.Shadow {
			continue
		}
		if l.Plan == "" || l.Missing == rules.MissingAllow {
			return of, false
		}
		if !l.off && !l.shadow {
			of.limits = append(of.limits, i)
		}
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
				return g.fail(i, ErrUnknownPlan, p.unknown(plan))
			}
		}
	}
	return nil
}

// unknown returns the reason why a plan is refused.
func (p *planned) unknown(plan string) error {
	found := "no plan"
	if plan != "" {
		found = "plan " + strconv.Quote(plan)
	}
	return fmt.Errorf("found %s, want one of %q; write ratelimit.WithPlan with one of them, "+
		"a limit without plan=, or missing=allow", found, p.plans)
}
