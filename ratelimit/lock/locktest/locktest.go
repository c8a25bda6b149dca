// Package locktest has the tests that every [lock.Store] passes.
package locktest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/rlgen/rlgen/ratelimit/lock"
	"github.com/rlgen/rlgen/ratelimit/store"
)

// Bench is where a store is tested.
type Bench struct {
	Store lock.Store
	// Prefix is what names begin with, so that they meet no other test's.
	Prefix string
	// Pass lets d pass for all that is kept of name.
	Pass func(t testing.TB, name string, d time.Duration)
	// Waiters is how many wait where many do; 1,000 if it is 0.
	Waiters int64
}

// Run runs the tests on benches that open makes.
func Run(t *testing.T, open func(t *testing.T) *Bench) {
	for name, test := range map[string]func(*testing.T, *Bench){
		"Model":          testModel,
		"Exclusion":      testExclusion,
		"Capacity":       testCapacity,
		"ManyWaiters":    testManyWaiters,
		"Order":          testOrder,
		"Reentrancy":     testReentrancy,
		"SharedContext":  testSharedContext,
		"ShortestLease":  testShortestLease,
		"Expiry":         testExpiry,
		"Validation":     testValidation,
		"GivingUp":       testGivingUp,
		"DeadWaiter":     testDeadWaiter,
		"LowerLimit":     testLowerLimit,
		"Permits":        testPermits,
		"LargeCostFirst": testLargeCostFirst,
		"RoomForMany":    testRoomForMany,
		"RoomInOrder":    testRoomInOrder,
		"RoomOfLeavers":  testRoomOfLeavers,
		"LastAsking":     testLastAsking,
	} {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

var ctx = context.Background()

func mustAcquire(t *testing.T, b *Bench, c lock.Claim, want bool) lock.Answer {
	t.Helper()
	a, err := b.Store.Acquire(ctx, c)
	if err != nil || a.Held != want {
		t.Fatalf("Acquire(%s) = %+v, %v, want held %v", c.ID, a, err, want)
	}
	return a
}

func mustRelease(t *testing.T, b *Bench, c lock.Claim) {
	t.Helper()
	if held, err := b.Store.Release(ctx, c); err != nil || !held {
		t.Fatalf("Release(%s) = %v, %v, want true", c.ID, held, err)
	}
}

func testValidation(t *testing.T, b *Bench) {
	good := lock.Claim{Name: b.Prefix + "validation", ID: "a:0", Lease: time.Second}
	for name, change := range map[string]func(*lock.Claim){
		"lease 0":          func(c *lock.Claim) { c.Lease = 0 },
		"lease -1s":        func(c *lock.Claim) { c.Lease = -time.Second },
		"lease 100µs":      func(c *lock.Claim) { c.Lease = 100 * time.Microsecond },
		"lease 10.5ms":     func(c *lock.Claim) { c.Lease = 10500 * time.Microsecond },
		"lease of 2^63 ns": func(c *lock.Claim) { c.Lease = 1<<63 - 1 },
		"no ID":            func(c *lock.Claim) { c.ID = "" },
		"limit -1":         func(c *lock.Claim) { c.Limit = -1 },
		"cost 0":           func(c *lock.Claim) { c.Limit = 1 },
		"cost 1001":        func(c *lock.Claim) { c.Limit, c.Cost = 2000, 1001 },
	} {
		t.Run(name, func(t *testing.T) {
			c := good
			change(&c)
			_, err := b.Store.Acquire(ctx, c)
			var failed *store.Error
			if !errors.As(err, &failed) || failed.Class != store.Misconfigured {
				t.Errorf("Acquire = %v, want an error of class %v", err, store.Misconfigured)
			}
		})
	}
}

func newLocker(t *testing.T, s lock.Store, opts ...lock.Option) *lock.Locker {
	t.Helper()
	l, err := lock.New(s, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func newSemaphore(t *testing.T, s lock.Store, limit int64, opts ...lock.Option) *lock.Semaphore {
	t.Helper()
	l, err := lock.NewSemaphore(s, limit, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return l
}
