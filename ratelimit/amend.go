package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

// Reset forgets what rates of the method have counted of id, and their bans, as if it had never called: all rates that count by such an id, or those of
// these names. To let a customer through at once, reset the one limit that denies; it then has no more than its count again. A concurrency and a lock are not reset.
//
// Other processes know of it at their next call, but for what they remember of denials, a second at most, and for what they have counted themselves while the
// store could not decide. An error is an [ErrUnavailable], an [ErrMisconfigured] or the context's, and the reset may be repeated.
func (g *Guard) Reset(ctx context.Context, id ID, limits ...string) error {
	requests, err := g.named(id, limits, func(*rules.Limit) bool { return true })
	if err != nil {
		return err
	}
	return g.amend(ctx, func(s store.Store) error { return s.Reset(ctx, requests) })
}

// Ban denies all calls of id for d from now on, by those rates of the method, or of these names, that have a Ban; 0 lifts whatever ban there is. What holds for
// [Guard.Reset] holds for it.
func (g *Guard) Ban(ctx context.Context, id ID, d time.Duration, limits ...string) error {
	requests, err := g.named(id, limits, func(l *rules.Limit) bool { return l.Ban > 0 })
	if err != nil {
		return err
	}
	return g.amend(ctx, func(s store.Store) error { return s.Ban(ctx, requests, d) })
}

// amend does what do does with the limiter's stores.
func (g *Guard) amend(ctx context.Context, do func(store.Store) error) error {
	if err := store.Ended(ctx); err != nil {
		return g.ended(err)
	}
	err := errors.Join(do(g.limiter.local), do(g.limiter.remembering))
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

// named are requests of the rates that count by id and that suit, all of them or those of these names, one for each key.
func (g *Guard) named(id ID, names []string, suits func(*rules.Limit) bool) ([]store.Request, error) {
	text, err := id.text(g.limiter.ipv6)
	if err != nil {
		return nil, g.fail(-1, ErrNoIdentity, err)
	}
	var requests []store.Request
	var found []string
	for i := range g.limits {
		l := &g.limits[i]
		if l.holds != nil || l.Whose() != id.Kind || !suits(l.Limit) {
			continue
		}
		name := g.policy.Name(i)
		if len(names) > 0 && !slices.Contains(names, name) {
			continue
		}
		found = append(found, name)
		key := l.key(text)
		if !slices.ContainsFunc(requests, func(req store.Request) bool { return req.Key == key }) {
			requests = append(requests, store.NewRequest(l.Limit, key, 0))
		}
	}
	for _, name := range names {
		if !slices.Contains(found, name) {
			return nil, g.fail(-1, ErrMisconfigured, fmt.Errorf("found the limit name %q, want one of a rate by %v that can do this", name, id.Kind))
		}
	}
	if len(requests) == 0 {
		return nil, g.fail(-1, ErrMisconfigured, fmt.Errorf("found no rate by %v that can do this, want one", id.Kind))
	}
	return requests, nil
}

// text is what keys are made of.
func (id ID) text(ipv6 ipv6Prefix) (string, error) {
	text := id.Text
	switch id.Kind {
	case rules.Global:
		if text != "" {
			return "", errors.New("found an id of kind global with a text, want none")
		}
		return "", nil
	case rules.IP:
		text = ipv6.parse(text)
	case rules.User, rules.Key:
	default:
		return "", fmt.Errorf("found an id of kind %v, want user, ip, key or global", id.Kind)
	}
	if text == "" {
		return "", fmt.Errorf("found no %v in the id, want one", id.Kind)
	}
	return text, nil
}
