package locktest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/rlgen/rlgen/ratelimit/lock"
)

// testLowerLimit holds that a smaller limit ends no hold, and gives out none until there is room.
func testLowerLimit(t *testing.T, b *Bench) {
	c := lock.Claim{Name: b.Prefix + "lower", Lease: unit, Limit: 3, Cost: 1}
	for _, id := range []string{"a:0", "b:0", "c:0"} {
		c.ID = id
		mustAcquire(t, b, c, true)
	}
	c.Limit = 2
	for _, id := range []string{"a:0", "b:0", "c:0"} {
		c.ID = id
		if a, err := b.Store.Renew(ctx, c); err != nil || !a.Held {
			t.Errorf("Renew(%s) under a smaller limit = %+v, %v, want it held", id, a, err)
		}
	}
	mustRelease(t, b, c)
	c.ID = "d:0"
	mustAcquire(t, b, c, false)
	c.ID = "b:0"
	mustRelease(t, b, c)
	c.ID = "d:0"
	mustAcquire(t, b, c, true)
}

// testReentrancy nests holds and ends them in another order.
func testReentrancy(t *testing.T, b *Bench) {
	l, other := newLocker(t, b.Store), newLocker(t, b.Store, lock.WithWait(0))
	name := b.Prefix + "reentrancy"
	outer, first, err := l.Lock(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	var holds []*lock.Hold
	inner := outer
	for i := range 5 {
		var h *lock.Hold
		locker := l
		if i%2 == 1 {
			locker = other
		}
		if inner, h, err = locker.Lock(inner, name); err != nil {
			t.Fatal(err)
		}
		if lock.Token(inner) != first.Token() {
			t.Errorf("nested token = %d, want %d", lock.Token(inner), first.Token())
		}
		holds = append(holds, h)
	}
	for _, h := range append(holds[2:], holds[0], first, holds[1]) {
		if _, _, err := other.Lock(ctx, name); !errors.Is(err, lock.ErrBusy) {
			t.Errorf("Lock of another while %d nest = %v, want %v", len(holds), err, lock.ErrBusy)
		}
		if err := h.Unlock(); err != nil {
			t.Errorf("Unlock = %v, want nil", err)
		}
		if err := h.Unlock(); !errors.Is(err, lock.ErrNotHeld) {
			t.Errorf("second Unlock = %v, want %v", err, lock.ErrNotHeld)
		}
	}
	if cause := context.Cause(outer); !errors.Is(cause, lock.ErrReleased) {
		t.Errorf("cause of the context after Unlock = %v, want %v", cause, lock.ErrReleased)
	}
	_, again, err := other.Lock(context.WithoutCancel(inner), name)
	if err != nil {
		t.Fatalf("Lock after all have let go = %v, want nil", err)
	}
	if again.Token() <= first.Token() {
		t.Errorf("next token = %d, want more than %d", again.Token(), first.Token())
	}
	again.Unlock()
}

// testSharedContext has many goroutines lock again what their common context holds: none waits, each counts as a hold of the one owner, and the lock is
// free when the last of them has let go, whichever that is.
func testSharedContext(t *testing.T, b *Bench) {
	const sharers = 20
	l, other := newLocker(t, b.Store), newLocker(t, b.Store, lock.WithWait(0))
	c := lock.Claim{Name: b.Prefix + "shared"}
	shared, first, err := l.Lock(ctx, c.Name)
	if err != nil {
		t.Fatal(err)
	}
	holds := make([]*lock.Hold, sharers)
	each := func(do func(i int)) {
		var wg sync.WaitGroup
		for i := range holds {
			wg.Go(func() { do(i) })
		}
		wg.Wait()
	}
	each(func(i int) {
		inner, hold, err := l.Lock(shared, c.Name)
		if err != nil {
			t.Errorf("Lock by a goroutine that shares the context = %v, want nil", err)
			return
		}
		if holds[i] = hold; lock.Token(inner) != first.Token() {
			t.Errorf("its token = %d, want %d", lock.Token(inner), first.Token())
		}
	})
	if t.Failed() {
		return
	}
	wantHolds := func(want int) {
		t.Helper()
		if s, err := b.Store.(lock.Peeker).Peek(ctx, c); err != nil || len(s.Leases) != want || s.Cost != min(1, int64(want)) {
			t.Errorf("%d holds of cost %d, %v, want %d of one owner", len(s.Leases), s.Cost, err, want)
		}
	}
	wantHolds(1 + sharers)
	if err := first.Unlock(); err != nil {
		t.Error(err)
	}
	wantHolds(sharers)
	last := holds[sharers-1]
	holds = holds[:sharers-1]
	each(func(i int) {
		if err := holds[i].Unlock(); err != nil {
			t.Errorf("Unlock = %v, want nil", err)
		}
	})
	if _, _, err := other.Lock(ctx, c.Name); !errors.Is(err, lock.ErrBusy) {
		t.Errorf("Lock of another while one is left = %v, want %v", err, lock.ErrBusy)
	}
	if err := last.Unlock(); err != nil {
		t.Error(err)
	}
	wantHolds(0)
	if _, _, err := l.Lock(shared, c.Name); !errors.Is(err, lock.ErrReleased) {
		t.Errorf("Lock with the context of what was let go = %v, want %v", err, lock.ErrReleased)
	}
}

// testShortestLease holds that whoever has the shortest lease either keeps it or learns that it is lost, and that tokens grow meanwhile.
func testShortestLease(t *testing.T, b *Bench) {
	l := newLocker(t, b.Store, lock.WithLease(lock.MinLease))
	name := b.Prefix + "shortest"
	last := int64(0)
	for range 10 {
		inner, hold, err := l.Lock(ctx, name)
		if errors.Is(err, lock.ErrLost) {
			continue // before he had it
		}
		if err != nil {
			t.Fatal(err)
		}
		if hold.Token() <= last {
			t.Errorf("token %d after %d, want more", hold.Token(), last)
		}
		last = hold.Token()
		longer := time.NewTimer(3 * lock.MinLease) // which it outlives by renewals
		select {
		case <-longer.C:
		case <-inner.Done():
		}
		lost := context.Cause(inner)
		if lost != nil && !errors.Is(lost, lock.ErrLost) {
			t.Errorf("cause = %v, want %v or none", lost, lock.ErrLost)
		}
		if err := hold.Unlock(); err != nil && !errors.Is(err, lock.ErrLost) || err == nil && lost != nil {
			t.Errorf("Unlock = %v where the cause is %v", err, lost)
		}
	}
}

// testExpiry holds that a lease ends, that what is lost cannot be brought back, and that a late release frees nobody's lock.
func testExpiry(t *testing.T, b *Bench) {
	l := newLocker(t, b.Store, lock.WithLease(unit))
	name := b.Prefix + "expiry"
	held, hold, err := l.TryLock(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	if left, err := hold.TTL(ctx); err != nil || left > unit || left < unit-unit/4 {
		t.Errorf("TTL = %v, %v, want %v", left, err, unit)
	}
	b.Pass(t, name, unit+time.Second)
	_, next, err := l.TryLock(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	if next.Token() <= hold.Token() {
		t.Errorf("token after a lease has ended = %d, want more than %d", next.Token(), hold.Token())
	}
	if _, _, err := l.Lock(held, name); !errors.Is(err, lock.ErrLost) {
		t.Errorf("nested Lock of a lost lock = %v, want %v", err, lock.ErrLost)
	}
	if err := hold.Refresh(ctx); !errors.Is(err, lock.ErrLost) {
		t.Errorf("Refresh of a lost lock = %v, want %v", err, lock.ErrLost)
	}
	if cause := context.Cause(held); !errors.Is(cause, lock.ErrLost) {
		t.Errorf("cause of a lost lock's context = %v, want %v", cause, lock.ErrLost)
	}
	if err := hold.Unlock(); !errors.Is(err, lock.ErrLost) {
		t.Errorf("Unlock of a lost lock = %v, want %v", err, lock.ErrLost)
	}
	if _, err := next.TTL(ctx); err != nil {
		t.Errorf("TTL of the next holder = %v, want nil", err)
	}
	if err := next.Unlock(); err != nil {
		t.Error(err)
	}
}

// testPermits holds that a permit is released once, and never one that is another's: neither twice, nor after its lease, nor by renewing it then.
func testPermits(t *testing.T, b *Bench) {
	sem := newSemaphore(t, b.Store, 2, lock.WithLease(unit))
	c := lock.Claim{Name: b.Prefix + "permits", Limit: 2}
	acquire := func() *lock.Permit {
		t.Helper()
		_, p, err := sem.TryAcquire(ctx, c.Name, 1)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	wantHeld := func(want int64) {
		t.Helper()
		if s, err := b.Store.(lock.Peeker).Peek(ctx, c); err != nil || s.Cost != want {
			t.Errorf("%d are held, %v, want %d", s.Cost, err, want)
		}
	}
	twice, other := acquire(), acquire()
	for _, want := range []error{nil, lock.ErrNotHeld} {
		if err := twice.Release(); !errors.Is(err, want) {
			t.Errorf("Release = %v, want %v", err, want)
		}
		wantHeld(1)
	}
	foreign := c
	foreign.ID, foreign.Cost, foreign.Lease = "foreign:0", 1, unit
	if held, err := b.Store.Release(ctx, foreign); held || err != nil {
		t.Errorf("Release of what nobody has = %v, %v, want false", held, err)
	}
	wantHeld(1)
	b.Pass(t, c.Name, unit+time.Second)
	wantHeld(0)
	next, another := acquire(), acquire()
	if err := other.Refresh(ctx); !errors.Is(err, lock.ErrLost) {
		t.Errorf("Refresh after the lease = %v, want %v", err, lock.ErrLost)
	}
	if err := other.Release(); !errors.Is(err, lock.ErrLost) {
		t.Errorf("Release after the lease = %v, want %v", err, lock.ErrLost)
	}
	wantHeld(2)
	for _, p := range []*lock.Permit{next, another} {
		if err := p.Release(); err != nil {
			t.Error(err)
		}
	}
	wantHeld(0)
}
