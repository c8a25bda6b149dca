package ratelimit_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/lock"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
	"github.com/rlgen/rlgen/rules"
)

// TestMasterOfAHoldDies kills the master that has a call's rate, its place in flight and its lock, while the method runs and another call
// waits. The method's context is done, because the lock is lost, before the other call is let in; which it is by the replica, with a
// larger token.
func TestMasterOfAHoldDies(t *testing.T) {
	t.Parallel()
	const (
		failover = 30 * time.Second       // far longer than it takes
		lease    = 400 * time.Millisecond // over before
	)
	sentinel := redistest.StartSentinel(t)
	client := sentinel.Client(t, func(o *redis.FailoverOptions) { o.DialerRetries = 1 })
	g := storesOn(t, client, failover).guard(t,
		rules.Limit{Kind: rules.User, Rules: per(10, time.Hour), OnFail: rules.FailClosed},
		rules.Limit{Kind: rules.Concurrency, Count: 2, Per: rules.PerUser, Lease: time.Minute, OnFail: rules.FailClosed},
		rules.Limit{Kind: rules.Lock, Lease: lease, Wait: failover, OnFail: rules.FailClosed},
	)
	caller := ratelimit.WithUser(t.Context(), "ada")
	var token int64
	ended, next := make(chan struct{}), make(chan error, 1)
	err := run(g, caller, func(ctx context.Context) error {
		token = lock.Token(ctx)
		go func() {
			next <- run(g, caller, func(ctx context.Context) error {
				select {
				case <-ended:
				default:
					t.Error("the next call is let in while the context of the first is not done")
				}
				if got := lock.Token(ctx); got <= token {
					t.Errorf("token of the next call = %d, want more than %d", got, token)
				}
				return ctx.Err()
			})
		}()
		untilWaiting(t, client)
		sentinel.Master.Kill(t)
		<-ctx.Done()
		defer close(ended)
		return context.Cause(ctx)
	})
	if !errors.Is(err, lock.ErrLost) {
		t.Errorf("cause = %v, want %v", err, lock.ErrLost)
	}
	if err := <-next; err != nil {
		t.Errorf("the call that waited = %v, want nil", err)
	}
}

// untilWaiting returns once somebody stands in a queue.
func untilWaiting(t *testing.T, client *redis.Client) {
	t.Helper()
	if err := redistest.Poll(func() error {
		queues, err := client.Keys(context.Background(), "rl:lock:*:queue").Result()
		if err == nil && len(queues) == 0 {
			err = errors.New("nobody waits")
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}
