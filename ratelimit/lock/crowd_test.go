package lock_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rlgen/rlgen/ratelimit/lock"
	"github.com/rlgen/rlgen/ratelimit/store"
)

// moody is a store whose next acquisitions end as said.
type moody struct {
	*lock.Memory
	next []error
}

func (m *moody) Acquire(ctx context.Context, c lock.Claim) (lock.Answer, error) {
	if len(m.next) > 0 {
		err := m.next[0]
		m.next = m.next[1:]
		if err != nil {
			return lock.Answer{}, err
		}
	}
	return m.Memory.Acquire(ctx, c)
}

var away = &store.Error{Class: store.Unavailable, Err: errors.New("it is away")}

// TestCrowdIsBusy holds that a store which could not be asked because this process asks for too much has not failed: who tries finds it busy, and who waits goes
// on waiting.
func TestCrowdIsBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &moody{Memory: lock.NewMemory()}
		locks, err := lock.New(s, lock.WithWait(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		s.next = []error{lock.ErrCrowded}
		_, _, err = locks.TryLock(t.Context(), "it")
		var busy *lock.BusyError
		if !errors.As(err, &busy) || !busy.Crowded || !errors.Is(err, lock.ErrBusy) || !errors.Is(err, lock.ErrCrowded) {
			t.Errorf("TryLock = %v, want it busy and crowded", err)
		}
		s.next = []error{lock.ErrCrowded, lock.ErrCrowded, lock.ErrCrowded}
		ctx, hold, err := locks.Lock(t.Context(), "it")
		if err != nil {
			t.Fatalf("Lock = %v, want it to wait until the store is asked", err)
		}
		s.next = []error{lock.ErrCrowded}
		if _, _, err := locks.Lock(ctx, "it"); !errors.Is(err, lock.ErrCrowded) || ctx.Err() != nil {
			t.Errorf("nested Lock = %v, and then the context is %v, want it crowded and still held", err, ctx.Err())
		}
		hold.Unlock()
		s.next = slicesOf(lock.ErrCrowded, 1000)
		began := time.Now()
		_, _, err = locks.LockWithin(t.Context(), "it", 5*time.Second)
		if !errors.Is(err, lock.ErrCrowded) || time.Since(began) != 5*time.Second {
			t.Errorf("LockWithin = %v after %v, want it crowded after its wait", err, time.Since(began))
		}
	})
}

func slicesOf(err error, n int) []error {
	all := make([]error, n)
	for i := range all {
		all[i] = err
	}
	return all
}

// TestWaiterOutlastsABlip holds that who waits goes on waiting where the store is away for less than it keeps his place, in his place; and fails, with the
// store's error, where it is away for longer, or beyond his wait.
func TestWaiterOutlastsABlip(t *testing.T) {
	for _, test := range []struct {
		name       string
		away, wait time.Duration
		want       error
		after      time.Duration // at the latest
	}{
		{"a blip", 2 * time.Second, time.Minute, nil, 8 * time.Second},
		{"an outage", 10 * time.Second, time.Minute, away, lock.WaiterLife + 2*time.Second},
		{"a short wait", 10 * time.Second, 2 * time.Second, away, 2 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &outage{Memory: lock.NewMemory()}
				locks, err := lock.New(s, lock.WithWait(test.wait))
				if err != nil {
					t.Fatal(err)
				}
				_, hold, err := locks.Lock(t.Context(), "it")
				if err != nil {
					t.Fatal(err)
				}
				time.AfterFunc(time.Second/2, func() {
					until := time.Now().Add(test.away)
					s.until.Store(&until)
				})
				time.AfterFunc(5*time.Second, func() { hold.Unlock() })
				began := time.Now()
				_, next, err := locks.Lock(t.Context(), "it")
				if !errors.Is(err, test.want) || time.Since(began) > test.after {
					t.Errorf("Lock = %v after %v, want %v after %v at most", err, time.Since(began), test.want, test.after)
				}
				if err == nil {
					next.Unlock()
				}
				time.Sleep(10 * time.Second)
			})
		})
	}
}

// outage is a store that does not decide until a time.
type outage struct {
	*lock.Memory
	until atomic.Pointer[time.Time]
}

func (o *outage) Acquire(ctx context.Context, c lock.Claim) (lock.Answer, error) {
	if until := o.until.Load(); until != nil && time.Now().Before(*until) {
		return lock.Answer{}, away
	}
	return o.Memory.Acquire(ctx, c)
}

// TestSlowStoreGivesNoLostHold holds that a hold whose lease is over before its holder hears of it is no hold, and is let go.
func TestSlowStoreGivesNoLostHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slow{Memory: lock.NewMemory(), by: 30 * time.Millisecond}
		locks, err := lock.New(s, lock.WithLease(20*time.Millisecond))
		if err != nil {
			t.Fatal(err)
		}
		ctx, hold, err := locks.Lock(t.Context(), "it")
		if !errors.Is(err, lock.ErrLost) || hold != nil || ctx != t.Context() {
			t.Errorf("Lock = %v, want %v and no hold", err, lock.ErrLost)
		}
		s.by = 0
		_, hold, err = locks.TryLock(t.Context(), "it")
		if err != nil {
			t.Fatalf("Lock afterwards = %v, want it free", err)
		}
		hold.Unlock()
	})
}

// cut is a store that, after its first answer, fails just when the asking's context is to end, as a client does whose dialing the context cuts.
type cut struct {
	*lock.Memory
	asked atomic.Int64
}

func (c *cut) Acquire(ctx context.Context, claim lock.Claim) (lock.Answer, error) {
	if deadline, ok := ctx.Deadline(); ok && c.asked.Add(1) > 1 {
		for time.Now().Before(deadline) {
			time.Sleep(time.Until(deadline))
		}
		return lock.Answer{}, &store.Error{Class: store.Unavailable, Err: errors.New("dial tcp: i/o timeout")}
	}
	return c.Memory.Acquire(ctx, claim)
}

// TestEndOfTheWaitCutsAnAsking holds that a wait which ends while it asks has ended in vain, and that nobody is told of an asking that failed only because the wait did.
func TestEndOfTheWaitCutsAnAsking(t *testing.T) {
	for i := range 20 {
		synctest.Test(t, func(t *testing.T) {
			s := &cut{Memory: lock.NewMemory()}
			locks, err := lock.New(s, lock.WithLease(time.Minute))
			if err != nil {
				t.Fatal(err)
			}
			_, hold, err := locks.Lock(t.Context(), "it")
			if err != nil {
				t.Fatal(err)
			}
			wait := 10*time.Second + time.Duration(i)
			_, _, err = locks.LockWithin(t.Context(), "it", wait)
			if busy := (*lock.BusyError)(nil); !errors.As(err, &busy) || busy.Crowded || busy.RetryAfter == 0 {
				t.Errorf("LockWithin(%v) = %v, want what the last answer said: who has it keeps it for a while", wait, err)
			}
			hold.Unlock()
		})
	}
}

// slow is a store whose answers take time.
type slow struct {
	*lock.Memory
	by time.Duration
}

func (s *slow) Acquire(ctx context.Context, c lock.Claim) (lock.Answer, error) {
	a, err := s.Memory.Acquire(ctx, c)
	time.Sleep(s.by)
	return a, err
}

// stuck is a store of which renewals are not answered until it is told so.
type stuck struct {
	*lock.Memory
	renewing chan struct{}
	answer   chan struct{}
}

func (s *stuck) Renew(ctx context.Context, c lock.Claim) (lock.Answer, error) {
	s.renewing <- struct{}{}
	select {
	case <-s.answer:
	case <-time.After(time.Minute):
	}
	return s.Memory.Renew(ctx, c)
}

// TestRenewalIsNotWaitedFor holds that what nests does not wait for a Refresh, that Unlock releases at once though it waits for the Refresh to end, and that
// this finds the hold let go, not lost.
func TestRenewalIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stuck{lock.NewMemory(), make(chan struct{}), make(chan struct{})}
		locks, err := lock.New(s, lock.WithLease(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		ctx, hold, err := locks.Lock(t.Context(), "it")
		if err != nil {
			t.Fatal(err)
		}
		refreshed, unlocked := make(chan error, 1), make(chan error, 1)
		go func() { refreshed <- hold.Refresh(t.Context()) }()
		<-s.renewing
		began := time.Now()
		_, nested, err := locks.TryLock(ctx, "it")
		if err != nil || time.Since(began) != 0 {
			t.Fatalf("TryLock beside a Refresh = %v after %v, want nil at once", err, time.Since(began))
		}
		if err := nested.Unlock(); err != nil {
			t.Error(err)
		}
		go func() { unlocked <- hold.Unlock() }()
		synctest.Wait()
		if _, other, err := locks.TryLock(t.Context(), "it"); err != nil {
			t.Errorf("another's while Unlock waits for the Refresh = %v, want nil", err)
		} else {
			defer other.Unlock()
		}
		select {
		case <-unlocked:
			t.Error("Unlock returns before the Refresh does")
		default:
		}
		close(s.answer)
		if err := <-unlocked; err != nil {
			t.Errorf("Unlock = %v, want nil", err)
		}
		if err := <-refreshed; !errors.Is(err, lock.ErrNotHeld) {
			t.Errorf("Refresh of what was let go meanwhile = %v, want %v", err, lock.ErrNotHeld)
		}
	})
}

// byValue is a store of which two cannot be compared.
type byValue struct {
	*lock.Memory
	_ []int
}

func TestStoreIsComparable(t *testing.T) {
	if _, err := lock.New(byValue{Memory: lock.NewMemory()}); err == nil || err.Error() != "lock: store is a lock_test.byValue, of which two cannot be compared, want a pointer to one" {
		t.Errorf("New = %v, want it refused", err)
	}
	if _, err := lock.New(&byValue{Memory: lock.NewMemory()}); err != nil {
		t.Errorf("New of a pointer = %v, want nil", err)
	}
}

// TestLimitIsRaisedForWhoWaits holds that a limit which changes is that of those who wait already, the first in the queue among them.
func TestLimitIsRaisedForWhoWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var limit atomic.Int64
		sem, err := lock.NewSemaphore(lock.NewMemory(), 1, lock.WithLimit(limit.Load))
		if err != nil {
			t.Fatal(err)
		}
		_, first, err := sem.Acquire(t.Context(), "it")
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(10*time.Second, func() { limit.Store(2) })
		began := time.Now()
		_, second, err := sem.Acquire(t.Context(), "it")
		if waited := time.Since(began); err != nil || waited < 10*time.Second || waited > 11*time.Second {
			t.Errorf("Acquire = %v after %v, want nil within a second of the raise", err, waited)
		}
		if _, _, err := sem.TryAcquire(t.Context(), "it", 1); !errors.Is(err, lock.ErrBusy) {
			t.Errorf("a third = %v, want %v", err, lock.ErrBusy)
		}
		limit.Store(-1) // which is none: the limit is the one that the semaphore was made with
		if _, _, err := sem.TryAcquire(t.Context(), "it", 2); !errors.Is(err, lock.ErrCost) {
			t.Errorf("two at once = %v, want %v", err, lock.ErrCost)
		}
		first.Release()
		second.Release()
	})
}

// roll counts who stands in its queue.
type roll struct {
	*lock.Memory
	standing atomic.Int32
}

func (s *roll) Join(ctx context.Context) (lock.Waiter, error) {
	w, err := s.Memory.Join(ctx)
	leave := w.Close
	s.standing.Add(1)
	w.Close = func(c lock.Claim, met bool) {
		leave(c, met)
		s.standing.Add(-1)
	}
	return w, err
}

// TestPanicLeavesTheQueue holds that a waiter does not stay in the store's queue whose limit panics when it is asked for.
func TestPanicLeavesTheQueue(t *testing.T) {
	s := &roll{Memory: lock.NewMemory()}
	sem, err := lock.NewSemaphore(s, 1, lock.WithLimit(func() int64 {
		if s.standing.Load() > 0 {
			panic("no limit is known")
		}
		return 1
	}))
	if err != nil {
		t.Fatal(err)
	}
	_, permit, err := sem.Acquire(t.Context(), "it")
	if err != nil {
		t.Fatal(err)
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("Acquire returns, want the panic of its limit")
			}
		}()
		sem.Acquire(t.Context(), "it")
	}()
	if n := s.standing.Load(); n != 0 {
		t.Errorf("%d stand in the queue, want nobody", n)
	}
	if err := permit.Release(); err != nil {
		t.Error(err)
	}
}
