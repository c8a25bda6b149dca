package lock_test

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rlgen/rlgen/ratelimit/lock"
	"github.com/rlgen/rlgen/ratelimit/store"
)

// recorder is a store that keeps the claims that it was asked to meet.
type recorder struct {
	*lock.Memory
	claims []lock.Claim
}

func (r *recorder) Acquire(ctx context.Context, c lock.Claim) (lock.Answer, error) {
	r.claims = append(r.claims, c)
	return r.Memory.Acquire(ctx, c)
}

// last is the latest claim.
func (r *recorder) last() lock.Claim { return r.claims[len(r.claims)-1] }

// patient is a store that is asked for too much, which it says after the caller's patience, or a minute.
type patient struct{ *lock.Memory }

func (patient) Acquire(ctx context.Context, c lock.Claim) (lock.Answer, error) {
	select {
	case <-time.After(cmp.Or(c.Patience, time.Minute)):
		return lock.Answer{}, lock.ErrCrowded
	case <-ctx.Done():
		return lock.Answer{}, store.Ended(ctx)
	}
}

// TestPatience holds that what waits for something waits no longer for its turn to ask, and what does not wait as long as it is to.
func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locks, err := lock.New(patient{lock.NewMemory()}, lock.WithPatience(5*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		for wait, want := range map[time.Duration]time.Duration{0: 5 * time.Second, time.Millisecond: time.Millisecond, 20 * time.Second: 20 * time.Second} {
			began := time.Now()
			if _, _, err := locks.LockWithin(t.Context(), "it", wait); !errors.Is(err, lock.ErrCrowded) || time.Since(began) != want {
				t.Errorf("LockWithin %v = %v after %v, want it crowded after %v", wait, err, time.Since(began), want)
			}
		}
		if _, err := lock.New(lock.NewMemory(), lock.WithPatience(0)); err == nil || err.Error() != "lock: patience 0s, want more than 0" {
			t.Errorf("New with no patience = %v, want it refused", err)
		}
	})
}

// TestHolderIsNext holds that what is asked with the context of a lock or of a permit goes past others of the process, until that is let go.
func TestHolderIsNext(t *testing.T) {
	s := &recorder{Memory: lock.NewMemory()}
	locks, err := lock.New(s, lock.WithLease(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	sem, err := lock.NewSemaphore(s, 10, lock.WithLease(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	ask := func(ctx context.Context, want bool) {
		t.Helper()
		_, hold, err := locks.TryLock(ctx, "another")
		if err != nil {
			t.Fatal(err)
		}
		hold.Unlock()
		if got := s.last().Next; got != want {
			t.Errorf("the claim is next: %t, want %t", got, want)
		}
	}
	ask(t.Context(), false)
	outer, hold, err := locks.Lock(t.Context(), "it")
	if err != nil {
		t.Fatal(err)
	}
	inner, permit, err := sem.Acquire(outer, "it")
	if err != nil {
		t.Fatal(err)
	}
	ask(context.WithoutCancel(outer), true)
	ask(context.WithoutCancel(inner), true)
	permit.Release()
	ask(context.WithoutCancel(inner), true)
	hold.Unlock()
	ask(context.WithoutCancel(inner), false)
}

// TestWaiterIsNext holds that a waiter goes past others of its process once it is woken, until it has asked, and for as long as the store says that it is the first in
// the queue; and that a waking is not spent on an asking that the store had no room for.
func TestWaiterIsNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &usher{Memory: lock.NewMemory(), woken: make(chan struct{}, 1)}
		locks, err := lock.New(s)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go locks.Lock(ctx, "it")
		wait := func(after string, want ...bool) {
			t.Helper()
			time.Sleep(2 * time.Second)
			synctest.Wait()
			s.mu.Lock()
			defer s.mu.Unlock()
			if len(s.next) < len(want) || !slices.Equal(s.next[:len(want)], want) {
				t.Errorf("%s, it asked as next: %v, want first %v", after, s.next, want)
			}
			s.next = nil
		}
		wait("at first", false, false)
		s.woken <- struct{}{}
		wait("once woken", true, false)
		s.say(lock.Answer{}, lock.ErrCrowded)
		wait("where the store had no room", false, false)
		s.woken <- struct{}{}
		wait("once woken there", true, true, true)
		s.say(lock.Answer{}, nil)
		wait("once it was answered", true, false)
		s.say(lock.Answer{First: true}, nil)
		wait("once it was told that it is first", false, true)
		cancel()
		synctest.Wait()
	})
}

// usher is a store that answers as it is told, and keeps how it was asked.
type usher struct {
	*lock.Memory
	woken chan struct{}

	mu     sync.Mutex
	answer lock.Answer
	err    error
	next   []bool
}

func (u *usher) say(a lock.Answer, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.answer, u.err = a, err
}

func (u *usher) Join(context.Context) (lock.Waiter, error) {
	return lock.Waiter{ID: "1", Woken: u.woken, Close: func(lock.Claim, bool) {}}, nil
}

func (u *usher) Acquire(_ context.Context, c lock.Claim) (lock.Answer, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.next = append(u.next, c.Next)
	return u.answer, u.err
}
