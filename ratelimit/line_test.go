package ratelimit_test

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/memstore"
	"github.com/rlgen/rlgen/rules"
)

// A call that comes while others wait stands behind them, even where it would have room; one that cannot wait as long as they
// do is decided at once.
func TestNewcomersStandBehindWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limiter(t, memstore.New())
		cost := func(method, wait string) *ratelimit.Guard {
			d, err := time.ParseDuration(wait)
			if err != nil {
				t.Fatal(err)
			}
			return l.Guard(&rules.Policy{Package: "example.com/shop", Type: "shop.Orders", Method: method, Limits: []rules.Limit{
				{Kind: rules.User, Algorithm: rules.TokenBucket, Rules: per(4, time.Second), Bucket: "shared", Cost: "n", Wait: d}}})
		}
		patient, hasty := cost("Patient", "10s"), cost("Hasty", "100ms")
		a := arrivals{began: time.Now()}
		var wg sync.WaitGroup
		call := func(i int, guard *ratelimit.Guard, n int64) {
			var in ratelimit.Input
			in.Cost(n)
			wg.Go(func() {
				_, err := guard.Take(alice(), in)
				a.add(i, err)
			})
			synctest.Wait()
		}
		call(0, patient, 2)
		call(1, patient, 4) // passes at 500ms
		call(2, patient, 1) // behind it, though there is room for it
		call(3, hasty, 3)
		call(4, hasty, 1)
		wg.Wait()
		want := []arrival{
			{0, 0, ""}, {3, 0, "denied 250ms"}, {4, 0, ""}, {1, 750 * time.Millisecond, ""}, {2, time.Second, ""},
		}
		if diff := gocmp.Diff(want, a.all); diff != "" {
			t.Errorf("arrivals (-want +got):\n%s", diff)
		}
	})
}

// A call whose wait ends while it stands in line is asked for once more, and its retry-after is that of now.
func TestWaitEndsInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		guard := limiter(t, memstore.New()).Guard(create(rules.Limit{Kind: rules.User, Rules: per(1, time.Second), Wait: 2500 * time.Millisecond}))
		want := []arrival{
			{0, 0, ""}, {1, time.Second, ""}, {2, 2 * time.Second, ""},
			{3, 2 * time.Second, "denied 1s"}, // at its turn, it would have to wait until 3s
			{4, 2 * time.Second, "denied 1s"},
		}
		if diff := gocmp.Diff(want, callAll(guard, 5)); diff != "" {
			t.Errorf("arrivals (-want +got):\n%s", diff)
		}
	})
}

// A call goes on to the line of another key where that is what denies it, and nobody waits for it in the one that it left.
func TestWaitersMoveBetweenLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		guard := limiter(t, memstore.New()).Guard(create(
			rules.Limit{Kind: rules.User, Rules: per(1, time.Second), Wait: time.Minute},
			rules.Limit{Kind: rules.Global, Rules: per(3, 10*time.Second), Wait: time.Minute}))
		a := arrivals{began: time.Now()}
		var wg sync.WaitGroup
		for i, user := range []string{"alice", "alice", "bob", "bob", "carol", "dave"} {
			wg.Go(func() {
				_, err := guard.Take(ratelimit.WithUser(context.Background(), user))
				a.add(i, err)
			})
			synctest.Wait()
		}
		wg.Wait()
		var ats []time.Duration
		for _, arrived := range a.all {
			ats = append(ats, arrived.At)
		}
		want := []time.Duration{0, 0, 0, 10 * time.Second, 10 * time.Second, 10 * time.Second}
		if !slices.Equal(ats, want) {
			t.Errorf("calls pass at %v, want %v: %v", ats, want, a.all)
		}
	})
}

// TestWaitersUnderConcurrency lets callers of several keys and costs come and give up at any time: as many pass as there is room for,
// and nothing is left behind of those that gave up.
func TestWaitersUnderConcurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		guard := limiter(t, s).Guard(create(
			rules.Limit{Kind: rules.User, Rules: per(3, time.Second), Wait: 5 * time.Second},
			rules.Limit{Kind: rules.Global, Algorithm: rules.TokenBucket, Rules: per(10, time.Second), Wait: 3 * time.Second},
			rules.Limit{Kind: rules.IP, Algorithm: rules.LeakyBucket, Rules: per(20, time.Second), Wait: time.Second}))
		var mu sync.Mutex
		var passed []time.Duration
		began := time.Now()
		var wg sync.WaitGroup
		for i := range 400 {
			wg.Go(func() {
				time.Sleep(time.Duration(i*i%5000) * time.Millisecond)
				ctx, cancel := context.WithTimeout(ratelimit.WithUser(alice(), fmt.Sprint("user", i%7)), time.Duration(i%9+1)*time.Second/2)
				defer cancel()
				if _, err := guard.Take(ctx); err == nil {
					mu.Lock()
					passed = append(passed, time.Since(began))
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		if most := 10 + 10*int(slices.Max(passed)/time.Second+1); len(passed) < 50 || len(passed) > most {
			t.Errorf("%d calls pass, want 50 to %d", len(passed), most)
		}
	})
}

// A call that a queue delays stands in no line: those behind it are asked for while it sleeps.
func TestDelayedCallsLeaveTheirLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		guard := limiter(t, memstore.New()).Guard(create(
			rules.Limit{Kind: rules.User, Rules: per(2, time.Second), Wait: time.Minute},
			rules.Limit{Kind: rules.IP, Algorithm: rules.LeakyBucket, Rules: per(1, 10*time.Second), Wait: time.Minute}))
		a := arrivals{began: time.Now()}
		var wg sync.WaitGroup
		for i, ip := range []string{"203.0.113.7", "203.0.113.7", "203.0.113.7", "203.0.113.8"} {
			ctx := ratelimit.WithIP(alice(), netip.MustParseAddr(ip))
			wg.Go(func() {
				_, err := guard.Take(ctx)
				a.add(i, err)
			})
			synctest.Wait()
		}
		wg.Wait()
		want := []arrival{{0, 0, ""}, {3, time.Second, ""}, {1, 10 * time.Second, ""}, {2, 20 * time.Second, ""}}
		if diff := gocmp.Diff(want, a.all); diff != "" {
			t.Errorf("arrivals (-want +got):\n%s", diff)
		}
	})
}
