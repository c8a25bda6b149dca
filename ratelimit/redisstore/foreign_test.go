package redisstore_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/internal/outofstep"
	"github.com/rlgen/rlgen/ratelimit/redisstore"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
)

// TestReplyOfAnotherCall tests that a decision does not accept the reply of another call, and that
// the connections that are out of step are closed.
func TestReplyOfAnotherCall(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(*testing.T, *outofstep.Faults) redis.UniversalClient{
		"standalone": func(t *testing.T, s *outofstep.Faults) redis.UniversalClient {
			return redistest.Standalone(t).Client(t, func(o *redis.Options) { o.Dialer = s.Dial })
		},
		"cluster": func(t *testing.T, s *outofstep.Faults) redis.UniversalClient {
			return redistest.NewCluster(t).Client(t, func(o *redis.ClusterOptions) { o.Dialer = s.Dial })
		},
	} {
		for batching, opts := range map[string][]redisstore.Option{"together": nil, "each alone": {redisstore.WithBatching(1)}} {
			t.Run(fmt.Sprint(name, ", ", batching), func(t *testing.T) {
				t.Parallel()
				shift := &outofstep.Faults{}
				client, p := open(t, shift), redistest.Prefix(t)
				s := newStore(t, client, opts...)
				full, other := request("{"+p+"}full", 1, 1), request("{"+p+"}other", 100_000, 1)
				if !take(t, s, full).Allowed || take(t, s, full).Allowed {
					t.Fatal("want one call allowed, and the next denied")
				}
				// The reply to other is delivered to the next call of each connection.
				if _, err := store.Take(context.Background(), s, []store.Request{other}, false); err != nil {
					t.Fatal(err)
				}
				shift.Arm(true)
				indeterminate := 0
				var callers sync.WaitGroup
				var mu sync.Mutex
				for range 16 {
					callers.Go(func() {
						out, err := store.Take(context.Background(), s, []store.Request{full}, false)
						mu.Lock()
						defer mu.Unlock()
						switch {
						case err == nil && out.Allowed:
							t.Error("a call of a limit without room is allowed by the reply of another call")
						case classOf(err) == store.Indeterminate:
							indeterminate++
						}
					})
				}
				callers.Wait()
				if indeterminate == 0 {
					t.Error("no call got the reply of another one, want some, which are indeterminate")
				}
				shift.Arm(false)
				decided := 0
				if err := redistest.Poll(func() error { // all connections are in step again
					out, err := store.Take(context.Background(), s, []store.Request{full}, false)
					if err == nil && out.Allowed {
						t.Error("a call of a limit without room is allowed after a reply of another call")
					}
					if decided++; err != nil {
						decided = 0
					}
					if decided < 100 {
						return fmt.Errorf("%d calls in a row are decided, the last with %v", decided, err)
					}
					return nil
				}); err != nil {
					t.Error(err)
				}
			})
		}
	}
}
