package redisstore_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/rlgen/rlgen/ratelimit/storetest"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
)

// TestKeysOfAllAlgorithms holds of every algorithm what its keys are: gone a second after nothing counts any more and not
// before, left alone by calls that charge nothing, and no trouble when they are flushed.
func TestKeysOfAllAlgorithms(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client(t)
	s, ctx := newStore(t, client), context.Background()
	for _, window := range []time.Duration{60 * time.Millisecond, 90 * time.Second, 24 * time.Hour} {
		for name, req := range storetest.Requests(t, "rl:"+window.String()+":", 3, window) {
			t.Run(name+" in "+window.String(), func(t *testing.T) {
				out := take(t, s, req)
				if !out.Allowed {
					t.Fatalf("the first Take = %+v, want allowed", out)
				}
				reset, ttl := out.Rules[0].ResetAfter, client.PTTL(ctx, req.Key).Val()
				if slow := 500 * time.Millisecond; ttl < reset+time.Second-slow || ttl > 2*window+time.Second+time.Millisecond {
					t.Errorf("the key expires in %v, want a second after all is there again, in %v", ttl, reset)
				}
				client.PExpire(ctx, req.Key, 48*time.Hour) // not what a charge would set
				before := state(t, client, req.Key)
				for _, cost := range []int64{0, 4} {
					none := req
					none.Cost = cost
					take(t, s, none)
				}
				if after := state(t, client, req.Key); after != before {
					t.Errorf("state after a look and a denial = %s, want that before, %s", after, before)
				}
				client.FlushAll(ctx)
				all := req
				all.Cost = 3
				if out := take(t, s, all); !out.Allowed {
					t.Errorf("Take after FLUSHALL = %+v, want allowed", out)
				}
				if keys := client.Keys(ctx, "*").Val(); !slices.Equal(keys, []string{req.Key}) {
					t.Errorf("a limit has the keys %q, want one, of which no half can be lost", keys)
				}
				if err := s.GiveBack(ctx, out.Receipt); err != nil {
					t.Errorf("GiveBack of what was flushed = %v, want nil", err)
				}
				if ttl := client.PTTL(ctx, req.Key).Val(); ttl == -1 {
					t.Error("the key stays for ever")
				}
			})
		}
	}
}
