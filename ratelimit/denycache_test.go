package ratelimit_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/memstore"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// remote is a store that is far away, and counts how often it is asked.
type remote struct {
	*counted
}

func (remote) Remote() {}

// A caller who hammers at an empty limit reaches a remote store once, and any other store each time.
func TestDeniedOnce(t *testing.T) {
	here := func(c *counted) store.Store { return c }
	away := func(c *counted) store.Store { return remote{c} }
	for _, test := range []struct {
		name   string
		make   func(*counted) store.Store
		opts   []ratelimit.Option
		asks   int
		source ratelimit.Source
	}{
		{"remote", away, nil, 2, ratelimit.SourceCache},
		{"remote, without the cache", away, []ratelimit.Option{ratelimit.WithoutDenyCache()}, 6, ratelimit.SourceStore},
		{"not remote", here, nil, 6, ratelimit.SourceStore},
	} {
		t.Run(test.name, func(t *testing.T) {
			asked := &counted{Store: memstore.New()}
			l, err := ratelimit.New(test.make(asked), append(test.opts, ratelimit.WithLogger(slog.New(slog.DiscardHandler)))...)
			if err != nil {
				t.Fatal(err)
			}
			guard := l.Guard(&rules.Policy{Package: "example.com/shop", Type: "shop.Orders", Method: "Create", Limits: []rules.Limit{
				{Kind: rules.Global, Rules: []rules.Rule{{Count: 1, Window: time.Hour}}},
			}})
			ctx := context.Background()
			first, err := guard.Take(ctx)
			if err != nil {
				t.Fatal(err)
			}
			var last ratelimit.Decision
			for range 5 {
				d, _, err := guard.Decide(ctx)
				if err != nil || d.Allowed {
					t.Fatalf("Decide = %+v, %v, want it denied", d, err)
				}
				last = d
			}
			if asked.asks != test.asks || last.Limits[0].Source != test.source {
				t.Errorf("the store was asked %d times, and the last decision is by %v, want %d and %v", asked.asks, last.Limits[0].Source, test.asks, test.source)
			}
			if err := first.GiveBack(ctx); err != nil {
				t.Fatal(err)
			}
			if _, err := guard.Take(ctx); err != nil {
				t.Errorf("Take after the permit was given back = %v, want it allowed", err)
			}
			if _, err := guard.Take(ctx); !errors.Is(err, ratelimit.ErrExceeded) {
				t.Errorf("Take = %v, want ErrExceeded", err)
			}
		})
	}
}
