package lock_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rlgen/rlgen/ratelimit/lock"
	"github.com/rlgen/rlgen/ratelimit/store"
)

// unheard is a store that renewals do not reach.
type unheard struct{ *lock.Memory }

func (unheard) Renew(context.Context, lock.Claim) (lock.Answer, error) {
	return lock.Answer{}, &store.Error{Class: store.Unavailable, Err: errors.New("it is away")}
}

// Holds that nest are lost together, whether anybody waits for the end of their contexts or not.
func TestNestedHoldsAreLostTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locks, err := lock.New(unheard{lock.NewMemory()}, lock.WithLease(time.Second))
		if err != nil {
			t.Fatal(err)
		}
		outer, first, err := locks.Lock(t.Context(), "it")
		if err != nil {
			t.Fatal(err)
		}
		inner, second, err := locks.Lock(outer, "it")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		for name, ctx := range map[string]context.Context{"outer": outer, "inner": inner} {
			if cause := context.Cause(ctx); !errors.Is(cause, lock.ErrLost) {
				t.Errorf("cause of the %s hold's end = %v, want %v", name, cause, lock.ErrLost)
			}
		}
		for _, h := range []*lock.Hold{second, first} {
			if err := h.Unlock(); !errors.Is(err, lock.ErrLost) {
				t.Errorf("Unlock = %v, want %v", err, lock.ErrLost)
			}
		}
	})
}

// Whoever looks at a lost hold's context, or asks it to tell of its end, at the very instant at which it is lost, or lets go of it then, goes on.
func TestManyLookAtALostHold(t *testing.T) {
	for range 50 {
		synctest.Test(t, func(t *testing.T) {
			locks, err := lock.New(unheard{lock.NewMemory()}, lock.WithLease(time.Second))
			if err != nil {
				t.Fatal(err)
			}
			ctx, name := t.Context(), "it"
			var all sync.WaitGroup
			for i := range 6 { // three deep in each of two, in turn
				inner, hold, err := locks.Lock(ctx, name[i%2:])
				if err != nil {
					t.Fatal(err)
				}
				ctx = inner
				for range 2 {
					all.Go(func() { <-inner.Done() })
				}
				all.Go(func() {
					time.Sleep(time.Second)
					if inner.Err() == nil {
						t.Error("the context is not done when the lease has ended")
					}
					if err := hold.Unlock(); !errors.Is(err, lock.ErrLost) {
						t.Errorf("Unlock = %v, want %v", err, lock.ErrLost)
					}
				})
			}
			all.Wait()
		})
	}
}

// A hold that nests with a context of its own is renewed for as long as that lasts, whatever has become of the one around it, and says why it is not
// renewed any more.
func TestDetachedHoldIsRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const lease = time.Second
		locks, err := lock.New(lock.NewMemory(), lock.WithLease(lease))
		if err != nil {
			t.Fatal(err)
		}
		request, end := context.WithCancel(t.Context())
		outer, hold, err := locks.Lock(request, "it")
		if err != nil {
			t.Fatal(err)
		}
		work, endWork := context.WithCancel(context.WithoutCancel(outer))
		inner, nested, err := locks.Lock(work, "it")
		if err != nil {
			t.Fatal(err)
		}
		end()
		if err := hold.Unlock(); err != nil {
			t.Errorf("Unlock = %v, want nil", err)
		}
		time.Sleep(10 * lease)
		if err := inner.Err(); err != nil || nested.Valid() <= 0 {
			t.Errorf("after ten leases its context is %v, and it is valid for %v, want it held", err, nested.Valid())
		}
		endWork()
		time.Sleep(2 * lease)
		if err := nested.Unlock(); !errors.Is(err, lock.ErrLost) || !strings.Contains(err.Error(), "context that it was acquired with is done") {
			t.Errorf("Unlock after its context and two leases = %v, want %v, and that for the context", err, lock.ErrLost)
		}
	})
}

// Whoever goes on with a context that is detached from a hold's, once that was let go, holds nothing and locks as anybody does, whether it was lost before or not.
func TestDetachedContextOfAnEndedHold(t *testing.T) {
	for _, lost := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := &renewals{Memory: lock.NewMemory(), heard: !lost}
			locks, err := lock.New(s, lock.WithLease(time.Second))
			if err != nil {
				t.Fatal(err)
			}
			ctx, hold, err := locks.Lock(t.Context(), "it")
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Second)
			detached := context.WithoutCancel(ctx)
			if lost {
				if _, _, err := locks.TryLock(detached, "it"); !errors.Is(err, lock.ErrLost) {
					t.Errorf("Lock within a lost hold = %v, want %v", err, lock.ErrLost)
				}
			}
			if err := hold.Unlock(); errors.Is(err, lock.ErrLost) != lost {
				t.Errorf("Unlock = %v, want it lost: %t", err, lost)
			}
			_, next, err := locks.TryLock(detached, "it")
			if err != nil {
				t.Fatalf("Lock after the hold of its context = %v, want nil", err)
			}
			if _, _, err := locks.TryLock(t.Context(), "it"); !errors.Is(err, lock.ErrBusy) {
				t.Errorf("another's = %v, want %v", err, lock.ErrBusy)
			}
			if err := next.Unlock(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A hold that is not renewed because it has lasted for long enough says so.
func TestLongestHoldSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locks, err := lock.New(lock.NewMemory(), lock.WithLease(time.Second), lock.WithMaxHold(5*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		ctx, hold, err := locks.Lock(t.Context(), "it")
		if err != nil {
			t.Fatal(err)
		}
		<-ctx.Done()
		if err := hold.Unlock(); !errors.Is(err, lock.ErrLost) || !strings.Contains(err.Error(), "held for longer than it is renewed") {
			t.Errorf("Unlock = %v, want %v, and that for its length", err, lock.ErrLost)
		}
	})
}

// renewals counts how often it is asked to renew, and does so once it is told to.
type renewals struct {
	*lock.Memory
	asked int
	heard bool
}

func (r *renewals) Renew(ctx context.Context, c lock.Claim) (lock.Answer, error) {
	r.asked++
	if r.heard {
		return r.Memory.Renew(ctx, c)
	}
	return unheard{}.Renew(ctx, c)
}

// A hold that has ended is not valid any more, and is not prolonged by its late owner: neither one that was let go, nor one that is lost.
func TestEndedHoldIsNotProlonged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &renewals{Memory: lock.NewMemory()}
		locks, err := lock.New(s, lock.WithLease(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		ctx, hold, err := locks.Lock(t.Context(), "it")
		if err != nil {
			t.Fatal(err)
		}
		_, nested, err := locks.Lock(ctx, "it")
		if err != nil {
			t.Fatal(err)
		}
		if err := nested.Unlock(); err != nil || nested.Valid() > 0 || hold.Valid() <= 0 {
			t.Errorf("Unlock = %v, and the nested hold is valid for %v, the outer one for %v, want the outer one alone", err, nested.Valid(), hold.Valid())
		}
		<-ctx.Done()
		s.asked, s.heard = 0, true
		if err := hold.Refresh(t.Context()); !errors.Is(err, lock.ErrLost) || s.asked != 0 || hold.Valid() > 0 {
			t.Errorf("Refresh of a lost hold = %v, which asks %d times and leaves it valid for %v, want %v, and neither", err, s.asked, hold.Valid(), lock.ErrLost)
		}
		if err := hold.Unlock(); !errors.Is(err, lock.ErrLost) || hold.Valid() > 0 {
			t.Errorf("Unlock = %v, and then valid for %v, want %v", err, hold.Valid(), lock.ErrLost)
		}
	})
}
