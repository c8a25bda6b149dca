package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/lock"
	"github.com/rlgen/rlgen/ratelimit/memstore"
	"github.com/rlgen/rlgen/rules"
)

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

// TestWaitInVainIsCharged holds that a call which has waited for a lock in vain is charged as one that failed, and one that does not wait is
// charged nothing.
func TestWaitInVainIsCharged(t *testing.T) {
	for _, charge := range []rules.Charge{rules.ChargeAlways, rules.ChargeSuccess, rules.ChargeError} {
		for _, wait := range []time.Duration{0, time.Second} {
			t.Run(fmt.Sprint(charge, " wait=", wait), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					limits := all(charge)
					limits[0].Wait = wait
					l := inMemory().limiter(t)
					g := l.Guard(create(limits...))
					_, held, err := l.Guard(create(rules.Limit{Kind: rules.Lock})).Hold(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					if err := run(g, alice(), nothing); !errors.Is(err, lock.ErrBusy) {
						t.Errorf("Hold = %v, want %v", err, lock.ErrBusy)
					}
					held.Done(nil)
					err = run(g, alice(), nothing)
					want := wait > 0 && charge != rules.ChargeSuccess
					if got := errors.Is(err, ratelimit.ErrExceeded); got != want || !got && err != nil {
						t.Errorf("afterwards: %v, want the rate charged: %v", err, want)
					}
				})
			})
		}
	}
}

// forgetful is a store that knows nothing of its semaphores when it is to renew them.
type forgetful struct{ *lock.Memory }

func (f forgetful) Renew(ctx context.Context, c lock.Claim) (lock.Answer, error) {
	if c.Limit > 0 {
		return lock.Answer{}, nil
	}
	return f.Memory.Renew(ctx, c)
}

// TestPlaceIsLostWhileWaitingForALock holds that a caller who has not gone away is not told that he has, where it is the store that has lost
// his place in flight.
func TestPlaceIsLostWhileWaitingForALock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := all(rules.ChargeAlways)
		limits[0].Wait = time.Hour
		l := stores{memstore.New(), forgetful{lock.NewMemory()}}.limiter(t)
		_, held, err := l.Guard(create(rules.Limit{Kind: rules.Lock})).Hold(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer held.Done(nil)
		err = run(l.Guard(create(limits...)), alice(), nothing)
		if !errors.Is(err, ratelimit.ErrUnavailable) || !errors.Is(err, lock.ErrLost) || errors.Is(err, context.Canceled) {
			t.Errorf("Hold = %v, want %v and %v", err, ratelimit.ErrUnavailable, lock.ErrLost)
		}
	})
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

// TestLocksInAnyOrder lets calls of two methods, whose lines come in opposite orders, lock the same two names: none waits for one that waits for it.
func TestLocksInAnyOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		order := rules.Limit{Kind: rules.Lock, By: "order", Bucket: "order", Wait: time.Minute}
		account := rules.Limit{Kind: rules.Lock, By: "account", Bucket: "account", Wait: time.Minute}
		l := inMemory().limiter(t)
		charge, refund := l.Guard(create(order, account)), l.Guard(create(account, order))
		var calls sync.WaitGroup
		call := func(g *ratelimit.Guard, ids ...ratelimit.Input) {
			calls.Go(func() {
				err := run(g, t.Context(), func(context.Context) error {
					time.Sleep(time.Millisecond) // the bubble's clock
					return nil
				}, ids...)
				if err != nil {
					t.Errorf("a call = %v, want nil", err)
				}
			})
		}
		began := time.Now()
		for range 5 {
			call(charge, by("42"), by("alice"))
			call(refund, by("alice"), by("42"))
		}
		calls.Wait()
		if took := time.Since(began); took > time.Second {
			t.Errorf("took %v, want the time of the calls", took)
		}
	})
}

// TestWidestLockLast holds that a call which waits for its id keeps nobody from the lock of all callers.
func TestWidestLockLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := rules.Limit{Kind: rules.Lock, Name: "all", Bucket: "all"}
		one := rules.Limit{Kind: rules.Lock, By: "id", Wait: time.Minute}
		l := inMemory().limiter(t)
		both, id, everybody := l.Guard(create(all, one)), l.Guard(create(one)), l.Guard(create(all))
		var waits sync.WaitGroup
		err := run(id, t.Context(), func(context.Context) error {
			waits.Go(func() {
				if err := run(both, t.Context(), nothing, ratelimit.Input{}, by("42")); err != nil {
					t.Errorf("the call that waits = %v, want nil", err)
				}
			})
			synctest.Wait()
			return run(everybody, t.Context(), nothing)
		}, by("42"))
		if err != nil {
			t.Errorf("a call of all meanwhile = %v, want nil", err)
		}
		waits.Wait()
	})
}

// TestNestedCallsInFlight holds that a call within another of the same method, which lets one be in flight, is in the lock at once and is denied a place
// after its wait, and that both let go of all.
func TestNestedCallsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := inFlight(1)
		one.Wait = 3 * time.Second
		l := inMemory().limiter(t)
		g, locked := l.Guard(create(one, rules.Limit{Kind: rules.Lock, Wait: time.Minute})), l.Guard(create(rules.Limit{Kind: rules.Lock}))
		err := run(g, alice(), func(ctx context.Context) error {
			began := time.Now()
			wantBusy(t, run(g, ctx, nothing), "Create/concurrency")
			if took := time.Since(began); took != one.Wait {
				t.Errorf("denied after %v, want %v", took, one.Wait)
			}
			return run(locked, ctx, nothing)
		})
		if err != nil {
			t.Errorf("the lock alone = %v, want it to nest", err)
		}
		if err := run(g, alice(), nothing); err != nil {
			t.Errorf("afterwards: %v", err)
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
