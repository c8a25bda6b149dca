package ratelimit_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/memstore"
	"github.com/rlgen/rlgen/rules"
)

// hot is a limit whose permits are taken ahead.
func hot(count int64, window time.Duration) rules.Limit {
	return rules.Limit{Kind: rules.Global, Rules: []rules.Rule{{Count: count, Window: window}}, Prefetch: 100 * time.Millisecond}
}

// ahead is a guard of limits over a store that is far away.
func ahead(t *testing.T, limits ...rules.Limit) (*ratelimit.Limiter, *ratelimit.Guard, *counted) {
	asked := &counted{Store: memstore.New()}
	l, err := ratelimit.New(remote{asked}, ratelimit.WithLogger(slog.New(slog.DiscardHandler)), ratelimit.WithInstances(1))
	if err != nil {
		t.Fatal(err)
	}
	return l, l.Guard(&rules.Policy{Package: "example.com/shop", Type: "shop.Orders", Method: "Create", Limits: limits}), asked
}

// A process that calls often asks the store seldom, and what is left of the count is there for others once it is closed.
func TestPrefetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, guard, asked := ahead(t, hot(5000, time.Minute))
		sources, passed := map[ratelimit.Source]int{}, int64(0)
		for range 2000 {
			d, _, err := guard.Decide(t.Context())
			if err != nil || !d.Allowed {
				t.Fatalf("Decide = %+v, %v, want it allowed", d, err)
			}
			sources[d.Limits[0].Source]++
			passed++
			if n := d.Limits[0].Rules[0].Remaining; n > 5000-passed || n < 5000-passed-5000*5/32 {
				t.Fatalf("%d remain after %d calls of 5000, want the rest, but for what may be in hand", n, passed)
			}
			time.Sleep(100 * time.Microsecond)
		}
		if sources[ratelimit.SourcePrefetch] < 1900 || asked.asks > 100 {
			t.Errorf("decided by %v, and the store was asked %d times, want nearly all ahead", sources, asked.asks)
		}
		if err := l.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		d, _, err := guard.Decide(t.Context())
		if err != nil || d.Limits[0].Source != ratelimit.SourceStore || d.Limits[0].Rules[0].Remaining != 2999 {
			t.Errorf("Decide after Close = %+v, %v, want it by the store, of which 2999 remain", d, err)
		}
	})
}

// All of the count passes, and not one call more.
func TestPrefetchIsExact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, guard, _ := ahead(t, hot(1000, time.Minute))
		defer l.Close(t.Context())
		passed := 0
		for range 3000 {
			_, err := guard.Take(t.Context())
			if err == nil {
				passed++
			} else if !errors.Is(err, ratelimit.ErrExceeded) {
				t.Fatal(err)
			}
			time.Sleep(100 * time.Microsecond)
		}
		if passed != 1000 {
			t.Errorf("%d calls passed, want 1000", passed)
		}
	})
}

// What a call is given back that was charged for another outcome is there for others, soon and late.
func TestPrefetchAndOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := hot(100, time.Hour)
		limit.Charge = rules.ChargeError
		l, guard, _ := ahead(t, limit)
		defer l.Close(context.Background())
		var late []ratelimit.Permit
		for i := range 1000 {
			permit, err := guard.Take(t.Context())
			if err != nil {
				t.Fatalf("call %d: %v", i, err)
			}
			if i%20 == 0 {
				late = append(late, permit)
			} else {
				permit.Done(nil)
			}
			time.Sleep(100 * time.Microsecond)
		}
		time.Sleep(time.Second)
		for _, permit := range late {
			permit.Done(nil)
		}
		d, _, err := guard.Decide(t.Context())
		if err != nil || d.Limits[0].Rules[0].Remaining != 99 {
			t.Errorf("Decide = %+v, %v, want 99 remaining", d, err)
		}
	})
}
