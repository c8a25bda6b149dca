package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rlgen/rlgen/ratelimit/lock"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// Standing is how one limit stands for an id.
type Standing struct {
	// Index is the limit's place in the policy's Limits, and Name its name.
	Index int
	Name  string
	// Limit is what holds now: with overrides, and with the rules that [WithRules] has for the caller. It is not to be changed.
	Limit *rules.Limit
	// Off says that an override lets every call pass. Shadow says that the limit denies nothing.
	Off, Shadow bool
	// Key is the key that the limit counts under. It holds the id.
	Key string
	// Banned is for how much longer the id is banned; zero if it is not.
	Banned time.Duration
	// Rules has the rules of a rate, in their order.
	Rules []RuleStanding
	// Held is who holds a lock or a place in flight, and nil for a rate.
	Held *lock.Standing
}

// RuleStanding is how one rule stands.
type RuleStanding struct {
	Rule rules.Rule
	// Capacity is the largest cost that the rule ever allows, Used how much of that is missing now, and Remaining what is left. Of a queue, Used is what waits in it.
	Capacity, Used, Remaining int64
	// RetryAfter is how long until a call of cost 1 passes if nobody else asks, zero if it does now. A ban lasts longer where Banned says so.
	RetryAfter time.Duration
	// ResetAfter is how long until all of the capacity is free again if nobody else asks.
	ResetAfter time.Duration
}

// Find returns a guard of the method of this name among those that are prepared: "orders.Orders.Create", or "Create" where only one is called so. It is for tools
// and pages that look at limits by name.
func (l *Limiter) Find(method string) (*Guard, error) {
	l.mu.Lock()
	p, err := rules.FindMethod(l.policies, method)
	l.mu.Unlock()
	if err != nil {
		return nil, fmt.Errorf("ratelimit: %w", err)
	}
	return l.Prepare(p)
}

// Policy is the policy that the guard was prepared of, as it is written. It is not to be changed.
func (g *Guard) Policy() *rules.Policy { return g.policy }

// Peek says how the limits of the method that count by id, or those of these names, stand: concurrency and locks, too. It charges nothing, counts no denial, and asks the
// store whatever is remembered. Where ctx has a plan, limits of other plans are left out; without one, each is told of by its own numbers.
//
// Limits are asked one after the other where they are not in one place, so that they need not be of one instant. An error is an [ErrUnavailable], an [ErrMisconfigured]
// or the context's.
func (g *Guard) Peek(ctx context.Context, id ID, limits ...string) ([]Standing, error) {
	g = g.now()
	all, err := g.meant(ctx, id, limits, func(*limit) bool { return true })
	if err != nil {
		return nil, err
	}
	standings := make([]Standing, len(all))
	for i := range all {
		m := &all[i]
		s := &standings[i]
		*s = Standing{Index: m.index, Name: m.name, Limit: m.of, Off: m.off, Shadow: m.shadow, Key: m.key}
		if m.holds != nil {
			err = g.peekHeld(ctx, m, s)
		} else {
			err = g.peekRate(ctx, m, s)
		}
		if err := g.amended(ctx, err); err != nil {
			return nil, err
		}
	}
	return standings, nil
}

// peekRate asks the store for a call of cost 1, and on its own for the ban, which hides what remains.
func (g *Guard) peekRate(ctx context.Context, m *meant, s *Standing) error {
	req := store.NewRequest(m.of, m.key, 1)
	if req.Ban > 0 {
		var out store.Outcome
		if err := g.limiter.store.Peek(ctx, []store.Request{req}, &out); err != nil {
			return err
		}
		s.Banned = out.Rules[0].Banned
		req.Ban, req.After = 0, 0
	}
	var out store.Outcome
	if err := g.limiter.store.Peek(ctx, []store.Request{req}, &out); err != nil {
		return err
	}
	for i, r := range out.Rules {
		rule := req.Rules[i]
		standing := RuleStanding{
			Rule: rule, Capacity: req.Capacity(rule), Remaining: r.Remaining, RetryAfter: r.RetryAfter, ResetAfter: r.ResetAfter,
		}
		standing.Used = max(0, standing.Capacity-r.Remaining)
		if req.Queue {
			standing.Used = int64((float64(r.ResetAfter)*float64(rule.Count) + float64(rule.Window) - 1) / float64(rule.Window))
		}
		s.Rules = append(s.Rules, standing)
	}
	return nil
}

var errNoPeek = errors.New("the lock store cannot say who holds what, want a lock.Peeker, such as that of redislock.New")

func (g *Guard) peekHeld(ctx context.Context, m *meant, s *Standing) error {
	locks, ok := g.limiter.locks.(lock.Peeker)
	if !ok {
		return &store.Error{Class: store.Misconfigured, Err: errNoPeek}
	}
	held, err := locks.Peek(ctx, lock.Claim{Name: m.key, Limit: m.of.Count})
	s.Held = &held
	return err
}

// Keys are the keys that the stores keep for id, by the names of the limits that are meant as [Guard.Peek] means them. It asks nobody. Limits that share a key have it
// each. A store that is in this process has no keys but those that limits count under.
func (g *Guard) Keys(ctx context.Context, id ID, limits ...string) ([]LimitKeys, error) {
	g = g.now()
	all, err := g.meant(ctx, id, limits, func(*limit) bool { return true })
	if err != nil {
		return nil, err
	}
	keys := make([]LimitKeys, len(all))
	for i, m := range all {
		keys[i] = LimitKeys{Name: m.name, Limit: m.of, Keys: g.limiter.keysOf(&m)}
	}
	return keys, nil
}

// LimitKeys are the keys of one limit for an id.
type LimitKeys struct {
	Name  string
	Limit *rules.Limit
	Keys  []string
}

func (l *Limiter) keysOf(m *meant) []string {
	if m.holds != nil {
		if locks, ok := l.locks.(lock.Peeker); ok {
			return locks.Keys(lock.Claim{Name: m.key, Limit: m.of.Count})
		}
		return nil
	}
	if keyed, ok := l.store.(store.Keyed); ok {
		req := store.NewRequest(m.of, m.key, 0)
		return keyed.Keys(&req)
	}
	return []string{m.key}
}
