package redisstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/ratelimit/storetest"
	"github.com/rlgen/rlgen/rules"
)

// TestOthersEntriesOutliveACall: a version of a service with shorter windows leaves the key for as long as those of another count.
func TestOthersEntriesOutliveACall(t *testing.T) {
	server := miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { client.Close() })
	s := newStore(t, client)
	for _, window := range []time.Duration{time.Hour, time.Minute, time.Second} {
		take(t, s, store.Request{Key: "k", Algorithm: rules.GCRA, Rules: []rules.Rule{{Count: 1, Window: window}}, Cost: 1})
		if ttl := server.TTL("k"); ttl < time.Hour-time.Minute {
			t.Errorf("the key expires in %v after a call of a window of %v, want as long as the hour's counts", ttl, window)
		}
	}
}

// TestKeysOutliveWhatCounts: a key that is given an expiry outlives what counts by a second, and one that keeps what it has by a
// millisecond at least, as far as servers may be off that tell of whole ones.
func TestKeysOutliveWhatCounts(t *testing.T) {
	for _, window := range []time.Duration{1500 * time.Microsecond, 2 * time.Millisecond} {
		for name, req := range storetest.Requests(t, "", 9, window) {
			t.Run(name+" in "+window.String(), func(t *testing.T) {
				server := miniredis.RunT(t)
				client := redis.NewClient(&redis.Options{Addr: server.Addr()})
				t.Cleanup(func() { client.Close() })
				clock := storetest.NewClock()
				clock.OnMove(server.SetTime)
				s, most := newStore(t, client), time.Second
				for _, step := range []time.Duration{0, time.Millisecond, 998 * time.Millisecond, 500 * time.Microsecond, 500 * time.Microsecond, 500 * time.Microsecond} {
					server.FastForward(step)
					clock.Move(step)
					out, err := store.Take(context.Background(), s, []store.Request{req}, true)
					if err != nil || !out.Allowed {
						t.Fatalf("%v on: Take = %+v, %v, want it allowed", step, out, err)
					}
					if ttl, reset := server.TTL(req.Key), out.Rules[0].ResetAfter; ttl < reset+most {
						t.Errorf("%v on: the key expires in %v, want what counts, for %v, and %v more", step, ttl, reset, most)
					}
					most = time.Millisecond
				}
			})
		}
	}
}
