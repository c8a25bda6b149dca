package locktest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/rlgen/rlgen/ratelimit/lock"
)

// stand makes waiters with these names stand in c's queue, one after the other.
func stand(t *testing.T, b *Bench, c lock.Claim, n int) []lock.Waiter {
	t.Helper()
	waiters := make([]lock.Waiter, n)
	for i := range waiters {
		var err error
		if waiters[i], err = b.Store.Join(ctx); err != nil {
			t.Fatal(err)
		}
		c.ID, c.Waiter = fmt.Sprintf("waiter%d:0", i), waiters[i].ID
		mustAcquire(t, b, c, false)
	}
	return waiters
}

// testOrder holds that a lock goes to whoever waits for the longest time, and that he is woken.
func testOrder(t *testing.T, b *Bench) {
	c := lock.Claim{Name: b.Prefix + "order", ID: "holder:0", Lease: unit}
	mustAcquire(t, b, c, true)
	waiters := stand(t, b, c, 3)
	mustRelease(t, b, c)
	for i, w := range waiters {
		<-w.Woken
		stranger := c
		stranger.ID = "stranger:0"
		mustAcquire(t, b, stranger, false)
		for j := len(waiters) - 1; j >= i; j-- {
			turn := c
			turn.ID, turn.Waiter = fmt.Sprintf("waiter%d:0", j), waiters[j].ID
			mustAcquire(t, b, turn, j == i)
		}
		turn := c
		turn.ID = fmt.Sprintf("waiter%d:0", i)
		w.Close(turn, true)
		mustRelease(t, b, turn)
	}
	mustAcquire(t, b, c, true)
}

// testDeadWaiter holds that a waiter who does not ask any more is passed over.
func testDeadWaiter(t *testing.T, b *Bench) {
	c := lock.Claim{Name: b.Prefix + "dead", ID: "holder:0", Lease: unit}
	mustAcquire(t, b, c, true)
	dead := stand(t, b, c, 1)[0]
	mustRelease(t, b, c)
	c.ID = "stranger:0"
	mustAcquire(t, b, c, false)
	b.Pass(t, c.Name, lock.WaiterLife+time.Second)
	mustAcquire(t, b, c, true)
	dead.Close(lock.Claim{Name: c.Name, ID: "waiter0:0", Lease: unit, Waiter: dead.ID}, false)
}

// testLargeCostFirst holds that who wants much of a semaphore is not overtaken by who wants little.
func testLargeCostFirst(t *testing.T, b *Bench) {
	c := lock.Claim{Name: b.Prefix + "large", ID: "a:0", Lease: unit, Limit: 3, Cost: 2}
	mustAcquire(t, b, c, true)
	large := c
	large.Cost = 3
	w := stand(t, b, large, 1)[0]
	small := c
	small.ID, small.Cost = "small:0", 1
	mustAcquire(t, b, small, false)
	mustRelease(t, b, c)
	<-w.Woken
	large.ID, large.Waiter = "waiter0:0", w.ID
	mustAcquire(t, b, large, true)
	w.Close(large, true)
}

// testGivingUp holds that who gives up is not in the way.
func testGivingUp(t *testing.T, b *Bench) {
	l, hasty := newLocker(t, b.Store), newLocker(t, b.Store, lock.WithWait(20*time.Millisecond))
	name := b.Prefix + "givingup"
	_, hold, err := l.Lock(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	var busy *lock.BusyError
	if _, _, err := hasty.Lock(ctx, name); !errors.As(err, &busy) || busy.RetryAfter <= 0 {
		t.Errorf("Lock = %v, want a %T with a lease", err, busy)
	}
	cause := errors.New("shutting down")
	short, cancel := context.WithTimeoutCause(ctx, 20*time.Millisecond, cause)
	defer cancel()
	if _, _, err := l.Lock(short, name); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, cause) {
		t.Errorf("Lock = %v, want %v and %v", err, context.DeadlineExceeded, cause)
	}
	if _, _, err := l.Lock(short, name); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Lock with a context that is done = %v, want %v", err, context.DeadlineExceeded)
	}
	if err := hold.Unlock(); err != nil {
		t.Error(err)
	}
	_, hold, err = l.Lock(ctx, name) // as soon as those who gave up have left
	if err != nil {
		t.Fatal(err)
	}
	hold.Unlock()
}

// testRoomForTwo holds that where a release makes room for two who wait, both are woken.
func testRoomForTwo(t *testing.T, b *Bench) {
	for i := range 3 { // who is stopped for longer than [lock.WaiterLife] loses his place
		c := lock.Claim{Name: fmt.Sprint(b.Prefix, "room", i), ID: "holder:0", Lease: unit, Limit: 3, Cost: 3}
		mustAcquire(t, b, c, true)
		small := c
		small.Cost = 1
		waiters := stand(t, b, small, 2)
		mustRelease(t, b, c)
		woken := true
		for i, w := range waiters {
			small.ID, small.Waiter = fmt.Sprintf("waiter%d:0", i), w.ID
			woken = woken && comes(w.Woken)
			_, err := b.Store.Acquire(ctx, small)
			w.Close(small, err == nil)
			defer b.Store.Release(ctx, small)
		}
		if woken {
			return
		}
	}
	t.Error("the second of two for whom there is room was not woken, at each of three times")
}

// comes reports whether a waking comes soon.
func comes(woken <-chan struct{}) bool {
	late := time.NewTimer(2 * time.Second)
	defer late.Stop()
	select {
	case <-woken:
		return true
	case <-late.C:
		return false
	}
}
