package locktest

import (
	"context"
	"errors"
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
