package ratelimit_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/memstore"
	"github.com/rlgen/rlgen/rules"
)

// BenchmarkDenied asks for a user whom a remote store has denied: from memory, through the guard.
func BenchmarkDenied(b *testing.B) {
	l, err := ratelimit.New(remote{&counted{Store: memstore.New()}}, ratelimit.WithInstances(1), ratelimit.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		b.Fatal(err)
	}
	guard := l.Guard(&rules.Policy{Package: "example.com/shop", Type: "shop.Orders", Method: "Create", Limits: []rules.Limit{
		{Kind: rules.User, Rules: []rules.Rule{{Count: 10, Window: time.Hour}, {Count: 100, Window: 24 * time.Hour}}, Algorithm: rules.CompactLog},
	}})
	ctx := ratelimit.WithUser(context.Background(), "42")
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			guard.Take(ctx)
		}
	})
}
