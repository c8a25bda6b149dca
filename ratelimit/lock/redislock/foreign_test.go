package redislock_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/internal/outofstep"
	"github.com/rlgen/rlgen/ratelimit/lock"
	"github.com/rlgen/rlgen/ratelimit/lock/redislock"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
)

// TestReplyOfAnotherCall tests that an acquisition does not accept the reply of another one: a lock
// that one owner has is not given to others.
func TestReplyOfAnotherCall(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	for _, cost := range []int64{0, 1} { // a lock, and a semaphore of 1
		t.Run(fmt.Sprint(cost), func(t *testing.T) {
			t.Parallel()
			faults := &outofstep.Faults{}
			client := redis.NewClient(&redis.Options{
				Addr: server.Addr(), Dialer: faults.Dial, ReadTimeout: 100 * time.Millisecond, PoolSize: 8,
			})
			t.Cleanup(func() { client.Close() })
			faulty := newStore(t, client, redislock.WithBudget(time.Second))
			sound, name := newStore(t, server.Client(t)), redistest.Prefix(t)
			claim := func(name string, id int) lock.Claim {
				return lock.Claim{Name: name, ID: fmt.Sprint(name, id), Lease: time.Minute, Cost: cost, Limit: cost}
			}
			if a, err := sound.Acquire(t.Context(), claim(name, 0)); err != nil || !a.Held {
				t.Fatalf("Acquire = %+v, %v, want it held", a, err)
			}
			if a, err := faulty.Acquire(t.Context(), claim(name+"other", 0)); err != nil || !a.Held {
				t.Fatalf("Acquire of another name = %+v, %v, want it held", a, err)
			}
			faults.Arm(true)
			for i := range 50 {
				if a, _ := faulty.Acquire(context.Background(), claim(name, i+1)); a.Held {
					t.Fatalf("Acquire %d of a name that is held = %+v, want it refused", i, a)
				}
			}
			faults.Arm(false)
			if err := redistest.Poll(func() error {
				a, err := faulty.Acquire(context.Background(), claim(name, 100))
				if a.Held {
					return errors.New("held by two")
				}
				return err
			}); err != nil {
				t.Error(err)
			}
		})
	}
}
