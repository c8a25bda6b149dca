package redislock_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/lock"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
)

// TestListeningAnewWakesAll holds that all who wait are woken once the connection that they hear by is there again: nobody knows what was said meanwhile.
func TestListeningAnewWakesAll(t *testing.T) {
	server := redistest.Start(t)
	s := newStore(t, server.Client(t))
	waiters := make([]lock.Waiter, 3)
	for i := range waiters {
		var err error
		if waiters[i], err = s.Join(context.Background()); err != nil {
			t.Fatal(err)
		}
		defer waiters[i].Close(lock.Claim{Waiter: waiters[i].ID}, true)
	}
	admin := server.Client(t)
	until(t, func() bool {
		return len(admin.PubSubChannels(t.Context(), "*").Val()) == 1
	})
	if err := admin.ClientKillByFilter(t.Context(), "TYPE", "pubsub").Err(); err != nil {
		t.Fatal(err)
	}
	for i, w := range waiters {
		late := time.NewTimer(50 * time.Second)
		defer late.Stop()
		select {
		case <-w.Woken:
		case <-late.C:
			t.Fatalf("waiter %d is not woken", i)
		}
	}
}

// TestUnlockOfWhatOthersWaitFor holds that a lock goes to one who waits in the same process with one command, as it does where nobody waits.
func TestUnlockOfWhatOthersWaitFor(t *testing.T) {
	client := redistest.Standalone(t).Client(t, func(o *redis.Options) { o.PoolSize = 20 })
	l := &listener{}
	client.AddHook(l)
	s, name := newStore(t, client), redistest.Prefix(t)
	locks := newLocker(t, s)
	for _, others := range []int64{0, 3} {
		_, hold, err := locks.Lock(context.Background(), name)
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		ctx, cancel := context.WithCancel(context.Background())
		for range others {
			all.Go(func() {
				if _, next, err := locks.Lock(ctx, name); err == nil {
					next.Unlock()
				}
			})
		}
		until(t, func() bool {
			standing, err := s.Peek(context.Background(), lock.Claim{Name: name})
			return err == nil && standing.Waiting == others
		})
		before := l.has("hdel")
		if err := hold.Unlock(); err != nil {
			t.Error(err)
		}
		all.Wait() // the last of whom leaves nobody behind
		cancel()
		if n := l.has("hdel") - before; n != 1 {
			t.Errorf("%d commands HDEL are sent where %d wait, want one, for the last hold", n, others)
		}
	}
}
