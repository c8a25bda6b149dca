package ratelimit

import (
	"context"
	"fmt"
	"slices"

	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// Check asks the store whether it can decide the limits that are prepared, before a call depends on it, and logs what it
// finds and how to mend it. Call it once at the start; ratelimitfx does.
//
// It returns an error, an [ErrMisconfigured], for what would make calls fail until somebody mends it, and the context's
// own where ctx is done. A store that cannot be reached is logged and no error: calls are decided as the limits' onfail says, and
// by the store once it is there. A store that is no [store.Checker] is not asked.
//
// Where the limiter counts the instances ([WithInstances]), this one is counted from then on.
func (l *Limiter) Check(ctx context.Context) error {
	c, ok := l.store.(store.Checker)
	if !ok {
		return nil
	}
	findings, err := c.Check(ctx, l.probes())
	for _, f := range findings {
		l.log.Log(ctx, f.Level, "rate limit store: "+f.Text)
	}
	if ended := store.Ended(ctx); ended != nil {
		return fmt.Errorf("ratelimit: check of the store: %w", ended)
	}
	if misconfigured(err) {
		return fmt.Errorf("ratelimit: %w: %w", ErrMisconfigured, err)
	}
	if err != nil {
		l.log.Warn("rate limit store cannot be checked; until it decides, limits fall back to what their onfail says", "error", err)
		return nil
	}
	l.attend(ctx)
	return nil
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
	slices.SortFunc(probes, func(a, b store.Request) int {
		if a.Key < b.Key {
			return -1
		}
		return 1
	})
	return probes
}
