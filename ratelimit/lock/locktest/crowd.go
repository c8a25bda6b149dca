package locktest

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"

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

// stand makes waiters with these names stand in c's queue, one after the other.
