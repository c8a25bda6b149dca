package memstore_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/rlgen/rlgen/ratelimit/memstore"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// BenchmarkTake asks for 10,000 ids in turn, and allows nearly all of it.
func BenchmarkTake(b *testing.B) {
	for _, test := range []struct {
		name string
		req  store.Request
	}{
		{"gcra", store.Request{Algorithm: rules.GCRA}},
		{"token-bucket", store.Request{Algorithm: rules.TokenBucket}},
		{"interval", store.Request{Algorithm: rules.TokenBucket, Refill: rules.RefillInterval}},
		{"leaky-bucket", store.Request{Algorithm: rules.LeakyBucket}},
		{"fixed-window", store.Request{Algorithm: rules.FixedWindow}},
		{"sliding-window", store.Request{Algorithm: rules.SlidingWindow}},
		{"sliding-log", store.Request{Algorithm: rules.SlidingLog}},
		{"compact-log", store.Request{Algorithm: rules.CompactLog}},
	} {
		b.Run(test.name, func(b *testing.B) { take(b, test.req, 100, 10*time.Millisecond) })
	}
	b.Run("sliding-log/10000", func(b *testing.B) { take(b, store.Request{}, 10_000, 100*time.Millisecond) })
}

func take(b *testing.B, req store.Request, count int64, window time.Duration) {
	req.Rules, req.Cost = []rules.Rule{{Count: count, Window: window}}, 1
	ids := 10_000
	if count > 1000 {
		ids = 10
	}
	requests := make([][]store.Request, ids)
	for i := range requests {
		requests[i] = []store.Request{req}
		requests[i][0].Key = "rl:user=" + strconv.Itoa(i) + ":orders.Orders-Create"
	}
	s := memstore.New()
	ctx := context.Background()
	var out store.Outcome
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Take(ctx, requests[i], false, &out); err != nil {
			b.Fatal(err)
		}
		if i++; i == ids {
			i = 0
		}
	}
}
