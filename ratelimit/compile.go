package ratelimit

import (
	"context"
	"fmt"
	"slices"

	"github.com/rlgen/rlgen/rules"
)

// compile makes the guard of a policy as it is now, of which some limits may be off. Names and keys are those of the policy as it was written.
func (l *Limiter) compile(written, now *rules.Policy, off []bool) (*Guard, error) {
	g := &Guard{limiter: l, policy: now, off: off, limits: make([]limit, len(now.Limits))}
	for i := range now.Limits {
		from := &now.Limits[i]
		limit, err := l.prepare(written, i, from)
		if err != nil {
			return nil, fmt.Errorf("ratelimit: %s %s: limit %q: %w", now.Type, now.Method, now.Name(i), err)
		}
		limit.off, limit.called = off != nil && off[i], now.Name(i)
		g.limits[i] = limit
		g.recovers = g.recovers || from.Charge != rules.ChargeAlways
		if limit.holds == nil && !limit.shadow {
			g.rates++
		}
		g.ends = g.ends || limit.holds != nil || g.recovers || limit.shadow
		g.holding = g.holding || limit.holds != nil
		g.fenced = g.fenced || from.Kind == rules.Lock
		g.waits = g.waits || from.Wait > 0 && limit.holds == nil && !limit.shadow
		g.queues = g.queues || from.Queues() && !limit.shadow
		g.inputs = g.inputs || from.By != "" || from.Cost != "" || from.When != ""
	}
	g.planned = g.newPlanned(written)
	if !g.inputs && !slices.ContainsFunc(g.limits, limit.varies) {
		c, err := g.call(context.Background(), nil)
		if err != nil {
			return nil, err
		}
		c.requests = slices.Clip(c.requests) // a store may append to its own
		g.same = &c
	}
	g.reuses = !g.ends && !g.waits // from here on, since nobody is to have the memory of what all calls ask
	return g, nil
}

// varies says whether what a call asks of l depends on more than its inputs: on who calls, or what their rules are; or is changed later.
func (l limit) varies() bool {
	return l.Whose() != rules.Global || l.Plan != "" || l.computed != nil || l.holds != nil || l.shadow
}

// prepare does for one limit what need not be done at each call.
func (l *Limiter) prepare(written *rules.Policy, i int, from *rules.Limit) (limit, error) {
	if from.Kind.Holds() {
		return l.prepareHold(written, i, from)
	}
	prefix, _ := written.Key(i)
	k := newKeyer(written, i, l.hasher, l.ipv6)
	k.count(l.bucket(written, i))
	prepared := limit{Limit: from, keyer: k, most: smallest(from), shadow: l.shadows(from)}
	if !prepared.shadow {
		prepared.alone = l.newAlone(from, prefix)
	}
	prepared.trial = prepared.shadow && written.Limits[i].Mode != rules.Shadow
	if l.computes != nil {
		prepared.computed = new(contracts)
	}
	return prepared, nil
}

// smallest is the largest cost that all rules of l ever allow.
func smallest(l *rules.Limit) int64 {
	n := l.Capacity(l.Rules[0])
	for _, r := range l.Rules {
		n = min(n, l.Capacity(r))
	}
	return n
}
