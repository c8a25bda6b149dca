package denycache_test

import (
	"context"
	"testing"
	"time"

	"github.com/rlgen/rlgen/ratelimit/internal/denycache"
	"github.com/rlgen/rlgen/ratelimit/memstore"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

var hot = []store.Request{request("rl:user=42:orders.Orders-Create", 1, rules.Rule{Count: 10, Window: time.Second}, rules.Rule{Count: 100, Window: 24 * time.Hour})}

// spent is a cache before a store that denies hot for a day.
func spent(t testing.TB) store.Store {
	behind := memstore.New()
	cache := denycache.New(behind, func() time.Duration { return 0 })
	all := hot[0]
	all.Cost = 10
	for range 11 {
		var out store.Outcome
		if err := cache.Take(context.Background(), []store.Request{all}, false, &out); err != nil {
			t.Fatal(err)
		}
	}
	return cache
}

func TestDenialsAllocateNothing(t *testing.T) {
	cache := spent(t)
	var out store.Outcome
	ask := func() {
		if err := cache.Take(context.Background(), hot, false, &out); err != nil || out.Allowed {
			t.Fatalf("Take = %+v, %v, want it denied", out, err)
		}
	}
	ask()
	if n := testing.AllocsPerRun(100, ask); n != 0 || !out.Cached {
		t.Errorf("%v allocations of %+v, want none for an answer from memory", n, out)
	}
}

func BenchmarkDenied(b *testing.B) {
	cache := spent(b)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		var out store.Outcome
		for pb.Next() {
			if err := cache.Take(context.Background(), hot, false, &out); err != nil || out.Allowed {
				b.Fatalf("Take = %+v, %v, want it denied", out, err)
			}
		}
	})
}
