package redisstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/redisstore"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
	"github.com/rlgen/rlgen/rules"
)

// newStore returns a store that asks client.
func newStore(t testing.TB, client redis.UniversalClient, opts ...redisstore.Option) *redisstore.Store {
	t.Helper()
	s, err := redisstore.New(client, append([]redisstore.Option{redisstore.WithBudget(10 * time.Second), redisstore.Mutated(t)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// request asks for cost from a rule of count in an hour.
func request(key string, count, cost int64) store.Request {
	return store.Request{Key: key, Rules: []rules.Rule{{Count: count, Window: time.Hour}}, Cost: cost}
}

// take takes requests and fails the test if they are not decided.
func take(t testing.TB, s store.Store, requests ...store.Request) store.Outcome {
	t.Helper()
	out, err := store.Take(context.Background(), s, requests, true)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestServerTime(t *testing.T) {
	s := newStore(t, redistest.Standalone(t).Client(t))
	key := redistest.Prefix(t)
	if out := take(t, s, request(key, 1, 1)); !out.Allowed || out.Rules[0].ResetAfter != time.Hour {
		t.Fatalf("first Take = %+v, want allowed with a reset after 1h", out)
	}
	out := take(t, s, request(key, 1, 1))
	if out.Allowed || out.Rules[0].RetryAfter <= 59*time.Minute || out.Rules[0].RetryAfter >= time.Hour {
		t.Fatalf("second Take = %+v, want denied with a retry after almost 1h", out)
	}
}
