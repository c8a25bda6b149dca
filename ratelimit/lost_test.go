package ratelimit_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/lock"
	"github.com/rlgen/rlgen/ratelimit/memstore"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

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

// What is limited in flight is divided by the instances that the store has counted while it decided, as rates are.
func TestHoldsAreSharedByThoseWhoAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fleetStore{brokenStore: working(), members: 4}
		locks := &brokenLocks{lock.NewMemory(), nil}
		var seen recorder
		g := limiter(t, s, silent, ratelimit.WithLocks(locks), ratelimit.WithObserver(&seen)).Guard(create(inFlight(8)))
		if err := run(g, alice(), nothing); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // the one who counts
		if n := s.attended(); n != 1 {
			t.Fatalf("the store was told %d times that the process is there, want once", n)
		}
		locks.err = errDown
		err := run(g, alice(), func(context.Context) error {
			return run(g, alice(), func(context.Context) error {
				wantBusy(t, run(g, alice(), nothing), "Create")
				return nil
			})
		})
		if err != nil {
			t.Errorf("two of eight in flight, as one of four = %v, want nil", err)
		}
		if l := seen.decisions[len(seen.decisions)-1].Limits[0]; l.Instances != 4 || l.Source != ratelimit.SourceLocal {
			t.Errorf("the decision says %+v, want that it is local, as one of 4", l)
		}
	})
}
