package ratelimit_test

import (
	"context"
	"testing"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/lock"
	"github.com/rlgen/rlgen/rules"
)

// TestTokenOfEachLock holds that a method with two locks has the token of each by its limit's name, in whichever order they were taken, and that a method
// within has its own alone.
func TestTokenOfEachLock(t *testing.T) {
	locks := lock.NewMemory()
	l := stores{inMemory().rates, locks}.limiter(t)
	g := l.Guard(create(rules.Limit{Kind: rules.Lock, By: "a", Name: "from"}, rules.Limit{Kind: rules.Lock, By: "b", Name: "to"}))
	open := l.Guard(&rules.Policy{Package: "example.com/shop", Type: "shop.Orders", Method: "Cancel", Limits: []rules.Limit{{Kind: rules.Lock, Name: "own", Missing: rules.MissingAllow, By: "c"}}})
	if got := ratelimit.Token(t.Context(), "from"); got != 0 {
		t.Errorf("Token without a lock = %d, want 0", got)
	}
	for _, ids := range [][2]string{{"x", "y"}, {"y", "x"}} {
		err := run(g, t.Context(), func(ctx context.Context) error {
			from, to := ratelimit.Token(ctx, "from"), ratelimit.Token(ctx, "to")
			if from == 0 || to == 0 || from == to || max(from, to) != lock.Token(ctx) {
				t.Errorf("tokens = %d and %d, the last %d, want two, of which the last is one", from, to, lock.Token(ctx))
			}
			for i, name := range []string{"from", "to"} {
				c := lock.Claim{Name: "rl:key=" + ids[i] + ":shop.Orders-Create@lock" + map[string]string{"to": "@2"}[name], ID: "peek"}
				if s, err := locks.Peek(ctx, c); err != nil || s.Token != ratelimit.Token(ctx, name) {
					t.Errorf("the store's token of %s = %d, %v, want %d", c.Name, s.Token, err, ratelimit.Token(ctx, name))
				}
			}
			if other := ratelimit.Token(ctx, "Create"); other != 0 {
				t.Errorf("Token of no limit = %d, want 0", other)
			}
			return run(open, ctx, func(inner context.Context) error {
				if a, b := ratelimit.Token(inner, "from"), ratelimit.Token(inner, "own"); a != 0 || b != 0 {
					t.Errorf("within a method whose lock does not apply, tokens = %d and %d, want none", a, b)
				}
				return nil
			}, by(""))
		}, by(ids[0]), by(ids[1]))
		if err != nil {
			t.Error(err)
		}
	}
}
