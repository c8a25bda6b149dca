package ratelimit_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/lock"
	"github.com/rlgen/rlgen/ratelimit/lock/redislock"
	"github.com/rlgen/rlgen/ratelimit/memstore"
	"github.com/rlgen/rlgen/ratelimit/redisstore"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
	"github.com/rlgen/rlgen/rules"
)

// stores are where a limiter counts and holds.
type stores struct {
	rates store.Store
	locks lock.Store
}

func inMemory() stores { return stores{memstore.New(), lock.NewMemory()} }

// inRedis starts a redis-server, in which both are.
func inRedis(t *testing.T) (stores, *redistest.Server) {
	server := redistest.Start(t)
	return storesOn(t, server.Client(t), 10*time.Second), server
}

// storesOn are both in the Redis of a client, for as long as a test runs.
func storesOn(t *testing.T, client redis.UniversalClient, budget time.Duration) stores {
	t.Helper()
	rates, err := redisstore.New(client, redisstore.WithBudget(budget))
	if err != nil {
		t.Fatal(err)
	}
	locks, err := redislock.New(client, redislock.WithBudget(budget))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { locks.Close() })
	return stores{rates, locks}
}

// onEach runs a test in memory, where time is that of a bubble, and in Redis.
func onEach(t *testing.T, test func(*testing.T, stores)) {
	t.Run("memory", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { test(t, inMemory()) })
	})
	t.Run("redis", func(t *testing.T) {
		s, _ := inRedis(t)
		test(t, s)
	})
}

func (s stores) limiter(t *testing.T, opts ...ratelimit.Option) *ratelimit.Limiter {
	t.Helper()
	return limiter(t, s.rates, append([]ratelimit.Option{ratelimit.WithLocks(s.locks)}, opts...)...)
}

func (s stores) guard(t *testing.T, limits ...rules.Limit) *ratelimit.Guard {
	t.Helper()
	return s.limiter(t).Guard(create(limits...))
}

// run is a method behind a guard, as rlgen writes it.
func run(g *ratelimit.Guard, ctx context.Context, do func(context.Context) error, in ...ratelimit.Input) (err error) {
	ctx, permit, err := g.Hold(ctx, in...)
	if err != nil {
		return err
	}
	defer permit.Done(&err)
	return do(ctx)
}

func nothing(context.Context) error { return nil }

func fails(context.Context) error { return errors.New("it fails") }

func by(id string) ratelimit.Input {
	var in ratelimit.Input
	in.By(id)
	return in
}

func inFlight(count int64) rules.Limit {
	return rules.Limit{Kind: rules.Concurrency, Count: count, Per: rules.PerUser}
}

func wantBusy(t *testing.T, err error, limit string) {
	t.Helper()
	var exceeded *ratelimit.ExceededError
	if !errors.As(err, &exceeded) || !errors.Is(err, ratelimit.ErrExceeded) || !errors.Is(err, lock.ErrBusy) {
		t.Fatalf("Hold = %v, want ErrExceeded and lock.ErrBusy", err)
	}
	if exceeded.Limit != limit || exceeded.StatusCode() != 429 || exceeded.RetryAfter <= 0 || exceeded.RetryAfter > time.Second {
		t.Errorf("Hold = %+v, want limit %q, 429, and to ask again within a second", exceeded, limit)
	}
}
