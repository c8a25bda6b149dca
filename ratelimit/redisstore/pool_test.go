package redisstore_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/redisstore"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
)

// onePools are clients with a single connection, for which they wait for an hour: nothing but the store's budget ends that. One of them heeds
// the ends of contexts, so that callers drive their scripts themselves.
func onePools(t *testing.T, addr string, f func(*testing.T, *redis.Client)) {
	for _, heeds := range []bool{false, true} {
		t.Run(fmt.Sprintf("heeding contexts %v", heeds), func(t *testing.T) {
			client := redis.NewClient(&redis.Options{
				Addr: addr, PoolSize: 1, PoolTimeout: time.Hour, ReadTimeout: time.Hour, DialerRetries: 1, ContextTimeoutEnabled: heeds,
			})
			t.Cleanup(func() { client.Close() })
			f(t, client)
		})
	}
}

// TestOneConnection holds that a crowd who share the only connection of a client are all decided, exactly, while others give back,
// reset, ask and come with contexts that end.
func TestOneConnection(t *testing.T) {
	onePools(t, redistest.Standalone(t).Addr(), func(t *testing.T, client *redis.Client) {
		s, p := newStore(t, client), redistest.Prefix(t)
		var allowed atomic.Int64
		var all sync.WaitGroup
		for i := range 64 {
			all.Go(func() {
				ctx, cancel := t.Context(), func() {}
				if i%2 == 0 {
					ctx, cancel = context.WithCancel(ctx) // which takes another way through the lane
				}
				defer cancel()
				for range 10 {
					out, err := store.Take(ctx, s, []store.Request{request(p+"hot", 200, 1), request(p+fmt.Sprint(i), 1000, 1)}, false)
					switch {
					case err != nil:
						t.Errorf("Take = %v, want a decision", err)
					case out.Allowed:
						allowed.Add(1)
					}
				}
				out := take(t, s, request(p+fmt.Sprint(i), 1000, 1))
				if err := s.GiveBack(ctx, out.Receipt); err != nil {
					t.Errorf("GiveBack = %v, want none", err)
				}
				if err := s.Reset(ctx, []store.Request{request(p+fmt.Sprint(i), 1000, 1)}); err != nil {
					t.Errorf("Reset = %v, want none", err)
				}
			})
		}
		all.Wait()
		if got := allowed.Load(); got != 200 {
			t.Errorf("%d admitted, want 200", got)
		}
	})
}

// TestOneConnectionStalls holds that, where the only connection of a client has a call without an answer, that call and all behind it end with their
// budgets, without which they would last for an hour, and that callers are decided again once the connection is gone.
func TestOneConnectionStalls(t *testing.T) {
	t.Parallel()
	proxy := redistest.NewProxy(t, redistest.Standalone(t).Addr())
	onePools(t, proxy.Addr(), func(t *testing.T, client *redis.Client) {
		s, p := newStore(t, client, redisstore.WithBudget(short)), redistest.Prefix(t)
		decidesAgain(t, s, p+"a")
		proxy.Always(redistest.Stall, "evalsha", "eval")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var calls tally
		var all sync.WaitGroup
		for i := range 64 {
			all.Go(func() {
				ctx := ctx
				if i%2 == 0 {
					ctx = t.Context()
				}
				out, err := store.Take(ctx, s, []store.Request{request(p+"a", 100, 1)}, false)
				calls.count(out.Allowed, err)
			})
		}
		all.Wait()
		if n := calls.failed(); n != 64 || calls.misconfigured.Load() > 0 {
			t.Errorf("%v of 64 calls without an answer, want 64 that end with their budget: %v", &calls, calls.err)
		}
		proxy.Always(redistest.Pass)
		proxy.Cut()
		decidesAgain(t, s, p+"b")
	})
}
