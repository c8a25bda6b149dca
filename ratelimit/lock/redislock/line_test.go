package redislock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/lock"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
)

// TestLine holds that of a crowd in one process, which is larger by far than what the client has connections for, two stand in Redis's queue, and that those who
// came first are served first; and that another process has its turns meanwhile.
func TestLine(t *testing.T) {
	var err error
	for range 3 { // whose process is stopped for longer than [lock.WaiterLife] loses his place
		if err = lineUp(t); err == nil {
			return
		}
		t.Log(err)
	}
	t.Error("at each of three times: ", err)
}

func lineUp(t *testing.T) error {
	server := redistest.Standalone(t)
	s, name := newStore(t, server.Client(t, func(o *redis.Options) { o.PoolSize = 3 })), redistest.Prefix(t)
	locks, others := newLocker(t, s), newLocker(t, newStore(t, server.Client(t)))
	_, hold, err := locks.Lock(context.Background(), name)
	if err != nil {
		t.Fatal(err)
	}
	const crowd = 300
	var all sync.WaitGroup
	var mu sync.Mutex
	var order []int
	serve := func(l *lock.Locker, i int) {
		_, hold, err := l.Lock(context.Background(), name)
		if err != nil {
			t.Errorf("Lock = %v, want nil", err)
			return
		}
		mu.Lock()
		order = append(order, i)
		mu.Unlock()
		hold.Unlock()
	}
	waiting := func(want int64) {
		until(t, func() bool {
			standing, err := s.Peek(context.Background(), lock.Claim{Name: name})
			return err == nil && standing.Waiting == want
		})
	}
	for i := range crowd {
		all.Go(func() { serve(locks, i) })
		waiting(int64(i + 1))
	}
	behind := lock.Behind(s, lock.Claim{Name: name})
	all.Go(func() { serve(others, crowd) })
	waiting(crowd + 1)
	hold.Unlock()
	all.Wait()
	turn := slices.Index(order, crowd)
	order = slices.Delete(order, turn, turn+1)
	switch {
	case behind != crowd-2:
		return fmt.Errorf("%d of %d stand behind those in Redis's queue, want all but 2", behind, crowd)
	case !slices.IsSorted(order):
		return fmt.Errorf("served: %v, want the order in which they came", order)
	case turn > 2:
		return errors.New("another process was served after three of the crowd, want it after the two that stood before it")
	}
	return nil
}
