package main

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/redisstore"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
	"github.com/rlgen/rlgen/rules"
)

// TestBytesPerID uses limits up for the longest id and asks a server how much memory they take: never more than rlgen
// list says, and not much less.
func TestBytesPerID(t *testing.T) {
	client := redistest.Start(t).Client(t)
	s, err := redisstore.New(client, redisstore.WithBudget(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	prefix := strings.Trim(redistest.Prefix(t), ":")
	for _, directive := range []string{
		"//ratelimit:user 1,1h",
		"//ratelimit:user 10,1h",
		"//ratelimit:user 100,1h",
		"//ratelimit:user 128,1h",
		"//ratelimit:user 129,1h",
		"//ratelimit:user 1025,1h",
		"//ratelimit:user 10000,1h",
		"//ratelimit:user 10,1h algo=token-bucket",
		"//ratelimit:user 900,1m 1000,1h algo=token-bucket",
		"//ratelimit:user 1000,1h algo=leaky-bucket",
		"//ratelimit:user 7,1h burst=1000 algo=gcra",
	} {
		t.Run(directive, func(t *testing.T) {
			d, err := rules.Parse(directive)
			if err != nil {
				t.Fatal(err)
			}
			p := &rules.Policy{Package: "example.com/orders", Type: "orders.Orders", Method: "Create", Limits: []rules.Limit{d.Limit}}
			key := strings.Replace(p.KeyTemplate(0), "<id>", prefix, 1)
			key += strings.Repeat("x", int(keyLength(p, 0))-len(key))
			useUp(t, s, &p.Limits[0], key)
			got, want := memory(t, client, key), bytesPerID(p, 0)
			if got > want || got < want/2 {
				t.Errorf("%s takes %d bytes, want at most the %d that rlgen list says, and half of it at least", directive, got, want)
			}
		})
	}
}

// useUp takes permits one at a time until there are no more.
func useUp(t *testing.T, s store.Store, limit *rules.Limit, key string) {
	t.Helper()
	for {
		out, err := s.Take(t.Context(), []store.Request{store.NewRequest(limit, key, 1)}, false)
		if err != nil {
			t.Fatal(err)
		}
		if !out.Allowed {
			return
		}
	}
}

func memory(t *testing.T, client *redis.Client, key string) int64 {
	t.Helper()
	n, err := client.MemoryUsage(t.Context(), key, 0).Result()
	if err != nil {
		t.Fatal(err)
	}
	return n
}
