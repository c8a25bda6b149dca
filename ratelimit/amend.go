package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// ID names whose counts are meant: those of a user, of an address, of a text that a directive's expression has made, or the one
// that all callers share. The zero ID is not valid.
type ID struct {
	// Kind is rules.User, rules.IP, rules.Key or rules.Global.
	Kind rules.Kind
	// Text is the user, the address or the text, as a call carries it; empty for rules.Global.
	Text string
}

// ParseID reads an id as keys have it in their middle, but unescaped: "user=42", "ip=192.0.2.1", "key=text" or "global".
func ParseID(text string) (ID, error) {
	kind, of, given := strings.Cut(text, "=")
	for _, k := range []rules.Kind{rules.User, rules.IP, rules.Key, rules.Global} {
		if k.String() == kind && given == (k != rules.Global) {
			return ID{k, of}, nil
		}
	}
	return ID{}, errors.New("ratelimit: an id of another form, want user=42, ip=192.0.2.1, key=text or global")
}

// Reset forgets what rates of the method have counted of id, and their bans, as if it had never called: all rates that count by such an id, or those of
// these names. To let a customer through at once, reset the one limit that denies; it then has no more than its count again. A concurrency and a lock are not reset.
//
// Where ctx has a plan ([WithPlan]), limits of other plans are left out. They share their counts with those of this one where they differ in numbers alone.
//
// Other processes know of it at their next call, but for what they remember of denials, a second at most, and for what they have counted themselves while the
// store could not decide. An error is an [ErrUnavailable], an [ErrMisconfigured] or the context's, and the reset may be repeated.
func (g *Guard) Reset(ctx context.Context, id ID, limits ...string) error {
	g = g.now()
	requests, err := g.named(ctx, id, limits, isRate)
	if err != nil {
		return err
	}
	return g.amend(ctx, requests, func(s store.Store) error { return s.Reset(ctx, requests) })
}

// Ban denies all calls of id for d from now on, by those rates of the method, or of these names, that have a Ban; 0 lifts whatever ban there is. What holds for
// [Guard.Reset] holds for it.
func (g *Guard) Ban(ctx context.Context, id ID, d time.Duration, limits ...string) error {
	g = g.now()
	requests, err := g.named(ctx, id, limits, func(l *limit) bool { return isRate(l) && l.Ban > 0 })
	if err != nil {
		return err
	}
	return g.amend(ctx, requests, func(s store.Store) error { return s.Ban(ctx, requests, d) })
}

// Grant gives id n permits back, of all rates of the method that count by it or of those of these names, as if those that were charged last had never been. Each
// rule then has n more remaining, and at most all that it ever has: a grant is no credit on top of the count. What the algorithm has counted says what that is:
//
//   - a log (the default) forgets the last n permits, which would have stayed for the longest;
//   - a sliding window forgets those of its newest sub-windows;
//   - of a fixed window, those of the window that runs;
//   - a bucket, and gcra, is filled by n.
//
// A queue (a leaky bucket with a wait) is refused, since its calls have been told when to go on, and so is an n beyond the largest count, for which there is [Guard.Reset].
// Without names, queues are left out. Bans stay.
//
// What holds for [Guard.Reset] holds for it, but that it is not to be repeated blindly: an [ErrUnavailable] says in its text whether the store may have done it.
func (g *Guard) Grant(ctx context.Context, id ID, n int64, limits ...string) error {
	g = g.now()
	requests, err := g.named(ctx, id, limits, func(l *limit) bool { return isRate(l) && !l.Queues() })
	if err != nil {
		return err
	}
	for i := range requests {
		requests[i].Cost = n
	}
	if err := store.ValidateGrant(requests); err != nil {
		return g.fail(-1, ErrMisconfigured, err)
	}
	return g.amend(ctx, requests, func(s store.Store) error { return s.Grant(ctx, requests) })
}

// amend does what do does with the limiter's stores, to requests, of which the limiter's store knows all by then.
func (g *Guard) amend(ctx context.Context, requests []store.Request, do func(store.Store) error) error {
	if err := store.Ended(ctx); err != nil {
		return g.ended(err)
	}
	return g.amended(ctx, errors.Join(do(g.limiter.local), do(g.limiter.asked)))
}

// amended is the error of what stores have done on the side of calls.
func (g *Guard) amended(ctx context.Context, err error) error {
	switch ended := store.Ended(ctx); {
	case err == nil:
		return nil
	case ended != nil:
		return g.ended(ended)
	case misconfigured(err):
		return g.fail(-1, ErrMisconfigured, err)
	}
	return g.fail(-1, ErrUnavailable, err)
}

// meant is a limit that counts an id, and what calls of the id count under.
type meant struct {
	index int
	*limit
	name, key string
	of        *rules.Limit // by which it counts the caller of the context
}

func isRate(l *limit) bool { return l.holds == nil }

// meant are the limits that count by id and that suit, all of them or those of these names, in the policy's order.
func (g *Guard) meant(ctx context.Context, id ID, names []string, suits func(*limit) bool) ([]meant, error) {
	caller, err := id.caller()
	if err != nil {
		return nil, g.fail(-1, ErrNoIdentity, err)
	}
	plan, planned := PlanFrom(ctx)
	var all []meant
	for i := range g.limits {
		l := &g.limits[i]
		name := g.policy.Name(i)
		switch {
		case l.Whose() != id.Kind || !suits(l):
			continue
		case planned && l.Plan != "" && l.Plan != plan:
			continue
		case len(names) > 0 && !slices.Contains(names, name):
			continue
		}
		m := meant{index: i, limit: l, name: name, of: l.Limit, key: l.name(&caller)}
		if l.computed != nil {
			contract, err := g.compute(ctx, i)
			if err != nil {
				return nil, err
			}
			m.of = contract.Limit
		}
		all = append(all, m)
	}
	for _, name := range names {
		if !slices.ContainsFunc(all, func(m meant) bool { return m.name == name }) {
			return nil, g.fail(-1, ErrMisconfigured, fmt.Errorf("found the limit name %q, want one of a limit by %v that can do this%s", name, id.Kind, g.others(name)))
		}
	}
	if len(all) == 0 {
		return nil, g.fail(-1, ErrMisconfigured, fmt.Errorf("found no limit by %v that can do this, want one", id.Kind))
	}
	return all, nil
}

// others says which limit was probably meant by a name that none has.
func (g *Guard) others(name string) string {
	var names []string
	for i := range g.limits {
		names = append(names, g.policy.Name(i))
	}
	if near := rules.Suggest(name, names); near != "" && !slices.Contains(names, name) {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	return ""
}

// named are requests of the rates that are meant, one for each key.
func (g *Guard) named(ctx context.Context, id ID, names []string, suits func(*limit) bool) ([]store.Request, error) {
	all, err := g.meant(ctx, id, names, suits)
	if err != nil {
		return nil, err
	}
	var requests []store.Request
	for _, m := range all {
		if !slices.ContainsFunc(requests, func(req store.Request) bool { return req.Key == m.key }) {
			requests = append(requests, store.NewRequest(m.of, m.key, 0))
		}
	}
	return requests, nil
}

// caller is what keys are made of.
func (id ID) caller() (callerID, error) {
	caller := idOfText(id.Text)
	switch id.Kind {
	case rules.Global:
		if id.Text != "" {
			return callerID{}, errors.New("found an id of kind global with a text, want none")
		}
		return callerID{}, nil
	case rules.IP:
		caller = idOfAddress(rules.ParseAddress(id.Text))
	case rules.User, rules.Key:
	default:
		return callerID{}, fmt.Errorf("found an id of kind %v, want user, ip, key or global", id.Kind)
	}
	if caller.form == noID {
		return callerID{}, fmt.Errorf("found no %v in the id, want one", id.Kind)
	}
	return caller, nil
}
