package redisstore_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/redisstore"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
)

// TestLostRepliesOfChanges tests that a reset, a ban and a give-back are indeterminate if the
// server may have executed them, however the last sending ended.
func TestLostRepliesOfChanges(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	banned := request("", 10, 1)
	banned.Ban, banned.After = time.Minute, 5
	for name, change := range map[string]func(context.Context, *redisstore.Store, store.Request) error{
		"reset": func(ctx context.Context, s *redisstore.Store, req store.Request) error {
			return s.Reset(ctx, []store.Request{req})
		},
		"ban": func(ctx context.Context, s *redisstore.Store, req store.Request) error {
			return s.Ban(ctx, []store.Request{req}, time.Minute)
		},
		"give back": func(ctx context.Context, s *redisstore.Store, req store.Request) error {
			receipt := store.Receipt{Requests: []store.Request{req}, ID: 12345678901234, Charges: make([]store.Charge, 1)}
			receipt.Charges[0].At = time.Now().UnixMicro()
			return s.GiveBack(ctx, receipt)
		},
	} {
		for _, later := range []redistest.Fault{redistest.CutAfter, redistest.CutBefore} { // of the sendings after the first
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				proxy := redistest.NewProxy(t, server.Addr())
				client := redis.NewClient(&redis.Options{Addr: proxy.Addr(), DialerRetries: 1})
				t.Cleanup(func() { client.Close() })
				s, req := newStore(t, client, redisstore.WithBudget(short)), banned
				req.Key = redistest.Prefix(t)
				decidesAgain(t, s, req.Key)
				sent := proxy.Seen("evalsha")
				proxy.Always(redistest.CutAfter, "evalsha")
				go func() {
					for proxy.Seen("evalsha") == sent {
						runtime.Gosched()
					}
					proxy.Always(later, "evalsha")
				}()
				if err := change(t.Context(), s, req); classOf(err) != store.Indeterminate {
					t.Errorf("%s, which the server has executed = %v, want an error of class %v", name, err, store.Indeterminate)
				}
			})
		}
	}
}
