package ratelimit_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/lock"
	"github.com/rlgen/rlgen/ratelimit/memstore"
	"github.com/rlgen/rlgen/ratelimit/ratelimittest"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// ends is an observer that remembers how calls ended.
type ends struct {
	recorder
	released [][]int
	errs     []error
}

func (o *ends) ObserveEnd(_ context.Context, e *ratelimit.End) {
	o.released = append(o.released, e.Released)
	o.errs = append(o.errs, e.Err)
}

func TestEndsAreToldOnce(t *testing.T) {
	rate := rules.Limit{Kind: rules.User, Rules: per(100, time.Minute)}
	exclusive := rules.Limit{Kind: rules.Lock}
	for _, test := range []struct {
		name   string
		limits []rules.Limit
		end    func(context.Context, ratelimit.Permit)
		want   [][]int
	}{
		{"by Done", []rules.Limit{exclusive, rate, inFlight(1)}, func(_ context.Context, p ratelimit.Permit) { p.Done(nil) }, [][]int{{0, 2}}},
		{"by GiveBack", []rules.Limit{rate, inFlight(1)}, func(ctx context.Context, p ratelimit.Permit) { _ = p.GiveBack(ctx) }, [][]int{{1}}},
		{"by both", []rules.Limit{inFlight(1)}, func(ctx context.Context, p ratelimit.Permit) { p.Done(nil); _ = p.GiveBack(ctx); p.Done(nil) }, [][]int{{0}}},
		{"holding nothing", []rules.Limit{rate}, func(_ context.Context, p ratelimit.Permit) { p.Done(nil) }, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				seen := new(ends)
				g := inMemory().limiter(t, ratelimit.WithObserver(seen)).Guard(create(test.limits...))
				ctx, permit, err := g.Hold(alice())
				if err != nil {
					t.Fatal(err)
				}
				if seen.released != nil {
					t.Errorf("told of %v before the call has ended", seen.released)
				}
				test.end(ctx, permit)
				if diff := cmp.Diff(test.want, seen.released); diff != "" {
					t.Errorf("released (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestEndsOfDeniedCallsAreNotTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := new(ends)
		g := inMemory().limiter(t, ratelimit.WithObserver(seen)).Guard(create(inFlight(2), rules.Limit{Kind: rules.Lock}))
		_, permit, err := g.Hold(alice())
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = g.Hold(alice()) // is let in flight, and then denied the lock
		wantBusy(t, err, "Create/lock")
		if seen.released != nil {
			t.Errorf("told of %v, want nothing of a call that was denied", seen.released)
		}
		permit.Done(nil)
		if len(seen.released) != 1 {
			t.Errorf("told of %v, want the one call that was allowed", seen.released)
		}
	})
}

func TestEndsThatFailAreTold(t *testing.T) {
	down := errors.New("the store is gone")
	seen := new(ends)
	s := &stuck{Store: memstore.New(), err: down}
	l := limiter(t, s, ratelimit.WithLocks(lock.NewMemory()), ratelimit.WithObserver(seen))
	g := l.Guard(create(rules.Limit{Kind: rules.User, Rules: per(5, time.Minute), Charge: rules.ChargeSuccess}))
	if err := run(g, alice(), fails); err == nil {
		t.Fatal("the call passed, want its own error")
	}
	if len(seen.errs) != 1 || !errors.Is(seen.errs[0], down) || len(seen.released[0]) != 0 {
		t.Errorf("told of %v and of %v, want one end that failed with %v", seen.released, seen.errs, down)
	}
}

// stuck is a store that takes nothing back.
type stuck struct {
	store.Store
	err error
}

func (s *stuck) GiveBack(context.Context, store.Receipt) error { return s.err }

func TestObserversOfDecisionsAloneAreNotToldOfEnds(t *testing.T) {
	seen := new(ratelimittest.Recorder)
	limiter, _ := ratelimittest.New(ratelimit.WithObserver(seen))
	if err := run(limiter.Guard(create(inFlight(1))), alice(), nothing); err != nil || seen.Allowed() != 1 {
		t.Errorf("a call = %v, with %d decisions, want one", err, seen.Allowed())
	}
}
