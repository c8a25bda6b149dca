package ratelimit

import (
	"context"
	"errors"

	"github.com/rlgen/rlgen/ratelimit/lock"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// shadows reports whether a limit denies nothing here.
func (l *Limiter) shadows(of *rules.Limit) bool {
	return of.Mode == rules.Shadow || l.mode == rules.Shadow
}

// shade adds what limit i, which is a shadow, is asked for a call. One that has no id to count by, asks for less than nothing, or has no rules because the hook
// that computes them fails, does not apply.
func (g *Guard) shade(ctx context.Context, c *call, i int, id *callerID, cost int64) {
	l := &g.limits[i]
	if id.form == noID && l.Whose() != rules.Global || cost < 0 {
		return
	}
	of := l.Limit
	if l.computed != nil {
		contract, err := g.compute(ctx, i)
		if err != nil {
			return
		}
		of = contract.Limit
	}
	if c.shadow == nil {
		c.shadow = new(call)
	}
	if l.holds != nil {
		c.shadow.want(l, i, id, min(cost, l.most))
		return
	}
	req := c.shadow.add(asked{i, of}, l.key(id), cost)
	if l.trial { // what is denied to nobody bans nobody: the ban would be there once the limit denies again
		req.Ban, req.After = 0, 0
	}
}

// askShadow asks the shadows of a call that the other limits have decided, and writes into d what they say. They are decided together, as
// if they were the only limits of the method: those that charge always see every call, denied or not, and those that charge by outcome, or
// hold something, the calls that are made. Where they cannot be asked, nothing is said of them. It returns what a context for the method is to have of
// the locks that they hold: calls within nest in these as in others.
func (g *Guard) askShadow(ctx context.Context, c *call, detail bool, d *Decision, permit *Permit) shadowLocks {
	if d.Degraded != nil {
		return shadowLocks{} // the store would keep the call waiting, for no answer
	}
	if !d.Allowed {
		c.shadow.drop(func(of asked) bool { return of.Charge != rules.ChargeAlways })
		c.shadow.holds = nil
	}
	if !g.takeShadow(ctx, c.shadow, detail, d, permit) {
		return shadowLocks{}
	}
	return g.holdShadow(ctx, c.shadow, d, permit)
}

// shadowLocks is the context of the locks that shadows hold for a call. It is no ancestor of the method's, which it must not end, but a value in it.
type shadowLocks struct{ context.Context }

// shadowing is what a context has its shadowLocks by.
type shadowing struct{}

// in returns ctx with the locks in it.
func (s shadowLocks) in(ctx context.Context) context.Context {
	if s.Context == nil {
		return ctx
	}
	return context.WithValue(ctx, shadowing{}, s)
}

// shadowOf is where shadows lock for a call with ctx: in what shadows hold already for the one that it is within, if that still runs.
func shadowOf(ctx context.Context) context.Context {
	if s, ok := ctx.Value(shadowing{}).(shadowLocks); ok && s.Err() == nil {
		return s
	}
	return ctx
}

// takeShadow asks for the rates of c, and reports whether they have room.
func (g *Guard) takeShadow(ctx context.Context, c *call, detail bool, d *Decision, permit *Permit) bool {
	if len(c.requests) == 0 {
		return true
	}
	out := outcomes.Get().(*store.Outcome)
	defer outcomes.Put(out)
	if err := g.limiter.asked.Take(ctx, c.requests, detail, out); err != nil {
		g.shadowFailed(ctx, &g.limiter.health, err)
		return false
	}
	if !out.Cached {
		g.limiter.health.decided(g.limiter.log)
	}
	if detail {
		g.tellShadow(d, c, out)
	}
	if out.Allowed && d.Allowed {
		e := permit.withEnding(ctx, g)
		e.shadow, e.shadows = Permit{store: g.limiter.asked, receipt: out.Receipt}, c.limits
	}
	out.Receipt = store.Receipt{}
	return out.Allowed
}

// tellShadow writes into d what the rates of c have said.
func (g *Guard) tellShadow(d *Decision, c *call, out *store.Outcome) {
	said := Decision{Policy: d.Policy}
	if err := g.answer(&said, c, g.limiter.asked, *out, new(Permit)); err != nil {
		g.limiter.health.refused(g.limiter.log, err)
		return
	}
	said.sources(out)
	for i := range said.Limits {
		said.Limits[i].Mode = rules.Shadow
	}
	d.merge(said.Limits)
}

// withEnding returns the ending of the call that p is for.
func (p *Permit) withEnding(ctx context.Context, g *Guard) *ending {
	if p.ending == nil {
		p.ending = &ending{guard: g, ctx: ctx}
	}
	return p.ending
}

// shadowFailed takes note that a shadow could not be asked.
func (g *Guard) shadowFailed(ctx context.Context, of *health, err error) {
	switch {
	case store.Ended(ctx) != nil || errors.Is(err, lock.ErrLost):
	case misconfigured(err):
		of.refused(g.limiter.log, err)
	default:
		of.failed(g.limiter.log, err)
	}
}

// holdShadow takes what c is to hold and can have at once, for as long as the call runs. Nothing that becomes of it ends the call's context.
func (g *Guard) holdShadow(ctx context.Context, c *call, d *Decision, permit *Permit) (locks shadowLocks) {
	c.sortHolds()
	within := shadowOf(ctx)
	for _, w := range c.holds {
		said := LimitDecision{Index: w.index, Key: w.name, Cost: w.cost, Mode: rules.Shadow}
		inner, got, err := g.limits[w.index].holds.shared.try(within, w.name, w.cost)
		if err != nil && !errors.Is(err, lock.ErrBusy) {
			g.shadowFailed(ctx, &g.limiter.lockHealth, err)
			return locks
		}
		g.limiter.lockHealth.decided(g.limiter.log)
		said.Allowed = err == nil
		d.merge([]LimitDecision{said})
		if err != nil {
			return locks
		}
		got.index = w.index
		e := permit.withEnding(ctx, g)
		e.held = append(e.held, got)
		if got.lock != nil {
			within, locks = inner, shadowLocks{inner}
		}
	}
	return locks
}
