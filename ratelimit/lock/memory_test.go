package lock_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rlgen/rlgen/ratelimit/lock"
	"github.com/rlgen/rlgen/ratelimit/lock/locktest"
)

func TestMemory(t *testing.T) {
	locktest.Run(t, func(t *testing.T) *locktest.Bench {
		start := time.Now()
		var passed atomic.Int64
		m := lock.NewMemory(lock.WithClock(func() time.Time { return start.Add(time.Since(start) + time.Duration(passed.Load())) }))
		return &locktest.Bench{
			Store: m,
			Pass:  func(_ testing.TB, _ string, d time.Duration) { passed.Add(int64(d)) },
		}
	})
}

// The shortest lease is renewed in time for as long as it is held, and no longer.
func TestShortestLeaseIsRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locks, err := lock.New(lock.NewMemory(), lock.WithLease(lock.MinLease))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		held, hold, err := locks.Lock(ctx, "it")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		if left, err := hold.TTL(ctx); err != nil || left > lock.MinLease || held.Err() != nil {
			t.Errorf("after 10s: %v left, %v, %v, want some of %v", left, err, context.Cause(held), lock.MinLease)
		}
		cancel()
		began := time.Now()
		if _, _, err := locks.Lock(t.Context(), "it"); err != nil || time.Since(began) > lock.MinLease+time.Millisecond {
			t.Errorf("Lock of another = %v after %v, want it a lease after the end of the first's context", err, time.Since(began))
		}
	})
}

// asked counts how often its store is asked.
type asked struct {
	*lock.Memory
	times int
}

func (a *asked) Acquire(ctx context.Context, c lock.Claim) (lock.Answer, error) {
	a.times++
	return a.Memory.Acquire(ctx, c)
}

// Who waits alone is not woken by its own asking.
func TestMemoryWaiterSleeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &asked{Memory: lock.NewMemory()}
		locks, err := lock.New(store, lock.WithWait(10*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		_, hold, err := locks.Lock(t.Context(), "it")
		if err != nil {
			t.Fatal(err)
		}
		defer hold.Unlock()
		if _, _, err := locks.Lock(t.Context(), "it"); !errors.Is(err, lock.ErrBusy) {
			t.Errorf("Lock = %v, want ErrBusy", err)
		}
		if store.times > 30 {
			t.Errorf("the store was asked %d times in 10s, want about two times a second at most", store.times)
		}
	})
}

// late is a store whose first answer takes longer than a lease.
type late struct{ asked }

func (l *late) Acquire(ctx context.Context, c lock.Claim) (lock.Answer, error) {
	a, err := l.asked.Acquire(ctx, c)
	if l.times == 1 {
		time.Sleep(2 * c.Lease)
	}
	return a, err
}

// Who learns of his hold when its lease is over is given it anew, and does not begin with what is lost.
func TestLateAnswerIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locks, err := lock.New(&late{asked{Memory: lock.NewMemory()}}, lock.WithLease(time.Second))
		if err != nil {
			t.Fatal(err)
		}
		ctx, hold, err := locks.TryLock(t.Context(), "it")
		if err != nil {
			t.Fatal(err)
		}
		if ctx.Err() != nil || hold.Valid() <= 0 {
			t.Errorf("held for %v, %v, want a lease", hold.Valid(), context.Cause(ctx))
		}
		if err := hold.Unlock(); err != nil {
			t.Error(err)
		}
	})
}
