package redisstore_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
	"github.com/rlgen/rlgen/rules"
)

// BenchmarkTake decides two rules of one of 10,000 ids, with 1 and 64 callers.
func BenchmarkTake(b *testing.B) {
	client := redistest.Standalone(b).Client(b)
	s := newStore(b, client)
	requests := make([][]store.Request, 10_000)
	p := redistest.Prefix(b)
	for i := range requests {
		requests[i] = []store.Request{{
			Key:   fmt.Sprint(p, i),
			Rules: []rules.Rule{{Count: 10, Window: time.Second}, {Count: 100, Window: time.Minute}},
			Cost:  1,
		}}
	}
	ask := func() {
		if _, err := store.Take(context.Background(), s, requests[rand.IntN(len(requests))], false); err != nil {
			b.Error(err)
		}
	}
	b.Run("callers=1", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			ask()
		}
	})
	b.Run("callers=64", func(b *testing.B) {
		b.ReportAllocs()
		b.SetParallelism(32)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				ask()
			}
		})
	})
}

// BenchmarkBare is what Take cannot do without: the round trip of an empty script.
func BenchmarkBare(b *testing.B) {
	client := redistest.Standalone(b).Client(b)
	script := redis.NewScript("return {1}")
	ask := func() {
		if err := script.Run(context.Background(), client, []string{"k"}, 1).Err(); err != nil {
			b.Error(err)
		}
	}
	b.Run("callers=1", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			ask()
		}
	})
	b.Run("callers=64", func(b *testing.B) {
		b.ReportAllocs()
		b.SetParallelism(32)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				ask()
			}
		})
	})
}
