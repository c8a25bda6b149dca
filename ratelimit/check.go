package ratelimit

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/rlgen/rlgen/ratelimit/lock"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// Check asks the store, and that of the locks where a limit needs it, whether they can decide the limits that are prepared, before a call depends on it, and logs what it
// finds and how to mend it. Call it once at the start; ratelimitfx does.
//
// It returns an error, an [ErrMisconfigured], for what would make calls fail until somebody mends it, and the context's
// own where ctx is done. A store that cannot be reached is logged and no error: calls are decided as the limits' onfail says, and
// by the store once it is there. A store that is no [store.Checker], or no [lock.Checker], is not asked.
//
// Where the limiter counts the instances ([WithInstances]), this one is counted from then on.
func (l *Limiter) Check(ctx context.Context) error {
	if err := l.checkRates(ctx); err != nil {
		return err
	}
	return l.checkHolds(ctx)
}

func (l *Limiter) checkRates(ctx context.Context) error {
	c, ok := l.store.(store.Checker)
	if !ok {
		return nil
	}
	findings, failed := c.Check(ctx, l.probes())
	err := l.checked(ctx, "rate limit store", findings, failed)
	if failed == nil && err == nil {
		l.attend(ctx)
	}
	return err
}

func (l *Limiter) checkHolds(ctx context.Context) error {
	claims := l.claims()
	c, ok := l.locks.(lock.Checker)
	if !ok || len(claims) == 0 {
		return nil
	}
	findings, err := c.Check(ctx, claims)
	return l.checked(ctx, "lock store", findings, err)
}

// checked logs what the check of a store has found, and returns what Check does of its error.
func (l *Limiter) checked(ctx context.Context, what string, findings []store.Finding, err error) error {
	for _, f := range findings {
		l.log.Log(ctx, f.Level, what+": "+f.Text)
	}
	if ended := store.Ended(ctx); ended != nil {
		return fmt.Errorf("ratelimit: check of the %s: %w", what, ended)
	}
	if misconfigured(err) {
		return fmt.Errorf("ratelimit: %w: %w", ErrMisconfigured, err)
	}
	if err != nil {
		l.log.Warn(what+" cannot be checked; until it decides, limits fall back to what their onfail says", "error", err)
	}
	return nil
}

// claims are one for each prepared limit that holds something, as probes are for the others.
func (l *Limiter) claims() []lock.Claim {
	l.mu.Lock()
	defer l.mu.Unlock()
	var claims []lock.Claim
	for key, limit := range l.keys {
		if limit.Kind.Holds() {
			claims = append(claims, lock.Claim{Name: key, Limit: limit.Count, Cost: 1})
		}
	}
	slices.SortFunc(claims, func(a, b lock.Claim) int { return strings.Compare(a.Name, b.Name) })
	return claims
}

// probes are a request for each prepared limit: under the key of its calls, where all have one, and else under one that no
// call has.
func (l *Limiter) probes() []store.Request {
	l.mu.Lock()
	defer l.mu.Unlock()
	probes := make([]store.Request, 0, len(l.keys))
	for key, limit := range l.keys {
		switch limit.Kind {
		case rules.IP, rules.User, rules.Global, rules.Key:
			probes = append(probes, store.NewRequest(limit, key, 0))
		}
	}
	slices.SortFunc(probes, func(a, b store.Request) int { return strings.Compare(a.Key, b.Key) })
	return probes
}
