package locktest

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rlgen/rlgen/ratelimit/lock"
)

// testExclusion lets many work under one lock, some of whom try and some of whom wait.
func testExclusion(t *testing.T, b *Bench) {
	l := newLocker(t, b.Store)
	name := b.Prefix + "exclusion"
	var inside, sum, last atomic.Int64
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 20 {
				var hold *lock.Hold
				var err error
				if i%4 == 0 {
					for hold == nil { // overtakes nobody: others are served as soon as they wait
						if _, hold, err = l.TryLock(ctx, name); err != nil && !errors.Is(err, lock.ErrBusy) {
							t.Error(err)
							return
						}
						if hold == nil {
							_, hold, err = l.Lock(ctx, name)
						}
					}
				} else {
					_, hold, err = l.Lock(ctx, name)
				}
				if err != nil {
					t.Error(err)
					return
				}
				if n := inside.Add(1); n != 1 {
					t.Errorf("%d inside, want 1", n)
				}
				if hold.Token() <= last.Swap(hold.Token()) {
					t.Error("a token is not larger than the one before")
				}
				sum.Add(1)
				inside.Add(-1)
				if err := hold.Unlock(); err != nil {
					t.Errorf("Unlock: %v", err)
				}
			}
		})
	}
	wg.Wait()
	if sum.Load() != 160 {
		t.Errorf("%d times inside, want 160", sum.Load())
	}
}

// testCapacity lets many work under one semaphore.
func testCapacity(t *testing.T, b *Bench) {
	s := newSemaphore(t, b.Store, 5)
	name := b.Prefix + "capacity"
	var inside, most atomic.Int64
	var wg sync.WaitGroup
	for i := range 12 {
		cost := int64(i%3) + 1
		wg.Go(func() {
			for range 10 {
				_, p, err := s.AcquireN(ctx, name, cost)
				if err != nil {
					t.Error(err)
					return
				}
				n := inside.Add(cost)
				for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
				}
				inside.Add(-cost)
				if err := p.Release(); err != nil {
					t.Errorf("Release: %v", err)
				}
			}
		})
	}
	wg.Wait()
	if most.Load() > 5 {
		t.Errorf("%d inside, want at most 5", most.Load())
	}
}

// testManyWaiters lets many wait, of whom one gives up: all the others are served, one at a time, and nothing is left of any.
func testManyWaiters(t *testing.T, b *Bench) {
	waiters := cmp.Or(b.Waiters, 1000)
	l := newLocker(t, b.Store)
	c := lock.Claim{Name: b.Prefix + "many"}
	_, hold, err := l.Lock(ctx, c.Name)
	if err != nil {
		t.Fatal(err)
	}
	leaver, leave := context.WithCancel(ctx)
	defer leave()
	left := make(chan struct{})
	var inside, served atomic.Int64
	var wg sync.WaitGroup
	for i := range waiters {
		wg.Go(func() {
			if i == waiters/2 {
				defer close(left)
				if _, _, err := l.Lock(leaver, c.Name); !errors.Is(err, context.Canceled) {
					t.Errorf("Lock of who gives up = %v, want %v", err, context.Canceled)
				}
				return
			}
			_, hold, err := l.Lock(ctx, c.Name)
			if err != nil {
				t.Error(err)
				return
			}
			if n := inside.Add(1); n != 1 {
				t.Errorf("%d inside, want 1", n)
			}
			served.Add(1)
			inside.Add(-1)
			if err := hold.Unlock(); err != nil {
				t.Errorf("Unlock: %v", err)
			}
		})
	}
	b.awaits(t, c, waiters)
	leave()
	<-left
	b.awaits(t, c, waiters-1)
	if err := hold.Unlock(); err != nil {
		t.Error(err)
	}
	wg.Wait()
	if served.Load() != waiters-1 {
		t.Errorf("%d served, want %d", served.Load(), waiters-1)
	}
	b.awaits(t, c, 0)
	if s, err := b.Store.(lock.Peeker).Peek(ctx, c); err != nil || s.Cost != 0 {
		t.Errorf("Peek = %+v, %v, want nobody to hold it", s, err)
	}
}

// awaits returns once so many wait for c.
func (b *Bench) awaits(t *testing.T, c lock.Claim, waiting int64) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		s, err := b.Store.(lock.Peeker).Peek(ctx, c)
		if err != nil {
			t.Fatal(err)
		}
		if s.Waiting == waiting {
			return
		}
		<-tick.C
	}
}
