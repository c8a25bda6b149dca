package ratelimit_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
	"github.com/rlgen/rlgen/rules"
)

// TestHoldsInACluster has rates, a concurrency and a lock, whose keys are in several slots, on one method: each of them holds.
func TestHoldsInACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.NewCluster(t)
	const calls = 20
	l := storesOn(t, cluster.Client(t), 10*time.Second).limiter(t)
	if err := l.Check(context.Background()); err != nil {
		t.Fatal(err)
	}
	g := l.Guard(create(
		rules.Limit{Kind: rules.Lock, Wait: time.Minute},
		rules.Limit{Kind: rules.Concurrency, Count: calls, Per: rules.PerUser},
		rules.Limit{Kind: rules.User, Rules: per(calls, time.Hour)},
	))
	caller := ratelimit.WithUser(context.Background(), redistest.Prefix(t)) // the cluster is other tests', too
	var inside, made atomic.Int64
	var wg sync.WaitGroup
	for range calls {
		wg.Go(func() {
			err := run(g, caller, func(context.Context) error {
				if n := inside.Add(1); n > 1 {
					t.Errorf("%d calls under one lock, want 1", n)
				}
				made.Add(1)
				inside.Add(-1)
				return nil
			})
			if err != nil {
				t.Errorf("a call = %v, want nil", err)
			}
		})
	}
	wg.Wait()
	if made.Load() != calls {
		t.Errorf("%d calls made, want %d", made.Load(), calls)
	}
	if err := run(g, caller, nothing); err == nil {
		t.Error("a call more than the rate has room for is made")
	}
}
