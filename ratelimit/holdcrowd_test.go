package ratelimit_test

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/lock"
	"github.com/rlgen/rlgen/ratelimit/memstore"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// refusing is a store whose acquisitions fail while it is told to.
type refusing struct {
	*lock.Memory
	err atomic.Pointer[store.Error]
}

func (r *refusing) Acquire(ctx context.Context, c lock.Claim) (lock.Answer, error) {
	if err := r.err.Load(); err != nil {
		return lock.Answer{}, err
	}
	return r.Memory.Acquire(ctx, c)
}

// crowded is a store that is asked for too much.
type crowded struct{ *lock.Memory }

func (crowded) Acquire(context.Context, lock.Claim) (lock.Answer, error) {
	return lock.Answer{}, lock.ErrCrowded
}

// TestCrowdIsNotLetIn holds that a call is denied, and not let in as one of a store that is away, where it is its own process that asks the store for too much.
func TestCrowdIsNotLetIn(t *testing.T) {
	for _, wait := range []time.Duration{0, time.Second} {
		synctest.Test(t, func(t *testing.T) {
			g := stores{memstore.New(), crowded{lock.NewMemory()}}.guard(t, rules.Limit{Kind: rules.Lock, OnFail: rules.FailLocal, Wait: wait})
			began := time.Now()
			err := run(g, t.Context(), func(context.Context) error { t.Error("the method runs"); return nil })
			var exceeded *ratelimit.ExceededError
			if !errors.As(err, &exceeded) || !exceeded.Crowded || time.Since(began) != wait {
				t.Errorf("Hold = %v after %v, want it denied as crowded after %v", err, time.Since(began), wait)
			}
		})
	}
}

// patient is a store that is asked for too much, which it says after the caller's patience, or a second.
type patient struct{ *lock.Memory }

func (patient) Acquire(ctx context.Context, c lock.Claim) (lock.Answer, error) {
	select {
	case <-time.After(cmp.Or(c.Patience, time.Second)):
		return lock.Answer{}, lock.ErrCrowded
	case <-ctx.Done():
		return lock.Answer{}, store.Ended(ctx)
	}
}

// TestCrowdTakesNoLongerThanTheWait holds that a call of a short wait is denied after it, where its process crowds.
func TestCrowdTakesNoLongerThanTheWait(t *testing.T) {
	for _, wait := range []time.Duration{0, time.Millisecond, 100 * time.Millisecond, 10 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			limits := []rules.Limit{{Kind: rules.Lock, Wait: wait}, inFlight(2)}
			limits[1].Wait = wait
			for _, limit := range limits {
				g := stores{memstore.New(), patient{lock.NewMemory()}}.guard(t, limit)
				began := time.Now()
				err := run(g, alice(), nothing)
				var exceeded *ratelimit.ExceededError
				if took := time.Since(began); !errors.As(err, &exceeded) || !exceeded.Crowded || took != cmp.Or(wait, time.Second) {
					t.Errorf("Hold with wait=%v = %v after %v, want it denied as crowded after its wait", wait, err, took)
				}
			}
		})
	}
}

// TestWaitIsTheWholeWait holds that a call whose store goes away while it waits for a lock, and which then waits in this process alone, waits no longer in all than
// its wait.
func TestWaitIsTheWholeWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locks := &refusing{Memory: lock.NewMemory()}
		l := stores{memstore.New(), locks}.limiter(t, ratelimit.WithLogger(slog.New(slog.DiscardHandler)))
		g := l.Guard(create(rules.Limit{Kind: rules.Lock, OnFail: rules.FailLocal, Wait: 5 * time.Second}))
		_, first, err := g.Hold(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var waiter sync.WaitGroup
		waiter.Go(func() {
			began := time.Now()
			if err := run(g, t.Context(), nothing); !errors.Is(err, lock.ErrBusy) || time.Since(began) != 5*time.Second {
				t.Errorf("Hold = %v after %v, want %v after 5s", err, time.Since(began), lock.ErrBusy)
			}
		})
		time.Sleep(time.Second / 4)
		locks.err.Store(&store.Error{Class: store.Unavailable, Err: errors.New("it is away")})
		time.Sleep(time.Second) // whoever comes before the waiter has noticed waits with him
		_, local, err := g.Hold(t.Context())
		if err != nil {
			t.Fatalf("another, of this process alone = %v, want nil", err)
		}
		waiter.Wait()
		local.Done(nil)
		first.Done(nil)
	})
}

// TestOverrideIsForWhoWaits holds that a count that is raised lets those in who wait already, and one that is taken back does not.
func TestOverrideIsForWhoWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := inMemory().limiter(t, ratelimit.WithLogger(slog.New(slog.DiscardHandler)))
		limit := inFlight(1)
		limit.Wait = time.Minute
		g := l.Guard(create(limit))
		_, first, err := g.Hold(alice())
		if err != nil {
			t.Fatal(err)
		}
		var waiter sync.WaitGroup
		waiter.Go(func() {
			began := time.Now()
			if err := run(g, alice(), nothing); err != nil || time.Since(began) > 11*time.Second {
				t.Errorf("Hold = %v after %v, want nil within a second of the override", err, time.Since(began))
			}
		})
		time.Sleep(10 * time.Second)
		if err := l.Override(t.Context(), []rules.Override{{Name: "Create", Text: "2"}}); err != nil {
			t.Fatal(err)
		}
		waiter.Wait()
		if err := l.Override(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(alice(), 10*time.Second)
		defer cancel()
		if err := run(g, ctx, nothing); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Hold under the count as written = %v, want it to wait until its context ends", err)
		}
		first.Done(nil)
	})
}
