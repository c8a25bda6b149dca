package redislock_test

import (
	"context"
	"errors"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/lock"
	"github.com/rlgen/rlgen/ratelimit/lock/redislock"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
)

// TestDeadlineCutsNoConnection holds that an acquisition whose caller's deadline comes before the server has it is let go after the server has it, and not before, when it would stay for
// its lease; and that the next call has its connection.
func TestDeadlineCutsNoConnection(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]int64{"lock": 0, "semaphore": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			admin := server.Client(t)
			p := redistest.NewProxy(t, server.Addr())
			client := redis.NewClient(&redis.Options{Addr: p.Addr(), PoolSize: 4, DialerRetries: 1})
			t.Cleanup(func() { client.Close() })
			near := newStore(t, server.Client(t), redislock.WithBudget(time.Minute))
			c := lock.Claim{Name: redistest.Prefix(t), ID: "a:0", Lease: time.Hour, Limit: limit, Cost: limit}
			another := c
			another.ID = "b:0"
			if a, err := near.Acquire(t.Context(), another); err != nil || !a.Held { // loads the script
				t.Fatalf("Acquire = %+v, %v, want it held", a, err)
			}
			near.Release(t.Context(), another)
			until(t, func() bool { // unless the machine stops for as long as the way takes
				s, err := redislock.New(client, redislock.WithBudget(time.Minute))
				if err != nil {
					t.Fatal(err)
				}
				if held, err := s.Release(t.Context(), c); held || err != nil { // has a connection then
					t.Fatalf("Release = %t, %v, want that it is not held", held, err)
				}
				dials, executed := client.PoolStats().Misses, scriptsRun(t, admin)-p.Seen("evalsha")
				p.Delay(500 * time.Millisecond)
				ctx, end := context.WithTimeout(t.Context(), 20*time.Millisecond)
				defer end()
				_, err = s.Acquire(ctx, c)
				p.Delay(0)
				late := errors.Is(err, context.DeadlineExceeded)
				if err != nil && !late {
					t.Errorf("Acquire = %v, want %v", err, context.DeadlineExceeded)
				}
				if err == nil {
					s.Release(t.Context(), c)
				}
				if err := s.Close(); err != nil { // waits until it is let go
					t.Error(err)
				}
				if n := client.PoolStats().Misses - dials; late && n > 0 {
					t.Errorf("%d connections were opened, want none", n)
				}
				until(t, func() bool { return scriptsRun(t, admin)-p.Seen("evalsha") >= executed })
				if a, err := near.Acquire(t.Context(), another); err != nil || !a.Held {
					t.Errorf("Acquire by another = %+v, %v, want it held", a, err)
				}
				near.Release(t.Context(), another)
				return late || t.Failed()
			})
		})
	}
}

var evalshaCalls = regexp.MustCompile(`cmdstat_evalsha:calls=(\d+)`)

// scriptsRun is how many scripts a server has been asked for by their names.
func scriptsRun(t *testing.T, client *redis.Client) int {
	t.Helper()
	said, err := client.Info(t.Context(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	found := evalshaCalls.FindStringSubmatch(said)
	if found == nil {
		return 0
	}
	n, err := strconv.Atoi(found[1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}
