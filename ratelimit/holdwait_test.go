package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/lock"
	"github.com/rlgen/rlgen/ratelimit/memstore"
	"github.com/rlgen/rlgen/rules"
)

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
