package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
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

// The token that a method finds is that of its own lock, and never that of the lock around it; which it is within nonetheless.
func TestTokenIsOfTheMethodsOwnLock(t *testing.T) {
	l := limiter(t, memstore.New(), ratelimit.WithLocks(lock.NewMemory()))
	outer := l.Guard(create(limits(t, "lock bucket=outer")...))
	own, without := l.Guard(create(limits(t, "lock bucket=own")...)), l.Guard(create(limits(t, "lock bucket=without mode=shadow")...))
	rates := l.Guard(create(limits(t, "user 10,1h")...))
	err := run(outer, alice(), func(ctx context.Context) error {
		token := lock.Token(ctx)
		is := func(what string, want bool) func(context.Context) error {
			return func(ctx context.Context) error {
				if got := lock.Token(ctx); got == 0 != want || got == token {
					t.Errorf("%s finds the token %d within %d, want its own, or 0 without a lock", what, got, token)
				}
				return run(outer, ctx, nothing)
			}
		}
		if err := run(rates, ctx, func(ctx context.Context) error {
			if got := lock.Token(ctx); got != token {
				t.Errorf("a method without a lock in its policy finds the token %d, want %d, of the lock around it", got, token)
			}
			return nil
		}); err != nil {
			return err
		}
		return errors.Join(run(own, ctx, is("a method with a lock", false)), run(without, ctx, is("a method whose lock is a shadow", true)))
	})
	if err != nil {
		t.Error(err)
	}
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
		l.Cost, l.Free = "n", rules.FreeAllow
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
