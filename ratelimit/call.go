package ratelimit

import (
	"context"
	"fmt"

	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// call is what one call asks: a request per rate that applies, and of which limit; and what it is to hold.
type call struct {
	asks
	memory *asks // that of these, if it is to be used again; else nil
	unread bool  // no store reads the requests any more, but by a receipt for them
	holds  []wanted
	shadow *call // what is asked of shadows; nil where none applies
}

// rules is the number of rules that the call asks.
func (c *call) rules() int {
	n := 0
	for i := range c.requests {
		n += len(c.requests[i].Rules)
	}
	return n
}

// newCall returns one that asks nothing yet.
func (g *Guard) newCall() (c call) {
	if g.reuses {
		c.memory = memories.Get().(*asks)
		c.asks = *c.memory
	}
	c.grow(g.rates)
	return c
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
	c := g.newCall()
	if err := g.fill(ctx, &c, &who, in); err != nil {
		c.unread = true
		c.release(new(Permit))
		return call{}, err
	}
	c.sortHolds()
	return c, nil
}

// fill adds what each limit that applies is asked.
func (g *Guard) fill(ctx context.Context, c *call, who *identity, in []Input) error {
	for i := range g.limits {
		l := &g.limits[i]
		var input Input
		if len(in) > 0 {
			input = in[i]
		}
		if l.off || input.skipped() || l.Plan != "" && l.Plan != who.plan {
			continue
		}
		id := l.id(who, &input)
		if l.shadow {
			g.shade(ctx, c, i, &id, input.permits(l.Limit))
			continue
		}
		if id.form == noID && l.Whose() != rules.Global {
			if l.Missing == rules.MissingAllow {
				continue
			}
			return g.fail(i, ErrNoIdentity, nil)
		}
		of, most := l.Limit, l.most
		if l.computed != nil {
			contract, err := g.compute(ctx, i)
			if err != nil {
				return err
			}
			of, most = contract.Limit, contract.most
		}
		cost := input.permits(l.Limit)
		if cost < 0 || cost > most {
			return &CostError{Type: g.policy.Type, Method: g.policy.Method, Limit: g.policy.Name(i), Kind: l.Kind, Cost: cost, Most: most}
		}
		if l.holds != nil {
			c.want(l, i, &id, cost)
			continue
		}
		req := c.add(asked{i, of}, l.key(&id), cost)
		req.Returns = req.Returns || g.queues || g.holding
	}
	return nil
}

// answers reports an outcome that is none of the call's.
func (c *call) answers(g *Guard, out *store.Outcome) error {
	if n := c.rules(); len(out.Rules) != n {
		return g.fail(-1, ErrMisconfigured, fmt.Errorf("the store answered %d rules of %d", len(out.Rules), n))
	}
	return nil
}

// allAhead is the [store.Outcome.Ahead] of a call for which the store was not asked at all.
func allAhead(c *call) uint64 { return 1<<len(c.requests) - 1 }

// release lets another call have the memory of this one, which is over and was granted permit. What a store has charged keeps no more of the requests than it takes to make them anew
// when it is given back. Those that somebody may still read, as whoever takes back what was charged by a receipt of his own, stay his: see [store.Store]'s Take.
func (c *call) release(permit *Permit) {
	if c.memory == nil {
		return
	}
	if !c.unread || permit.receipt.From != nil || !c.keepCharges(permit) {
		c.requests = nil
	}
	clear(c.requests)
	clear(c.limits)
	*c.memory = asks{c.requests[:0], c.limits[:0]}
	memories.Put(c.memory)
	c.asks, c.memory = asks{}, nil
}

// keepCharges keeps in permit what c was charged in place of its requests, and says whether it does without them now.
func (c *call) keepCharges(permit *Permit) bool {
	charged := permit.receipt.Requests
	if len(charged) == 0 {
		return true
	}
	if len(charged) > mostCharges || len(charged) != len(c.requests) || &charged[0] != &c.requests[0] {
		return false
	}
	for i := range charged {
		permit.charges[i] = charge{of: c.limits[i].Limit, key: charged[i].Key, cost: charged[i].Cost}
	}
	permit.receipt.Requests = nil
	return true
}
