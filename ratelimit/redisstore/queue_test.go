package redisstore_test

import (
	"slices"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/redisstore"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// TestQueueLook: who asks a queue for nothing waits for nothing, also where one call of the script carries him behind another who waits.
func TestQueueLook(t *testing.T) {
	server := miniredis.RunT(t)
	server.SetTime(time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC))
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { client.Close() })
	queue := store.Request{
		Key: "queue", Algorithm: rules.LeakyBucket, Queue: true, Wait: time.Hour, Rules: []rules.Rule{{Count: 2, Window: time.Second}}, Cost: 1,
	}
	look := queue
	look.Cost = 0
	got, err := redisstore.Delays(newStore(t, client), queue, queue, look)
	if want := []int64{0, 500_000, 0}; err != nil || !slices.Equal(got, want) {
		t.Errorf("delays of two calls and a look = %v, %v, want %v", got, err, want)
	}
}
