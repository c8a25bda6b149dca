package ratelimit

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// call is what one call asks: a request per rate that applies, and which limits those are; and what it is to hold.
type call struct {
	requests []store.Request
	memory   *[]store.Request // that of the requests, if it is to be used again; else nil
	indexes  []int
	holds    []wanted
	shadow   *call // what is asked of shadows; nil where none applies
	// computed has for each request the limit whose rules were computed, nil where they are as written; it is nil where none were.
	computed []*rules.Limit
}

// rules is the number of rules that the call asks.
func (c call) rules() int {
	n := 0
	for i := range c.requests {
		n += len(c.requests[i].Rules)
	}
	return n
}

// call makes the requests of one call.
func (g *Guard) call(ctx context.Context, in []Input) (call, error) {
	if g.same != nil && len(in) == 0 {
		return *g.same, nil
	}
	if len(in) != len(g.limits) && (len(in) != 0 || g.inputs) {
		return call{}, g.fail(-1, ErrMisconfigured,
			fmt.Errorf("the wrapper gives %d inputs for %d limits, want it generated again", len(in), len(g.limits)))
	}
	who := identityFrom(ctx)
	if err := g.knowPlan(who.plan, in); err != nil {
		return call{}, err
	}
	c := call{indexes: g.all[:0:0]}
	if g.reuses {
		c.memory = memories.Get().(*[]store.Request)
		c.requests = slices.Grow(*c.memory, len(g.limits))
	} else {
		c.requests = make([]store.Request, 0, len(g.limits))
	}
	for i := range g.limits {
		l := &g.limits[i]
		var input Input
		if len(in) > 0 {
			input = in[i]
		}
		if l.off || input.skipped() || l.Plan != "" && l.Plan != who.plan {
			continue
		}
		var id string
		byAddress := l.countsAddress(&input)
		if !byAddress {
			id = l.id(who, &input, g.limiter.ipv6)
		}
		if l.shadow {
			g.shade(ctx, &c, i, id, input.permits())
			continue
		}
		if id == "" && l.Whose() != rules.Global && !(byAddress && who.ip.IsValid()) {
			if l.Missing == rules.MissingAllow {
				continue
			}
			return call{}, g.fail(i, ErrNoIdentity, nil)
		}
		of, most := l.Limit, l.most
		if l.computed != nil {
			contract, err := g.compute(ctx, i)
			if err != nil {
				return call{}, err
			}
			of, most = contract.Limit, contract.most
		}
		cost := input.permits()
		if cost < 0 || cost > most {
			return call{}, &CostError{Type: g.policy.Type, Method: g.policy.Method, Limit: g.policy.Name(i), Kind: l.Kind, Cost: cost, Most: most}
		}
		if l.holds != nil {
			c.want(l, i, id, cost)
			continue
		}
		c.indexes = g.indexes(c.indexes, i)
		key := ""
		if byAddress {
			key = l.addressKey(who.ip, g.limiter.ipv6)
		} else {
			key = l.key(id)
		}
		req := store.NewRequest(of, key, cost)
		req.Returns = req.Returns || g.queues || g.holding
		c.requests = append(c.requests, req)
		c.computes(l, of)
	}
	c.sortHolds()
	return c, nil
}

// indexes appends i. While those of a call are the first ones of the policy, they are a part of all.
func (g *Guard) indexes(of []int, i int) []int {
	if n := len(of); n == i {
		return g.all[: i+1 : i+1]
	}
	return append(of, i)
}

// countsAddress says whether a rate counts a call by the address that its context carries, whose text nobody needs but in the key.
func (l *limit) countsAddress(in *Input) bool {
	return l.Whose() == rules.IP && in.given&givenID == 0 && !l.shadow && l.holds == nil
}

// id returns what the call counts by, empty if it carries no id.
func (l *limit) id(who identity, in *Input, ipv6 ipv6Prefix) string {
	given := in.given&givenID != 0
	switch l.Whose() {
	case rules.IP:
		if given {
			return ipv6.parse(in.id)
		}
		return ipv6.id(who.ip)
	case rules.User:
		if given {
			return in.id
		}
		return who.user
	case rules.Key:
		return in.id
	}
	return ""
}

// memories are those of the requests of calls that nobody reads any more, or nil slices.
var memories = sync.Pool{New: func() any { return new([]store.Request) }}

// release lets another call have the memory of the requests of c, which is decided and was granted permit. What a store has charged keeps no more of them than it takes to make them anew
// when it is given back. Those that somebody else may still read, as whoever takes back what was charged by a receipt of his own, stay: see [store.Store]'s Take.
func (g *Guard) release(c *call, permit *Permit) {
	if c.memory == nil {
		return
	}
	*c.memory = nil
	if permit.receipt.From == nil && g.keepCharges(c, permit) {
		clear(c.requests)
		*c.memory = c.requests[:0]
	}
	memories.Put(c.memory)
}

// keepCharges keeps in permit what c was charged in place of its requests, and says whether it does without them now.
func (g *Guard) keepCharges(c *call, permit *Permit) bool {
	charged := permit.receipt.Requests
	if len(charged) == 0 {
		return true
	}
	if len(charged) != len(c.requests) || &charged[0] != &c.requests[0] {
		return false
	}
	for i := range charged {
		of := g.limits[c.indexes[i]].Limit
		if c.computed != nil && c.computed[i] != nil {
			of = c.computed[i]
		}
		permit.charges[i] = charge{of: of, key: charged[i].Key, cost: charged[i].Cost}
	}
	permit.receipt.Requests = nil
	return true
}

// answers reports an outcome that is none of the call's.
func (c *call) answers(g *Guard, out *store.Outcome) error {
	if n := c.rules(); len(out.Rules) != n {
		return g.fail(-1, ErrMisconfigured, fmt.Errorf("the store answered %d rules of %d", len(out.Rules), n))
	}
	return nil
}

// allAhead is the [store.Outcome.Ahead] of a call for which the store was not asked at all.
func allAhead(c call) uint64 { return 1<<len(c.requests) - 1 }
