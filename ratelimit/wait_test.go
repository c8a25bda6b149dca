package ratelimit_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/memstore"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

func TestQueueSpacesCallsOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec := &lockedRecorder{}
		guard := limiter(t, memstore.New(), ratelimit.WithObserver(rec)).Guard(create(
			rules.Limit{Kind: rules.User, Algorithm: rules.LeakyBucket, Wait: 800 * time.Millisecond, Rules: per(5, time.Second)}))
		want := []arrival{
			{0, 0, ""}, {5, 0, "denied 200ms"}, {6, 0, "denied 200ms"},
			{1, 200 * time.Millisecond, ""}, {2, 400 * time.Millisecond, ""}, {3, 600 * time.Millisecond, ""}, {4, 800 * time.Millisecond, ""},
		}
		if diff := gocmp.Diff(want, callAll(guard, 7)); diff != "" {
			t.Errorf("7 calls of 5,1s that wait 800ms (-want +got):\n%s", diff)
		}
		for i, d := range rec.decisions {
			if want := d.Limits[0].Rules[0].Delay; d.Waited != want {
				t.Errorf("decision %d: waited %v, want the delay, %v", i, d.Waited, want)
			}
		}
		if len(rec.decisions) != 7 {
			t.Errorf("the observer is told of %d decisions, want 7", len(rec.decisions))
		}
	})
}

// Calls that wait long enough all pass: in the order in which they came, at the first instants that the law of the
// algorithm allows, and with no more than two asks for each.
func TestWaitersPassAtTheRateOfTheLaw(t *testing.T) {
	const calls = 40
	for _, test := range []struct {
		limit rules.Limit
		at    func(i int) time.Duration
	}{
		{rules.Limit{Rules: per(4, time.Second)}, func(i int) time.Duration { return time.Duration(i/4) * time.Second }},
		{rules.Limit{Algorithm: rules.TokenBucket, Rules: per(4, time.Second)},
			func(i int) time.Duration { return time.Duration(max(0, i-3)) * 250 * time.Millisecond }},
		{rules.Limit{Algorithm: rules.GCRA, Burst: 1, Rules: per(4, time.Second)},
			func(i int) time.Duration { return time.Duration(i) * 250 * time.Millisecond }},
		{rules.Limit{Algorithm: rules.FixedWindow, Start: rules.StartFirst, Rules: per(4, time.Second)},
			func(i int) time.Duration { return time.Duration(i/4) * time.Second }},
		{rules.Limit{Algorithm: rules.LeakyBucket, Rules: per(4, time.Second)},
			func(i int) time.Duration { return time.Duration(i) * 250 * time.Millisecond }},
	} {
		l := test.limit
		l.Kind, l.Wait = rules.User, time.Hour
		t.Run(l.Algorithm.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if l.Algorithm == rules.LeakyBucket {
					l.Wait = calls * 250 * time.Millisecond
				}
				s := &counted{Store: memstore.New()}
				guard := limiter(t, s).Guard(create(l))
				var want []arrival
				for i := range calls {
					want = append(want, arrival{Call: i, At: test.at(i)})
				}
				if diff := gocmp.Diff(want, callAll(guard, calls)); diff != "" {
					t.Errorf("arrivals (-want +got):\n%s", diff)
				}
				if s.asks > 2*calls {
					t.Errorf("the store is asked %d times for %d calls, want at most twice each", s.asks, calls)
				}
			})
		})
	}
}

// What cannot pass within its wait is denied at once, and says exactly when it would.
func TestNobodyWaitsForNothing(t *testing.T) {
	second, minute := per(1, time.Second), per(1, time.Minute)
	for _, test := range []struct {
		name   string
		limits []rules.Limit
		within time.Duration // the context's deadline, 0 for none
		want   arrival
	}{
		{"long enough", []rules.Limit{{Kind: rules.User, Rules: second, Wait: time.Second}}, 0, arrival{0, time.Second, ""}},
		{"too short", []rules.Limit{{Kind: rules.User, Rules: second, Wait: time.Second - time.Microsecond}}, 0, arrival{0, 0, "denied 1s"}},
		{"without wait beside it, with room", []rules.Limit{
			{Kind: rules.User, Rules: second, Wait: time.Second}, {Kind: rules.IP, Rules: per(2, time.Minute)}}, 0, arrival{0, time.Second, ""}},
		{"without wait beside it, without room", []rules.Limit{
			{Kind: rules.User, Rules: second, Wait: time.Second}, {Kind: rules.IP, Rules: second}}, 0, arrival{0, 0, "denied 1s"}},
		{"two waits that suffice", []rules.Limit{
			{Kind: rules.User, Rules: second, Wait: time.Second}, {Kind: rules.IP, Rules: minute, Wait: time.Hour}}, 0, arrival{0, time.Minute, ""}},
		{"one of two waits too short", []rules.Limit{
			{Kind: rules.User, Rules: second, Wait: time.Second}, {Kind: rules.IP, Rules: minute, Wait: time.Second}}, 0, arrival{0, 0, "denied 1m0s"}},
		{"deadline before", []rules.Limit{{Kind: rules.User, Rules: second, Wait: time.Minute}}, time.Second, arrival{0, 0, "denied 1s"}},
		{"deadline behind", []rules.Limit{{Kind: rules.User, Rules: second, Wait: time.Minute}}, 1001 * time.Millisecond, arrival{0, time.Second, ""}},
		{"a queue, deadline before", []rules.Limit{{Kind: rules.User, Algorithm: rules.LeakyBucket, Rules: second, Wait: time.Minute}},
			900 * time.Millisecond, arrival{0, 0, "denied 100ms"}},
		{"a queue, deadline behind", []rules.Limit{{Kind: rules.User, Algorithm: rules.LeakyBucket, Rules: second, Wait: time.Minute}},
			1001 * time.Millisecond, arrival{0, time.Second, ""}},
		{"a queue, and a longer wait for another limit", []rules.Limit{
			{Kind: rules.User, Algorithm: rules.LeakyBucket, Rules: per(2, time.Second), Wait: time.Second}, {Kind: rules.IP, Rules: second, Wait: time.Minute}},
			0, arrival{0, time.Second, ""}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := memstore.New()
				guard := limiter(t, s).Guard(create(test.limits...))
				ctx := alice()
				if _, err := guard.Take(ctx); err != nil {
					t.Fatal(err)
				}
				if test.within > 0 {
					var cancel func()
					ctx, cancel = context.WithTimeout(ctx, test.within)
					defer cancel()
				}
				a := arrivals{began: time.Now()}
				_, err := guard.Take(ctx)
				a.add(0, err)
				if diff := gocmp.Diff(test.want, a.all[0]); diff != "" {
					t.Errorf("second call (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// A context that ends while the call waits: its error is the caller's, and the call has charged nothing.
func TestContextEndsWhileWaiting(t *testing.T) {
	for _, algorithm := range []rules.Algorithm{rules.SlidingLog, rules.LeakyBucket} {
		for _, place := range []string{"first", "behind another"} {
			t.Run(algorithm.String()+" "+place, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					rec := &lockedRecorder{}
					guard := limiter(t, memstore.New(), ratelimit.WithObserver(rec)).Guard(create(
						rules.Limit{Kind: rules.User, Algorithm: algorithm, Rules: per(1, time.Second), Wait: time.Minute},
						rules.Limit{Kind: rules.Global, Rules: per(10, time.Hour)}))
					a := arrivals{began: time.Now()}
					var wg sync.WaitGroup
					call := func(i int, ctx context.Context) {
						wg.Go(func() {
							_, err := guard.Take(ctx)
							a.add(i, err)
						})
						synctest.Wait()
					}
					call(0, alice())
					last := time.Second
					if place == "behind another" {
						call(1, alice())
						last = 2 * time.Second
					}
					cause := errors.New("the client hung up")
					ctx, cancel := context.WithCancelCause(alice())
					call(2, ctx)
					time.Sleep(500 * time.Millisecond)
					cancel(cause)
					synctest.Wait()
					if got, want := a.all[len(a.all)-1], (arrival{2, 500 * time.Millisecond, "shop.Orders Create: context canceled: the client hung up"}); got != want {
						t.Errorf("the call whose context ends = %v, want %v", got, want)
					}
					if d := rec.decisions[len(rec.decisions)-1]; d.Waited != 500*time.Millisecond {
						t.Errorf("waited %v, want 500ms", d.Waited)
					}
					call(3, alice())
					wg.Wait()
					if got, want := a.all[len(a.all)-1], (arrival{3, last, ""}); got != want {
						t.Errorf("the next call = %v, want the place of the one that gave up, %v", got, want)
					}
				})
			})
		}
	}
}

func TestMaxWaiters(t *testing.T) {
	for _, algorithm := range []rules.Algorithm{rules.SlidingLog, rules.LeakyBucket} {
		t.Run(algorithm.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rec := &lockedRecorder{}
				guard := limiter(t, memstore.New(), ratelimit.WithMaxWaiters(2), ratelimit.WithObserver(rec)).Guard(create(
					rules.Limit{Kind: rules.User, Algorithm: algorithm, Rules: per(1, time.Second), Wait: 10 * time.Second}))
				retry := "denied 1s"
				if algorithm == rules.LeakyBucket {
					retry = "denied 3s" // until the queue is empty: the call may not stand in it
				}
				want := []arrival{{0, 0, ""}, {3, 0, retry}, {1, time.Second, ""}, {2, 2 * time.Second, ""}}
				if diff := gocmp.Diff(want, callAll(guard, 4)); diff != "" {
					t.Errorf("4 calls, of which 2 may wait (-want +got):\n%s", diff)
				}
				for i, d := range rec.decisions {
					if d.Crowded == d.Allowed {
						t.Errorf("decision %d: crowded = %t, allowed = %t, want one of them", i, d.Crowded, d.Allowed)
					}
				}
				if _, err := guard.Take(alice()); err != nil {
					t.Errorf("a call when the others have gone = %v, want nil", err)
				}
			})
		})
	}
}

func TestCrowdedError(t *testing.T) {
	guard := limiter(t, memstore.New(memstore.WithClock(newClock().Now)), ratelimit.WithMaxWaiters(0)).Guard(create(
		rules.Limit{Kind: rules.User, Rules: per(1, time.Second), Wait: time.Minute}))
	if _, err := guard.Take(alice()); err != nil {
		t.Fatal(err)
	}
	_, err := guard.Take(alice())
	const want = `shop.Orders Create: rate limit exceeded: limit "Create" allows 1,1s, retry after 1s; it does not wait, for too many calls do`
	if err == nil || err.Error() != want {
		t.Errorf("Take = %v, want %s", err, want)
	}
}

// A store that fails while a call waits: each ask is decided as onfail says, and none goes on waiting for a store that is gone.
func TestStoreFailsWhileWaiting(t *testing.T) {
	for _, test := range []struct {
		onfail rules.OnFail
		want   arrival
	}{
		{rules.FailClosed, arrival{0, time.Second, `shop.Orders Create: rate limit store unavailable: limit "Create": unavailable: ask 3 fails`}},
		{rules.FailOpen, arrival{0, time.Second, ""}},
		{rules.FailLocal, arrival{0, time.Second, ""}},
	} {
		t.Run(test.onfail.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &flaky{Store: memstore.New(), fails: []int{3}}
				guard := limiter(t, s, ratelimit.WithLogger(slog.New(slog.DiscardHandler))).Guard(create(
					rules.Limit{Kind: rules.User, Rules: per(1, time.Second), Wait: time.Minute, OnFail: test.onfail}))
				if _, err := guard.Take(alice()); err != nil {
					t.Fatal(err)
				}
				a := arrivals{began: time.Now()}
				_, err := guard.Take(alice())
				a.add(0, err)
				if diff := gocmp.Diff(test.want, a.all[0]); diff != "" {
					t.Errorf("second call (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestOutageEndsWaits tests that calls which wait, and those in line behind them, are decided as
// onfail says as soon as another call has found that the store is down.
func TestOutageEndsWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &brokenStore{Store: memstore.New()}
		l := limiter(t, s, ratelimit.WithLogger(slog.New(slog.DiscardHandler)))
		guard := l.Guard(create(rules.Limit{Kind: rules.User, Rules: per(1, time.Minute), Wait: time.Minute, OnFail: rules.FailClosed}))
		if _, err := guard.Take(alice()); err != nil {
			t.Fatal(err)
		}
		errs := make(chan error)
		for range 3 {
			go func() {
				_, err := guard.Take(alice())
				errs <- err
			}()
		}
		synctest.Wait()
		s.fail(errDown)
		began := time.Now()
		if _, err := guard.Take(ratelimit.WithUser(t.Context(), "bob")); !errors.Is(err, ratelimit.ErrUnavailable) {
			t.Errorf("a call that does not wait: %v, want %v", err, ratelimit.ErrUnavailable)
		}
		for i := range 3 {
			if err := <-errs; !errors.Is(err, ratelimit.ErrUnavailable) {
				t.Errorf("waiting call %d: %v, want %v", i, err, ratelimit.ErrUnavailable)
			}
		}
		if _, err := guard.Take(alice()); !errors.Is(err, ratelimit.ErrUnavailable) {
			t.Errorf("a call that comes later: %v, want %v", err, ratelimit.ErrUnavailable)
		}
		if waited := time.Since(began); waited != 0 {
			t.Errorf("the calls ended after %v, want at once", waited)
		}
	})
}

// Alone, a process lets its callers wait as the store would, at its share of the rate.
func TestQueueWithoutStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		guard := limiter(t, failing(store.Unavailable), ratelimit.WithInstances(2), ratelimit.WithLogger(slog.New(slog.DiscardHandler))).Guard(create(
			rules.Limit{Kind: rules.User, Algorithm: rules.LeakyBucket, Rules: per(4, time.Second), Wait: time.Second}))
		want := []arrival{{0, 0, ""}, {3, 0, "denied 500ms"}, {1, 500 * time.Millisecond, ""}, {2, time.Second, ""}}
		if diff := gocmp.Diff(want, callAll(guard, 4)); diff != "" {
			t.Errorf("arrivals (-want +got):\n%s", diff)
		}
	})
}

// The permit of a call that has waited is like any other.
func TestGiveBackAfterWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		guard := limiter(t, memstore.New()).Guard(create(
			rules.Limit{Kind: rules.User, Rules: per(1, time.Minute), Wait: time.Minute},
			rules.Limit{Kind: rules.Global, Algorithm: rules.LeakyBucket, Rules: per(1, time.Second), Wait: time.Minute}))
		for range 2 {
			permit, err := guard.Take(alice())
			if err != nil {
				t.Fatal(err)
			}
			if err := permit.GiveBack(alice()); err != nil {
				t.Fatal(err)
			}
		}
		began := time.Now()
		if _, err := guard.Take(alice()); err != nil || time.Since(began) != 0 {
			t.Errorf("Take after all is given back = %v after %v, want nil at once", err, time.Since(began))
		}
	})
}
