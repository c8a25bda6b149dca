package ratelimittest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/lock"
	"github.com/rlgen/rlgen/ratelimit/ratelimittest"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// holding is a policy of a lock and of one call in flight.
func holding(onFail rules.OnFail) *rules.Policy {
	return &rules.Policy{Package: "example.com/shop", Type: "shop.Cart", Method: "Pay", Limits: []rules.Limit{
		{Kind: rules.Concurrency, Count: 1, OnFail: onFail},
		{Kind: rules.Lock, OnFail: onFail},
	}}
}

// within is what a second call gets while a first one runs, and what the first one gets.
func within(g *ratelimit.Guard) (first, second error) {
	ctx, permit, err := g.Hold(context.Background())
	if err != nil {
		return err, nil
	}
	defer permit.Done(nil)
	if ctx.Err() != nil {
		return ctx.Err(), nil
	}
	_, other, err := g.Hold(context.Background())
	if err == nil {
		other.Done(nil)
	}
	return nil, err
}

func TestHolds(t *testing.T) {
	counting, _ := ratelimittest.New()
	for name, tt := range map[string]struct {
		limiter       *ratelimit.Limiter
		onFail        rules.OnFail
		first, second error
	}{
		"New":            {counting, rules.FailLocal, nil, ratelimit.ErrExceeded},
		"AllowAll":       {ratelimittest.AllowAll(), rules.FailLocal, nil, nil},
		"DenyAll":        {ratelimittest.DenyAll(time.Minute), rules.FailLocal, ratelimit.ErrExceeded, nil},
		"Failing local":  {ratelimittest.Failing(store.Unavailable), rules.FailLocal, nil, ratelimit.ErrExceeded},
		"Failing open":   {ratelimittest.Failing(store.Unavailable), rules.FailOpen, nil, nil},
		"Failing closed": {ratelimittest.Failing(store.Unavailable), rules.FailClosed, ratelimit.ErrUnavailable, nil},
		"Failing badly":  {ratelimittest.Failing(store.Misconfigured), rules.FailOpen, ratelimit.ErrMisconfigured, nil},
	} {
		t.Run(name, func(t *testing.T) {
			first, second := within(tt.limiter.Guard(holding(tt.onFail)))
			if !errors.Is(first, tt.first) || !errors.Is(second, tt.second) {
				t.Errorf("the calls got %v and %v, want %v and %v", first, second, tt.first, tt.second)
			}
		})
	}
}

func TestAllowAllTokensGrow(t *testing.T) {
	g := ratelimittest.AllowAll().Guard(holding(rules.FailLocal))
	last := int64(0)
	for range 3 {
		ctx, permit, err := g.Hold(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if token := lock.Token(ctx); token <= last {
			t.Errorf("token %d after %d, want a larger one", token, last)
		} else {
			last = token
		}
		permit.Done(nil)
	}
}
