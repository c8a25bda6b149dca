package redisstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/rlgen/rlgen/ratelimit/memstore"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
	"github.com/rlgen/rlgen/rules"
)

// TestChargedAfterTheFact holds that a log counts what it is told of later as of when it was: behind what it has, and between, and for rules that see it only.
func TestChargedAfterTheFact(t *testing.T) {
	client := redistest.Standalone(t).Client(t)
	for _, algorithm := range []rules.Algorithm{rules.SlidingLog, rules.CompactLog} {
		for name, s := range map[string]store.Store{"redis": newStore(t, client), "memory": memstore.New()} {
			t.Run(algorithm.String()+" in "+name, func(t *testing.T) {
				req := store.Request{Key: redistest.Prefix(t), Algorithm: algorithm}
				for _, minutes := range []time.Duration{10, 20, 30, 40, 60} {
					req.Rules = append(req.Rules, rules.Rule{Count: 100, Window: minutes * time.Minute})
				}
				hour := req
				hour.Rules = req.Rules[4:]
				for _, late := range []struct {
					ago  time.Duration
					cost int64
				}{{45, 40}, {25, 3}, {35, 5}, {15, 2}, {35, 30}, {0, 1}, {59, 2}} {
					hour.Cost, hour.Ahead = late.cost, -late.ago*time.Minute
					if out := take(t, s, hour); !out.Allowed {
						t.Fatalf("Take of %d, %v min ago = %+v, want it allowed", late.cost, int(late.ago), out)
					}
				}
				out := take(t, s, req)
				for i, want := range []int64{99, 97, 94, 59, 17} {
					if got := out.Rules[i].Remaining; got != want {
						t.Errorf("%d remain in %v, want %d", got, req.Rules[i].Window, want)
					}
				}
				hour.Cost, hour.Ahead = 18, -time.Minute
				if out := take(t, s, hour); out.Allowed || out.Rules[0].RetryAfter <= 0 || out.Rules[0].RetryAfter > time.Minute {
					t.Errorf("Take of more than there is room for = %+v, want it denied until what is 59 min old leaves", out)
				}
				if name == "redis" {
					if ttl := client.PTTL(context.Background(), req.Key).Val(); ttl < 59*time.Minute {
						t.Errorf("the key expires in %v, want no less than the window of its newest entry", ttl)
					}
				}
			})
		}
	}
	bucket := request(redistest.Prefix(t), 5, 1)
	bucket.Algorithm, bucket.Ahead = rules.TokenBucket, -time.Minute
	if _, err := store.Take(context.Background(), newStore(t, client), []store.Request{bucket}, false); classOf(err) != store.Misconfigured {
		t.Errorf("Take of a bucket after the fact = %v, want an error of class %v", err, store.Misconfigured)
	}
}
