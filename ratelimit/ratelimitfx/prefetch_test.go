package ratelimitfx_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/fx"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/memstore"
	"github.com/rlgen/rlgen/ratelimit/ratelimitfx"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// away is a store that is asked over a network, and knows what it was asked last.
type away struct {
	store.Store
	last atomic.Pointer[store.Request]
}

func (*away) Remote() {}

func (a *away) Take(ctx context.Context, requests []store.Request, detail bool, out *store.Outcome) error {
	last := requests[0]
	a.last.Store(&last)
	return a.Store.Take(ctx, requests, detail, out)
}

// used is how much of 5000 is charged.
func (a *away) used(t *testing.T) int64 {
	req := *a.last.Load()
	req.Cost, req.Ahead = 0, 0
	out, err := store.Take(t.Context(), a.Store, []store.Request{req}, true)
	if err != nil {
		t.Fatal(err)
	}
	return 5000 - out.Rules[0].Remaining
}

// What was taken ahead and is not used is the store's again once the app has stopped.
func TestStopGivesBack(t *testing.T) {
	search := &rules.Policy{Package: "example.com/shop", Type: "shop.Orders", Method: "Search", Limits: []rules.Limit{
		{Kind: rules.Global, Rules: []rules.Rule{{Count: 5000, Window: time.Hour}}, Prefetch: 100 * time.Millisecond},
	}}
	synctest.Test(t, func(t *testing.T) {
		behind := &away{Store: memstore.New()}
		var limiter *ratelimit.Limiter
		app := fx.New(fx.NopLogger, ratelimitfx.Module, fx.Supply(quiet), fx.Provide(func() store.Store { return behind }), fx.Populate(&limiter))
		if err := app.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		const calls = 500
		guard := limiter.Guard(search)
		for range calls {
			if _, err := guard.Take(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(100 * time.Microsecond)
		}
		synctest.Wait()
		if n := behind.used(t); n <= calls {
			t.Fatalf("%d permits are taken for %d calls, want some ahead", n, calls)
		}
		if err := app.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := behind.used(t); n != calls {
			t.Errorf("%d permits are taken once the app has stopped, want those of the %d calls", n, calls)
		}
	})
}
