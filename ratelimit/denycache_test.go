package ratelimit_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
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

type listener struct{ sources []ratelimit.Source }

func (l *listener) Observe(_ context.Context, d *ratelimit.Decision, _ error) {
	l.sources = l.sources[:0]
	for i := range d.Limits {
		l.sources = append(l.sources, d.Limits[i].Source)
	}
}

// Who hammers at an empty limit reaches a remote store once, whoever is told of the decisions, and whatever other rules and limits there are that have room.
func TestDeniedOnceWhereSomebodyListens(t *testing.T) {
	minute, hour := rules.Rule{Count: 3, Window: time.Minute}, rules.Rule{Count: 100, Window: time.Hour}
	global := func(rs ...rules.Rule) rules.Limit { return rules.Limit{Kind: rules.Global, Rules: rs} }
	wide := rules.Limit{Kind: rules.Key, By: "x", Rules: []rules.Rule{{Count: 5000, Window: time.Second}}}
	for _, test := range []struct {
		name            string
		limits          []rules.Limit
		observes, watch bool
	}{
		{"one rule", []rules.Limit{global(minute)}, false, false},
		{"one rule, observer", []rules.Limit{global(minute)}, true, false},
		{"two rules", []rules.Limit{global(minute, hour)}, false, false},
		{"two rules, observer", []rules.Limit{global(minute, hour)}, true, false},
		{"two rules, watched", []rules.Limit{global(minute, hour)}, false, true},
		{"two limits, observer", []rules.Limit{global(minute), wide}, true, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				asked := &counted{Store: memstore.New()}
				heard := &listener{}
				opts := []ratelimit.Option{ratelimit.WithInstances(1), ratelimit.WithLogger(slog.New(slog.DiscardHandler))}
				if test.observes {
					opts = append(opts, ratelimit.WithObserver(heard))
				}
				l, err := ratelimit.New(remote{asked}, opts...)
				if err != nil {
					t.Fatal(err)
				}
				ctx := context.Background()
				if test.watch {
					ctx = ratelimit.Watch(ctx, heard)
				}
				in := make([]ratelimit.Input, len(test.limits))
				for i := range in {
					if test.limits[i].By != "" {
						in[i].By("x")
					}
				}
				guard := l.Guard(&rules.Policy{Package: "example.com/shop", Type: "shop.Orders", Method: "Create", Limits: test.limits})
				for range 3 {
					if _, err := guard.Take(ctx, in...); err != nil {
						t.Fatal(err)
					}
				}
				before := asked.asks
				for range 100 {
					if _, err := guard.Take(ctx, in...); !errors.Is(err, ratelimit.ErrExceeded) {
						t.Fatal(err)
					}
				}
				if n := asked.asks - before; n != 1 {
					t.Errorf("of 100 calls that are denied, %d reach the store, want one", n)
				}
				if want := slices.Repeat([]ratelimit.Source{ratelimit.SourceCache}, len(test.limits)); (test.observes || test.watch) && !slices.Equal(heard.sources, want) {
					t.Errorf("the last decision is by %v, want %v", heard.sources, want)
				}
			})
		})
	}
}
