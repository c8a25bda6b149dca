package locktest

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

// thrice runs test up to three times, each for a name of its own, until it succeeds: who is stopped for longer than [lock.WaiterLife] loses his place.
func thrice(t *testing.T, b *Bench, test func(name string) error) {
	t.Helper()
	var err error
	for i := range 3 {
		if err = test(fmt.Sprint(b.Prefix, i)); err == nil {
			return
		}
		t.Log(err)
	}
	t.Error("at each of three times: ", err)
}

// standing is who waits for a claim.
type standing struct {
	lock.Waiter
	claim lock.Claim
}

// standFor makes one wait for c for each of costs, one after the other.
func standFor(t *testing.T, b *Bench, c lock.Claim, costs ...int64) []standing {
	t.Helper()
	all := make([]standing, len(costs))
	for i, cost := range costs {
		w, err := b.Store.Join(ctx)
		if err != nil {
			t.Fatal(err)
		}
		c.ID, c.Cost, c.Waiter = fmt.Sprintf("waiter%d:0", i), cost, w.ID
		mustAcquire(t, b, c, false)
		all[i] = standing{w, c}
	}
	return all
}

// asks asks for who waits, and says whether that was met.
func (s standing) asks(t *testing.T, b *Bench) bool {
	t.Helper()
	a, err := b.Store.Acquire(ctx, s.claim)
	if err != nil {
		t.Fatal(err)
	}
	return a.Held
}

// testRoomForMany holds that where a release makes room for many who wait, all of these are woken by it and by nothing else, nobody behind them is, and each is met in whatever
// order they ask.
func testRoomForMany(t *testing.T, b *Bench) {
	thrice(t, b, func(name string) error {
		c := lock.Claim{Name: name, ID: "holder:0", Lease: unit, Limit: 12, Cost: 12}
		mustAcquire(t, b, c, true)
		waiters := standFor(t, b, c, 1, 2, 1, 3, 1, 1, 3, 1, 1)
		room := waiters[:7]
		for _, w := range waiters {
			defer w.Close(w.claim, false)
		}
		mustRelease(t, b, c)
		for i, w := range room {
			if !comes(w.Woken) {
				return fmt.Errorf("number %d of %d for whom there is room is not woken", i, len(room))
			}
		}
		if waiters[8].asks(t, b) {
			return errors.New("one for whom there is no room is met")
		}
		for i, w := range slices.Backward(room) {
			if !w.asks(t, b) {
				return fmt.Errorf("number %d of %d for whom there is room is not met", i, len(room))
			}
		}
		if waiters[7].asks(t, b) || len(waiters[8].Woken) > 0 {
			return errors.New("one for whom there is no room is met, or woken")
		}
		return nil
	})
}

// testRoomInOrder holds that nobody, whether he waits or not, is let into room that one before him waits for: not where that is too little for him as yet, nor where he was
// told and has not asked.
func testRoomInOrder(t *testing.T, b *Bench) {
	thrice(t, b, func(name string) error {
		c := lock.Claim{Name: name, ID: "holder:0", Lease: unit, Limit: 10, Cost: 6}
		mustAcquire(t, b, c, true)
		rest := c
		rest.ID, rest.Cost = "rest:0", 4
		mustAcquire(t, b, rest, true)
		waiters := standFor(t, b, c, 2, 5, 1)
		for _, w := range waiters {
			defer w.Close(w.claim, false)
		}
		mustRelease(t, b, rest)
		stranger := c
		stranger.ID, stranger.Cost = "stranger:0", 1
		mustAcquire(t, b, stranger, false)
		switch {
		case waiters[2].asks(t, b):
			return errors.New("the third of three is met, want room kept for the second")
		case waiters[1].asks(t, b):
			return errors.New("the second of three is met, for whom there is no room")
		case !waiters[0].asks(t, b):
			return errors.New("the first of three is not met")
		}
		mustRelease(t, b, c) // there is room for both, and for one more
		for _, w := range waiters[1:] {
			if !comes(w.Woken) {
				return errors.New("one of two for whom there is room is not woken")
			}
		}
		stranger.Cost = 3
		mustAcquire(t, b, stranger, false)
		stranger.Cost = 2
		mustAcquire(t, b, stranger, true)
		if !waiters[2].asks(t, b) || !waiters[1].asks(t, b) {
			return errors.New("one of two for whom there is room is not met")
		}
		return nil
	})
}

// testRoomOfLeavers holds that those are woken for whom there is room once one before them leaves the queue, once a lease ends, and once the limit is raised for one
// before them.
func testRoomOfLeavers(t *testing.T, b *Bench) {
	thrice(t, b, func(name string) error {
		c := lock.Claim{Name: name + "leaves", ID: "holder:0", Lease: unit, Limit: 3, Cost: 1}
		mustAcquire(t, b, c, true)
		waiters := standFor(t, b, c, 3, 1, 1, 1)
		for _, w := range waiters[1:] {
			defer w.Close(w.claim, false)
		}
		waiters[0].Close(waiters[0].claim, false)
		if !comes(waiters[1].Woken) || !comes(waiters[2].Woken) || len(waiters[3].Woken) > 0 {
			return errors.New("not the two for whom there is room are woken once one before them leaves")
		}
		if !waiters[2].asks(t, b) || !waiters[1].asks(t, b) || waiters[3].asks(t, b) {
			return errors.New("not the two for whom there is room are met")
		}
		return nil
	})
	thrice(t, b, func(name string) error {
		c := lock.Claim{Name: name + "vanishes", ID: "holder:0", Lease: unit, Limit: 4, Cost: 2}
		mustAcquire(t, b, c, true)
		dead := standFor(t, b, c, 3)[0]
		defer dead.Close(dead.claim, false)
		b.Pass(t, c.Name, lock.WaiterLife*2/3)
		waiters := standFor(t, b, c, 1, 1, 1)
		for _, w := range waiters {
			defer w.Close(w.claim, false)
		}
		b.Pass(t, c.Name, lock.WaiterLife*2/3)
		c.ID, c.Cost = "stranger:0", 1
		mustAcquire(t, b, c, false)
		if !comes(waiters[0].Woken) || !comes(waiters[1].Woken) || len(waiters[2].Woken) > 0 {
			return errors.New("not the two for whom there is room are woken once one before them has not asked for long")
		}
		return nil
	})
	thrice(t, b, func(name string) error {
		c := lock.Claim{Name: name + "ends", ID: "holder:0", Lease: unit, Limit: 3, Cost: 3}
		mustAcquire(t, b, c, true)
		b.Pass(t, c.Name, unit-lock.WaiterLife/2)
		waiters := standFor(t, b, c, 1, 1, 1, 1)
		for _, w := range waiters {
			defer w.Close(w.claim, false)
		}
		b.Pass(t, c.Name, lock.WaiterLife*2/3)
		if !waiters[0].asks(t, b) || !comes(waiters[1].Woken) || !comes(waiters[2].Woken) || len(waiters[3].Woken) > 0 {
			return errors.New("not the first three are met or woken once the lease before them has ended")
		}
		return nil
	})
	thrice(t, b, func(name string) error {
		c := lock.Claim{Name: name + "limits", ID: "holder:0", Lease: unit, Limit: 2, Cost: 1}
		mustAcquire(t, b, c, true)
		other, wider := c, c
		other.ID, wider.Limit = "other:0", 5
		mustAcquire(t, b, other, true)
		w := standFor(t, b, wider, 4)[0]
		defer w.Close(w.claim, false)
		mustRelease(t, b, c)
		if !comes(w.Woken) || !w.asks(t, b) {
			return errors.New("one whose limit is larger than that of who makes room for him is not woken, or not met")
		}
		return nil
	})
	thrice(t, b, func(name string) error {
		c := lock.Claim{Name: name + "raised", ID: "holder:0", Lease: unit, Limit: 3, Cost: 3}
		mustAcquire(t, b, c, true)
		waiters := standFor(t, b, c, 1, 1, 1)
		for i := range waiters {
			defer waiters[i].Close(waiters[i].claim, false)
			waiters[i].claim.Limit = 5
		}
		if !waiters[0].asks(t, b) || !comes(waiters[1].Woken) {
			return errors.New("the first of two is not met, or the second not woken, once the limit is raised")
		}
		if !waiters[1].asks(t, b) || waiters[2].asks(t, b) {
			return errors.New("not the two for whom there is room are met")
		}
		return nil
	})
}

// testLastAsking holds that who asks for the last time leaves the queue where he is not met, so that who stands behind him has what becomes free from then on, and is woken where it
// was free for him.
func testLastAsking(t *testing.T, b *Bench) {
	for name, limit := range map[string]int64{"lock": 0, "semaphore": 1} {
		thrice(t, b, func(prefix string) error {
			c := lock.Claim{Name: prefix + name, ID: "holder:0", Lease: unit, Limit: limit, Cost: 1}
			mustAcquire(t, b, c, true)
			waiters := standFor(t, b, c, 1, 1, 1)
			for i := range waiters {
				defer waiters[i].Close(waiters[i].claim, false)
			}
			waiters[0].claim.Last = true
			if waiters[0].asks(t, b) {
				return errors.New("the first is met while another holds it")
			}
			mustRelease(t, b, c)
			waiters[1].claim.Last = true
			if !comes(waiters[1].Woken) || !waiters[1].asks(t, b) {
				return errors.New("the second is not woken, or not met when he asks for the last time")
			}
			return nil
		})
	}
	thrice(t, b, func(name string) error {
		c := lock.Claim{Name: name + "leaves", ID: "holder:0", Lease: unit, Limit: 3, Cost: 1}
		mustAcquire(t, b, c, true)
		waiters := standFor(t, b, c, 3, 2)
		for i := range waiters {
			defer waiters[i].Close(waiters[i].claim, false)
		}
		waiters[0].claim.Last = true
		if waiters[0].asks(t, b) || !comes(waiters[1].Woken) || !waiters[1].asks(t, b) {
			return errors.New("who has room once the first has asked for the last time is not woken, or not met")
		}
		return nil
	})
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
