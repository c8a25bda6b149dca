package ratelimit_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/memstore"
	"github.com/rlgen/rlgen/rules"
)

// BenchmarkGuardTake asks, in turn for 1,000 users, the store in this process: the guard's own cost is what is more than that of
// memstore's BenchmarkTake.
func BenchmarkGuardTake(b *testing.B) {
	for _, test := range []struct {
		name  string
		rules []rules.Rule
	}{
		{"allowed", []rules.Rule{{Count: 1_000_000_000, Window: time.Hour}}},
		{"denied", []rules.Rule{{Count: 1, Window: time.Hour}}},
	} {
		b.Run(test.name, func(b *testing.B) {
			guard := guardOf(b, rules.Limit{Kind: rules.User, Algorithm: rules.FixedWindow, Rules: test.rules})
			callers := make([]context.Context, 1000)
			for i := range callers {
				callers[i] = ratelimit.WithUser(context.Background(), strconv.Itoa(i))
				guard.Take(callers[i])
			}
			i := 0
			b.ReportAllocs()
			for b.Loop() {
				if _, err := guard.Take(callers[i]); (err == nil) != (test.name == "allowed") {
					b.Fatal(err)
				}
				if i++; i == len(callers) {
					i = 0
				}
			}
		})
	}
}

func guardOf(t testing.TB, limits ...rules.Limit) *ratelimit.Guard {
	t.Helper()
	l, err := ratelimit.New(memstore.New())
	if err != nil {
		t.Fatal(err)
	}
	return l.Guard(&rules.Policy{Package: "example.com/shop", Type: "shop.Orders", Method: "Create", Limits: limits})
}
