package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/lock"
	"github.com/rlgen/rlgen/ratelimit/lock/redislock"
	"github.com/rlgen/rlgen/ratelimit/memstore"
	"github.com/rlgen/rlgen/ratelimit/redisstore"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
	"github.com/rlgen/rlgen/rules"
)

// stores are where a limiter counts and holds.
type stores struct {
	rates store.Store
	locks lock.Store
}

func inMemory() stores { return stores{memstore.New(), lock.NewMemory()} }

// inRedis starts a redis-server, in which both are.
func inRedis(t *testing.T) (stores, *redistest.Server) {
	server := redistest.Start(t)
	rates, err := redisstore.New(server.Client(t), redisstore.WithBudget(10*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	locks, err := redislock.New(server.Client(t), redislock.WithBudget(10*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { locks.Close() })
	return stores{rates, locks}, server
}

// onEach runs a test in memory, where time is that of a bubble, and in Redis.
func onEach(t *testing.T, test func(*testing.T, stores)) {
	t.Run("memory", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { test(t, inMemory()) })
	})
	t.Run("redis", func(t *testing.T) {
		s, _ := inRedis(t)
		test(t, s)
	})
}

func (s stores) limiter(t *testing.T, opts ...ratelimit.Option) *ratelimit.Limiter {
	t.Helper()
	return limiter(t, s.rates, append([]ratelimit.Option{ratelimit.WithLocks(s.locks)}, opts...)...)
}

func (s stores) guard(t *testing.T, limits ...rules.Limit) *ratelimit.Guard {
	t.Helper()
	return s.limiter(t).Guard(create(limits...))
}

// run is a method behind a guard, as rlgen writes it.
func run(g *ratelimit.Guard, ctx context.Context, do func(context.Context) error, in ...ratelimit.Input) (err error) {
	ctx, permit, err := g.Hold(ctx, in...)
	if err != nil {
		return err
	}
	defer permit.Done(&err)
	return do(ctx)
}

func nothing(context.Context) error { return nil }

func fails(context.Context) error { return errors.New("it fails") }

func by(id string) ratelimit.Input {
	var in ratelimit.Input
	in.By(id)
	return in
}

func inFlight(count int64) rules.Limit {
	return rules.Limit{Kind: rules.Concurrency, Count: count, Per: rules.PerUser}
}

func wantBusy(t *testing.T, err error, limit string) {
	t.Helper()
	var exceeded *ratelimit.ExceededError
	if !errors.As(err, &exceeded) || !errors.Is(err, ratelimit.ErrExceeded) || !errors.Is(err, lock.ErrBusy) {
		t.Fatalf("Hold = %v, want ErrExceeded and lock.ErrBusy", err)
	}
	if exceeded.Limit != limit || exceeded.StatusCode() != 429 || exceeded.RetryAfter <= 0 || exceeded.RetryAfter > time.Second {
		t.Errorf("Hold = %+v, want limit %q, 429, and to ask again within a second", exceeded, limit)
	}
}

func TestConcurrencyDeniesWhatIsOneTooMany(t *testing.T) {
	onEach(t, func(t *testing.T, s stores) {
		g := s.guard(t, inFlight(2))
		var permits []ratelimit.Permit
		for range 2 {
			_, permit, err := g.Hold(alice())
			if err != nil {
				t.Fatal(err)
			}
			permits = append(permits, permit)
		}
		_, _, err := g.Hold(alice())
		wantBusy(t, err, "Create")
		if want := `limit "Create" allows 2 in flight, retry after `; !strings.Contains(err.Error(), want) {
			t.Errorf("Hold = %v, want %q in it", err, want)
		}
		if err := run(g, ratelimit.WithUser(t.Context(), "bob"), nothing); err != nil {
			t.Errorf("another user: %v", err)
		}
		permits[0].Done(nil)
		permits[0].Done(nil) // which lets go of nothing else
		if err := run(g, alice(), nothing); err != nil {
			t.Errorf("after one has ended: %v", err)
		}
		permits[1].Done(nil)
	})
}

func TestAtMostSoManyInFlight(t *testing.T) {
	const limit, callers = 4, 40
	onEach(t, func(t *testing.T, s stores) {
		l := inFlight(limit)
		l.Wait = time.Minute
		g := s.guard(t, l)
		var now, most, ran atomic.Int64
		full := make(chan struct{})
		var calls sync.WaitGroup
		for range callers {
			calls.Go(func() {
				err := run(g, alice(), func(context.Context) error {
					n := now.Add(1)
					defer now.Add(-1)
					for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
					}
					if ran.Add(1) == limit {
						close(full)
					}
					<-full // none ends before as many as may are here
					return nil
				})
				if err != nil {
					t.Errorf("a caller: %v", err)
				}
			})
		}
		calls.Wait()
		if most.Load() != limit || ran.Load() != callers {
			t.Errorf("%d in flight at once, %d ran, want %d and %d", most.Load(), ran.Load(), limit, callers)
		}
	})
}

func TestLockLetsInOneAtATime(t *testing.T) {
	onEach(t, func(t *testing.T, s stores) {
		g := s.guard(t, rules.Limit{Kind: rules.Lock, By: "id"})
		err := run(g, t.Context(), func(ctx context.Context) error {
			if lock.Token(ctx) == 0 {
				t.Error("the method's context has no token")
			}
			wantBusy(t, run(g, t.Context(), nothing, by("42")), "Create")
			if err := run(g, t.Context(), nothing, by("43")); err != nil {
				t.Errorf("another order: %v", err)
			}
			if err := run(g, ctx, nothing, by("42")); err != nil {
				t.Errorf("the same order within: %v", err)
			}
			wantBusy(t, run(g, t.Context(), nothing, by("42")), "Create")
			return nil
		}, by("42"))
		if err != nil {
			t.Fatal(err)
		}
		if err := run(g, t.Context(), nothing, by("42")); err != nil {
			t.Errorf("after it has ended: %v", err)
		}
		if err := run(g, t.Context(), nothing, by("")); !errors.Is(err, ratelimit.ErrNoIdentity) {
			t.Errorf("no order = %v, want ErrNoIdentity", err)
		}
	})
}

func TestSegmentsShareLocks(t *testing.T) {
	onEach(t, func(t *testing.T, s stores) {
		const segments = 2
		g := s.guard(t, rules.Limit{Kind: rules.Lock, By: "id", Segments: segments})
		beside, elsewhere := "", ""
		for i := 0; beside == "" || elsewhere == ""; i++ {
			if id := fmt.Sprint("b", i); lock.Segment(id, segments) == lock.Segment("a", segments) {
				beside = id
			} else {
				elsewhere = id
			}
		}
		err := run(g, t.Context(), func(context.Context) error {
			wantBusy(t, run(g, t.Context(), nothing, by(beside)), "Create")
			return run(g, t.Context(), nothing, by(elsewhere))
		}, by("a"))
		if err != nil {
			t.Error(err)
		}
	})
}

// diary writes down what stores are asked.
type diary struct {
	mu    sync.Mutex
	pages []string
}

func (d *diary) write(page string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pages = append(d.pages, page)
}

func (d *diary) read() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.pages)
}

func (d *diary) of(s stores) stores {
	return stores{writtenRates{s.rates, d}, &writtenLocks{s.locks, d}}
}

type writtenRates struct {
	store.Store
	*diary
}

func (w writtenRates) Take(ctx context.Context, requests []store.Request, detail bool, out *store.Outcome) error {
	w.write("take")
	return w.Store.Take(ctx, requests, detail, out)
}

func (w writtenRates) GiveBack(ctx context.Context, r store.Receipt) error {
	w.write("give back")
	return w.Store.GiveBack(ctx, r)
}

type writtenLocks struct {
	lock.Store
	*diary
}

func what(c lock.Claim) string {
	if c.Limit > 0 {
		return "room"
	}
	return "lock"
}

func (w *writtenLocks) Acquire(ctx context.Context, c lock.Claim) (lock.Answer, error) {
	w.write("acquire " + what(c))
	return w.Store.Acquire(ctx, c)
}

func (w *writtenLocks) Release(ctx context.Context, c lock.Claim) (bool, error) {
	w.write("release " + what(c))
	return w.Store.Release(ctx, c)
}

// all is a policy of all that there is, in the wrong order.
func all(charge rules.Charge) []rules.Limit {
	return []rules.Limit{
		{Kind: rules.Lock},
		inFlight(1),
		{Kind: rules.Global, Rules: per(1, time.Hour), Charge: charge},
	}
}

func TestOrderOfHolds(t *testing.T) {
	had := []string{"take", "acquire room", "acquire lock"}
	let := []string{"release lock", "release room"}
	for _, test := range []struct {
		name   string
		charge rules.Charge
		do     func(context.Context) error
		want   []string
	}{
		{"success", rules.ChargeAlways, nothing, let},
		{"error", rules.ChargeAlways, fails, let},
		{"panic", rules.ChargeAlways, func(context.Context) error { panic("boom") }, let},
		{"context ends", rules.ChargeAlways, func(ctx context.Context) error {
			ctx.Value(cancelKey{}).(context.CancelFunc)()
			return ctx.Err()
		}, let},
		{"success, charged for errors", rules.ChargeError, nothing, append(slices.Clone(let), "give back")},
		{"panic, charged for successes", rules.ChargeSuccess, func(context.Context) error { panic("boom") }, append(slices.Clone(let), "give back")},
	} {
		t.Run(test.name, func(t *testing.T) {
			var d diary
			g := d.of(inMemory()).guard(t, all(test.charge)...)
			ctx, cancel := context.WithCancel(alice())
			defer cancel()
			ctx = context.WithValue(ctx, cancelKey{}, cancel)
			func() {
				defer func() { _ = recover() }()
				run(g, ctx, test.do)
			}()
			if diff := cmp.Diff(append(slices.Clone(had), test.want...), d.read()); diff != "" {
				t.Errorf("what the stores were asked (-want +got):\n%s", diff)
			}
		})
	}
}

type cancelKey struct{}

func TestPanicGoesOn(t *testing.T) {
	for _, charge := range []rules.Charge{rules.ChargeAlways, rules.ChargeError} {
		g := inMemory().guard(t, all(charge)...)
		func() {
			defer func() {
				if got := recover(); got != "boom" {
					t.Errorf("charge=%v: recover = %v, want boom", charge, got)
				}
			}()
			run(g, alice(), func(context.Context) error { panic("boom") })
		}()
	}
}

// A call that a later limit denies gives back what earlier ones granted; one that has waited for it has failed.
func TestDeniedByALock(t *testing.T) {
	for _, test := range []struct {
		name    string
		charge  rules.Charge
		wait    time.Duration
		charged bool
	}{
		{"at once", rules.ChargeAlways, 0, false},
		{"at once, charged for errors", rules.ChargeError, 0, false},
		{"after a wait", rules.ChargeAlways, 20 * time.Millisecond, true},
		{"after a wait, charged for errors", rules.ChargeError, 20 * time.Millisecond, true},
		{"after a wait, charged for successes", rules.ChargeSuccess, 20 * time.Millisecond, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			onEach(t, func(t *testing.T, s stores) {
				limits := all(test.charge)
				limits[0].Wait = test.wait
				l := s.limiter(t)
				g := l.Guard(create(limits...))
				other := l.Guard(create(rules.Limit{Kind: rules.Lock})) // the same lock, by itself
				err := run(other, t.Context(), func(context.Context) error {
					began := time.Now()
					err := run(g, alice(), nothing)
					if waited := time.Since(began); waited < test.wait {
						t.Errorf("denied after %v, want a wait of %v", waited, test.wait)
					}
					wantBusy(t, err, "Create/lock")
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
				err = run(g, alice(), nothing)
				if got := errors.Is(err, ratelimit.ErrExceeded); got != test.charged || !got && err != nil {
					t.Errorf("afterwards: %v, want the rate charged: %v", err, test.charged)
				}
			})
		})
	}
}

func TestContextEndsWhileWaitingForALock(t *testing.T) {
	for _, charge := range []rules.Charge{rules.ChargeAlways, rules.ChargeSuccess} {
		t.Run(charge.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := inMemory()
				limits := all(charge)
				limits[0].Wait = time.Minute
				l := s.limiter(t)
				g := l.Guard(create(limits...))
				other := l.Guard(create(rules.Limit{Kind: rules.Lock}))
				_, held, err := other.Hold(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				why := errors.New("the client is gone")
				ctx, cancel := context.WithCancelCause(alice())
				time.AfterFunc(time.Second, func() { cancel(why) })
				if err := run(g, ctx, nothing); !errors.Is(err, context.Canceled) || !errors.Is(err, why) {
					t.Errorf("Hold = %v, want canceled, because the client is gone", err)
				}
				held.Done(nil)
				err = run(g, alice(), nothing)
				if got, want := errors.Is(err, ratelimit.ErrExceeded), charge == rules.ChargeAlways; got != want || !got && err != nil {
					t.Errorf("afterwards: %v, want the rate charged: %v", err, want)
				}
			})
		})
	}
}

// losing is a lock.Store that no longer has what it is asked to renew.
type losing struct{ *lock.Memory }

func (losing) Renew(context.Context, lock.Claim) (lock.Answer, error) { return lock.Answer{}, nil }

func TestLostHoldEndsTheMethodsContext(t *testing.T) {
	for _, l := range []rules.Limit{{Kind: rules.Lock}, inFlight(1)} {
		t.Run(l.Kind.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l.Lease = 3 * time.Second
				g := stores{memstore.New(), &losing{lock.NewMemory()}}.guard(t, l)
				began := time.Now()
				err := run(g, alice(), func(ctx context.Context) error {
					<-ctx.Done()
					return context.Cause(ctx)
				})
				if after := time.Since(began); !errors.Is(err, lock.ErrLost) || after != time.Second {
					t.Errorf("the method's context ended after %v by %v, want after 1s by ErrLost", after, err)
				}
			})
		})
	}
}

func TestKeyRemovedInRedis(t *testing.T) {
	s, server := inRedis(t)
	client := server.Client(t)
	for kind, test := range map[string]struct {
		limit rules.Limit
		key   string
	}{
		"lock":        {rules.Limit{Kind: rules.Lock, By: "id", Lease: 300 * time.Millisecond}, "rl:lock:{rl:key=42:shop.Orders-Create@lock}"},
		"concurrency": {rules.Limit{Kind: rules.Concurrency, Count: 3, Per: rules.PerUser, By: "id", Lease: 300 * time.Millisecond}, "rl:sem:{rl:user=42:shop.Orders-Create@concurrency}"},
	} {
		t.Run(kind, func(t *testing.T) {
			err := run(s.guard(t, test.limit), t.Context(), func(ctx context.Context) error {
				if n := client.Del(ctx, test.key).Val(); n != 1 {
					t.Fatalf("no key %s, but %q", test.key, client.Keys(ctx, "*").Val())
				}
				select {
				case <-ctx.Done():
					return context.Cause(ctx)
				case <-time.After(10 * time.Second):
					return errors.New("its context goes on")
				}
			}, by("42"))
			if !errors.Is(err, lock.ErrLost) {
				t.Errorf("the method's context ended by %v, want ErrLost", err)
			}
		})
	}
}

func TestChargeByOutcome(t *testing.T) {
	panics := func(context.Context) error { panic("boom") }
	onEach(t, func(t *testing.T, s stores) {
		call := 0
		for _, algo := range []rules.Algorithm{rules.SlidingLog, rules.CompactLog, rules.SlidingWindow, rules.FixedWindow, rules.TokenBucket, rules.GCRA} {
			for _, test := range []struct {
				charge rules.Charge
				do     func(context.Context) error
				want   bool
			}{
				{rules.ChargeAlways, nothing, true},
				{rules.ChargeAlways, fails, true},
				{rules.ChargeSuccess, nothing, true},
				{rules.ChargeSuccess, fails, false},
				{rules.ChargeSuccess, panics, false},
				{rules.ChargeError, nothing, false},
				{rules.ChargeError, fails, true},
				{rules.ChargeError, panics, true},
			} {
				limit := rules.Limit{Kind: rules.Key, By: "id", Algorithm: algo, Rules: per(1, time.Hour)}
				beside := limit
				limit.Charge = test.charge
				g := s.limiter(t).Guard(create(limit, beside))
				call++
				in := []ratelimit.Input{by(strconv.Itoa(call)), by(strconv.Itoa(call))}
				func() {
					defer func() { _ = recover() }()
					run(g, t.Context(), test.do, in...)
				}()
				d, _, err := g.Decide(t.Context(), in...)
				if err != nil {
					t.Fatal(err)
				}
				if charged := !d.Limits[0].Allowed; charged != test.want {
					t.Errorf("%v, call %d, charge=%v: charged %v, want %v", algo, call, test.charge, charged, test.want)
				}
				if d.Limits[1].Allowed {
					t.Errorf("%v, call %d, charge=%v: the limit beside it is not charged", algo, call, test.charge)
				}
			}
		}
	})
}

// brokenLocks fails as err says while it is not nil.
type brokenLocks struct {
	lock.Store
	err error
}

func (b *brokenLocks) Acquire(ctx context.Context, c lock.Claim) (lock.Answer, error) {
	if b.err != nil {
		return lock.Answer{}, b.err
	}
	return b.Store.Acquire(ctx, c)
}

func TestLocksThatCannotDecide(t *testing.T) {
	unavailable := &store.Error{Class: store.Unavailable, Err: errors.New("it is down")}
	misconfigured := &store.Error{Class: store.Misconfigured, Err: errors.New("no permission")}
	for _, test := range []struct {
		name   string
		limit  rules.Limit
		err    error
		first  error // of a call
		within error // of another one while that runs
	}{
		{"lock local", rules.Limit{Kind: rules.Lock}, unavailable, nil, ratelimit.ErrExceeded},
		{"lock open", rules.Limit{Kind: rules.Lock, OnFail: rules.FailOpen}, unavailable, nil, nil},
		{"lock closed", rules.Limit{Kind: rules.Lock, OnFail: rules.FailClosed}, unavailable, ratelimit.ErrUnavailable, nil},
		{"lock misconfigured", rules.Limit{Kind: rules.Lock, OnFail: rules.FailOpen}, misconfigured, ratelimit.ErrMisconfigured, nil},
		{"concurrency local, at its share", inFlight(5), unavailable, nil, ratelimit.ErrExceeded},
		{"concurrency local, at two thirds", inFlight(8), unavailable, nil, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := inMemory()
				s.locks = &brokenLocks{s.locks, test.err}
				rate := rules.Limit{Kind: rules.Global, Rules: per(2, time.Hour)}
				var seen recorder
				g := s.limiter(t, ratelimit.WithInstances(4), ratelimit.WithObserver(&seen)).Guard(create(test.limit, rate))
				ran := false
				err := run(g, alice(), func(context.Context) error {
					ran = true
					if err := run(g, alice(), nothing); !errors.Is(err, test.within) {
						t.Errorf("the call within = %v, want %v", err, test.within)
					}
					return nil
				})
				if !errors.Is(err, test.first) || ran != (test.first == nil) {
					t.Errorf("the call = %v, want %v", err, test.first)
				}
				if d := seen.decisions[len(seen.decisions)-1]; test.first == nil && !errors.Is(d.Degraded, test.err) {
					t.Errorf("decision %+v, want it degraded by %v", d, test.err)
				}
				if test.first != nil { // nothing is charged for it
					s.locks.(*brokenLocks).err = nil
					for range 2 {
						if err := run(g, alice(), nothing); err != nil {
							t.Errorf("afterwards: %v", err)
						}
					}
				}
			})
		})
	}
}

func TestObserverSeesHolds(t *testing.T) {
	var seen recorder
	g := inMemory().limiter(t, ratelimit.WithObserver(&seen)).Guard(create(all(rules.ChargeAlways)...))
	err := run(g, alice(), func(context.Context) error {
		return run(g, ratelimit.WithUser(t.Context(), "bob"), nothing)
	})
	if !errors.Is(err, ratelimit.ErrExceeded) { // the rate
		t.Fatal(err)
	}
	d := seen.decisions[0]
	want := []ratelimit.LimitDecision{
		{Index: 0, Key: "rl:global:shop.Orders-Create@lock", Cost: 1, Allowed: true},
		{Index: 1, Key: "rl:user=alice:shop.Orders-Create@concurrency", Cost: 1, Allowed: true},
	}
	if diff := cmp.Diff(want, d.Limits[:2]); diff != "" || !d.Allowed || len(d.Limits) != 3 || d.Limits[2].Index != 2 {
		t.Errorf("limits (-want +got):\n%s", diff)
	}
}

func TestCostInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := inFlight(3)
		l.Cost = "n"
		g := inMemory().guard(t, l)
		cost := func(n int64) ratelimit.Input {
			var in ratelimit.Input
			in.Cost(n)
			return in
		}
		err := run(g, alice(), func(context.Context) error {
			wantBusy(t, run(g, alice(), nothing, cost(2)), "Create")
			if err := run(g, alice(), nothing, cost(0)); err != nil {
				t.Errorf("a cost of 0: %v", err)
			}
			return run(g, alice(), nothing, cost(1))
		}, cost(2))
		if err != nil {
			t.Error(err)
		}
		for _, n := range []int64{-1, 4} {
			if err := run(g, alice(), nothing, cost(n)); !errors.Is(err, ratelimit.ErrCost) {
				t.Errorf("a cost of %d = %v, want ErrCost", n, err)
			}
		}
	})
}

func TestCrowdedHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := rules.Limit{Kind: rules.Lock, Wait: time.Minute}
		g := inMemory().limiter(t, ratelimit.WithMaxWaiters(1)).Guard(create(l))
		_, permit, err := g.Hold(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var waiter sync.WaitGroup
		waiter.Go(func() {
			if err := run(g, t.Context(), nothing); err != nil {
				t.Errorf("the one that waits: %v", err)
			}
		})
		synctest.Wait()
		began := time.Now()
		err = run(g, t.Context(), nothing)
		var exceeded *ratelimit.ExceededError
		if !errors.As(err, &exceeded) || !exceeded.Crowded || time.Since(began) != 0 {
			t.Errorf("a second waiter = %v after %v, want it denied at once as crowded", err, time.Since(began))
		}
		permit.Done(nil)
		waiter.Wait()
	})
}

func TestGiveBackLetsGo(t *testing.T) {
	g := inMemory().guard(t, all(rules.ChargeAlways)...)
	_, permit, err := g.Hold(alice())
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := permit.GiveBack(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	permit.Done(nil)
	if err := run(g, alice(), nothing); err != nil {
		t.Errorf("after it was given back: %v", err)
	}
}

func TestHoldsNeedTheirOwnWay(t *testing.T) {
	lone := rules.Limit{Kind: rules.Lock}
	_, err := limiter(t, memstore.New()).Prepare(create(lone))
	if want := `ratelimit: shop.Orders Create: limit "Create": the limiter has no lock store: make it with ratelimit.WithLocks(locks), ` +
		"where locks is of redislock.New over the client that keeps the counts, or of lock.NewMemory in a program of one instance"; err == nil || err.Error() != want {
		t.Errorf("Prepare = %v, want %s", err, want)
	}
	if _, err := ratelimit.New(memstore.New(), ratelimit.WithLocks((*lock.Memory)(nil))); err == nil {
		t.Error("WithLocks(nil) is accepted")
	}
	g := inMemory().guard(t, lone)
	if _, err := g.Take(t.Context()); !errors.Is(err, ratelimit.ErrMisconfigured) {
		t.Errorf("Take = %v, want ErrMisconfigured", err)
	}
	if _, _, err := g.Decide(t.Context()); !errors.Is(err, ratelimit.ErrMisconfigured) {
		t.Errorf("Decide = %v, want ErrMisconfigured", err)
	}
}

// The bounds that directives have are those of package lock.
func TestBoundsOfHolds(t *testing.T) {
	if rules.MaxConcurrency != lock.MaxLimit || rules.MinLease != lock.MinLease || rules.MaxLease != lock.MaxLease ||
		rules.DefaultLease != lock.DefaultLease || rules.MaxSegments > lock.MaxSegments {
		t.Error("package rules has other bounds than package lock")
	}
}

// failure is an interface that is not error, and has what an error has.
type failure interface{ Error() string }

func TestDoneOfAnotherErrorType(t *testing.T) {
	g := inMemory().guard(t, rules.Limit{Kind: rules.Global, Rules: per(1, time.Hour), Charge: rules.ChargeError})
	call := func(do func() failure) (err failure) {
		permit, err := g.Take(t.Context())
		if err != nil {
			return err
		}
		defer ratelimit.Done(permit, &err)
		return do()
	}
	if err := call(func() failure { return nil }); err != nil {
		t.Fatal(err)
	}
	func() {
		defer func() {
			if got := recover(); got != "boom" {
				t.Errorf("recover = %v, want boom", got)
			}
		}()
		call(func() failure { panic("boom") })
	}()
	if err := call(func() failure { return nil }); !errors.Is(err, ratelimit.ErrExceeded) {
		t.Errorf("after a panic = %v, want ErrExceeded", err)
	}
}

// A queue's delay may end with the context before it is known how the call ends.
func TestContextEndsInAQueueBeforeALock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d diary
		queue := rules.Limit{Kind: rules.Global, Algorithm: rules.LeakyBucket, Rules: per(1, time.Minute), Wait: time.Hour, Charge: rules.ChargeSuccess}
		g := d.of(inMemory()).guard(t, rules.Limit{Kind: rules.Lock}, queue)
		if err := run(g, t.Context(), nothing); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if err := run(g, ctx, nothing); !errors.Is(err, context.Canceled) {
			t.Errorf("Hold = %v, want canceled", err)
		}
		want := []string{"take", "acquire lock", "release lock", "take", "give back"}
		if diff := cmp.Diff(want, d.read()); diff != "" {
			t.Errorf("what the stores were asked (-want +got):\n%s", diff)
		}
	})
}
