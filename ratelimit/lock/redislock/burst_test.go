package redislock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/lock"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
)

// TestBurst holds that a semaphore is in use to its full capacity soon after a crowd has stormed it, again and again, however far the server is, and though each of the crowd
// has little time to wait; and never beyond.
func TestBurst(t *testing.T) {
	for _, delay := range []time.Duration{2 * time.Millisecond, 5 * time.Millisecond} {
		t.Run(delay.String(), func(t *testing.T) {
			var vain int64
			for range 3 { // a machine that is slow or stops lets waits end
				if vain = burst(t, delay); vain <= burstVain {
					return
				}
				t.Logf("%d waits were in vain before all permits were in use", vain)
			}
			t.Errorf("%d waits were in vain before all permits were in use, at the third time, too, want %d at most", vain, burstVain)
		})
	}
}

const (
	burstLimit   = 50
	burstCallers = 200
	burstRounds  = 5
	// burstVain is how many waits may be in vain while a crowd takes all of the permits that are let go at once: a hundred for each caller, which a machine that has other work, too, needs some of. A crowd that
	// starves does so for good.
	burstVain = 100 * burstCallers
)

// burst has a crowd take all permits, hold them until they are all in use, and let them go together, a few times. It returns as soon as many waits are in vain meanwhile, and how many
// were, in the worst of the rounds.
func burst(t *testing.T, delay time.Duration) (worst int64) {
	server, name := redistest.Standalone(t), redistest.Prefix(t)
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	c := &crowd{}
	c.next()
	for range 4 {
		sem := farSemaphore(t, server, delay)
		for range burstCallers / 4 {
			all.Go(func() {
				for ctx.Err() == nil {
					c.visit(ctx, sem, name)
				}
			})
		}
	}
	direct := server.Client(t)
	for range burstRounds {
		before, round := c.vain.Load(), c.now.Load()
		for round.inside.Load() < burstLimit && worst <= burstVain {
			if n := unitsHeld(t, direct, name); n > burstLimit {
				t.Errorf("%d permits are held, want %d at most", n, burstLimit)
			}
			worst = max(worst, c.vain.Load()-before)
		}
		close(c.next().full)
	}
	cancel()
	close(c.now.Load().full)
	all.Wait()
	if c.most.Load() > burstLimit {
		t.Errorf("%d had a permit at once, want %d at most", c.most.Load(), burstLimit)
	}
	return worst
}

// unitsHeld is how many units of a semaphore the server has as held.
func unitsHeld(t *testing.T, client *redis.Client, name string) int64 {
	t.Helper()
	n, err := client.ZCount(t.Context(), "rl:sem:{"+name+"}", fmt.Sprint("(", client.Time(t.Context()).Val().UnixMicro()), "+inf").Result()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// crowd is many who want a permit.
type crowd struct {
	now                atomic.Pointer[round]
	inside, most, vain atomic.Int64
}

// round is the time until all permits are in use.
type round struct {
	inside atomic.Int64 // who came in since it began
	full   chan struct{}
}

// next begins the next round, and returns the one before.
func (c *crowd) next() *round { return c.now.Swap(&round{full: make(chan struct{})}) }

// visit takes a permit until the round is over, if there is one in time.
func (c *crowd) visit(ctx context.Context, sem *lock.Semaphore, name string) {
	_, permit, err := sem.Acquire(context.Background(), name)
	if err != nil {
		if errors.Is(err, lock.ErrBusy) {
			c.vain.Add(1)
		}
		return // a server that is slow beyond the budget is no failure here
	}
	n := c.inside.Add(1)
	for most := c.most.Load(); n > most && !c.most.CompareAndSwap(most, n); most = c.most.Load() {
	}
	round := c.now.Load()
	round.inside.Add(1)
	select {
	case <-round.full:
	case <-ctx.Done():
	}
	c.inside.Add(-1)
	permit.Release()
}

// farSemaphore is one of a process of its own, whose server is far.
func farSemaphore(t *testing.T, server *redistest.Server, delay time.Duration) *lock.Semaphore {
	t.Helper()
	proxy := redistest.NewProxy(t, server.Addr())
	proxy.Delay(delay)
	client := redis.NewClient(&redis.Options{Addr: proxy.Addr(), PoolSize: 20})
	t.Cleanup(func() { client.Close() })
	sem, err := lock.NewSemaphore(newStore(t, client), burstLimit, lock.WithLease(time.Minute), lock.WithWait(20*delay))
	if err != nil {
		t.Fatal(err)
	}
	return sem
}
