package redisstore_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
)

// TestClientsInClients holds that a program's own client, of which nobody knows how many servers are behind it, counts each key at its server: as the
// client in it does, and no more than the limit.
func TestClientsInClients(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	ring := redis.NewRing(&redis.RingOptions{
		Addrs: map[string]string{"one": server.Addr(), "two": redistest.Start(t).Addr()}, HeartbeatFrequency: time.Hour,
	})
	t.Cleanup(func() { ring.Close() })
	for name, client := range map[string]redis.UniversalClient{
		"server": server.Client(t), "cluster": redistest.NewCluster(t).Client(t), "ring": ring,
	} {
		t.Run(name, func(t *testing.T) {
			s, p := newStore(t, another{client}), redistest.Prefix(t)
			const limit, ids = 20, 6
			var admitted [ids]atomic.Int64
			var callers sync.WaitGroup
			for range 16 {
				callers.Go(func() {
					for i := range 5 * ids {
						requests := []store.Request{request(fmt.Sprint(p, i%ids), limit, 1), request(p+"all", 1_000_000, 1)}
						out, err := store.Take(context.Background(), s, requests, false)
						if err != nil {
							t.Error(err)
						} else if out.Allowed {
							admitted[i%ids].Add(1)
						}
					}
				})
			}
			callers.Wait()
			direct, all := s, int64(0)
			if name != "ring" { // which New refuses, unless another client hides it
				direct = newStore(t, client)
			}
			for i := range admitted {
				n := admitted[i].Load()
				if all += n; n != limit {
					t.Errorf("%d calls of id %d were admitted, want %d", n, i, limit)
				}
				if out := take(t, direct, request(fmt.Sprint(p, i), limit, 0)); out.Rules[0].Remaining != 0 {
					t.Errorf("%d of id %d remain where the client in it looks, want 0", out.Rules[0].Remaining, i)
				}
			}
			if out := take(t, direct, request(p+"all", 1_000_000, 0)); out.Rules[0].Remaining != 1_000_000-all {
				t.Errorf("%d were charged to the limit of all, want %d", 1_000_000-out.Rules[0].Remaining, all)
			}
		})
	}
}
