package ratelimitwire_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rlgen/rlgen/ratelimit/memstore"
	"github.com/rlgen/rlgen/ratelimit/ratelimitwire/testdata/shop"
	"github.com/rlgen/rlgen/ratelimit/store"
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

// What was taken ahead and is not used is the store's again once the clean-up that wire returns has run.
func TestCleanupGivesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		behind := &away{Store: memstore.New()}
		server, cleanup, err := shop.OverStore(behind)
		if err != nil {
			t.Fatal(err)
		}
		const calls = 500
		for range calls {
			if err := server.Orders.Search(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(100 * time.Microsecond)
		}
		synctest.Wait()
		if n := behind.used(t); n <= calls {
			t.Fatalf("%d permits are taken for %d calls, want some ahead", n, calls)
		}
		cleanup()
		if n := behind.used(t); n != calls {
			t.Errorf("%d permits are taken once the clean-up has run, want those of the %d calls", n, calls)
		}
	})
}
