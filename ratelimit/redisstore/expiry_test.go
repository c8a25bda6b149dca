package redisstore_test

import (
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/store"
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
