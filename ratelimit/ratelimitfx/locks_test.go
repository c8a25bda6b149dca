package ratelimitfx_test

import (
	"context"
	"strings"
	"testing"

	"go.uber.org/fx"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/lock"
	"github.com/rlgen/rlgen/ratelimit/lock/redislock"
	"github.com/rlgen/rlgen/ratelimit/memstore"
	"github.com/rlgen/rlgen/ratelimit/ratelimitfx"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

var payPolicy = rules.Policy{
	Package: "example.com/shop/orders", Type: "orders.Orders", Method: "Pay",
	Limits: []rules.Limit{{Kind: rules.Lock, By: "id"}},
}

// hold is an app's only work: one call under a lock. It says what keys there are while it is held.
func hold(keys func() []string, seen *[]string) fx.Option {
	return fx.Options(policies(&payPolicy), fx.Invoke(func(l *ratelimit.Limiter) error {
		var in ratelimit.Input
		in.By("42")
		_, permit, err := l.Guard(&payPolicy).Hold(context.Background(), in)
		if err != nil {
			return err
		}
		defer permit.Done(nil)
		*seen = keys()
		return nil
	}))
}

func TestModuleKeepsLocksWhereTheAppDoes(t *testing.T) {
	memory := fx.Provide(func() store.Store { return memstore.New() })
	for _, tt := range []struct {
		name string
		app  func(t *testing.T, b backend) fx.Option
		want bool // the lock is in the backend
	}{
		{"*redis.Client", func(t *testing.T, b backend) fx.Option { return fx.Supply(b.client(t)) }, true},
		{"redis.UniversalClient", func(t *testing.T, b backend) fx.Option { return universal(b.client(t)) }, true},
		{"a client beside a store.Store", func(t *testing.T, b backend) fx.Option {
			return fx.Options(memory, fx.Supply(b.client(t)))
		}, true},
		{"*redislock.Store before a client", func(t *testing.T, b backend) fx.Option {
			s, err := redislock.New(b.client(t))
			if err != nil {
				t.Fatal(err)
			}
			return fx.Options(memory, fx.Supply(s, unreachable(t)))
		}, true},
		{"lock.Store before all", func(t *testing.T, b backend) fx.Option {
			return fx.Options(memory, fx.Provide(func() lock.Store { return lock.NewMemory() }), fx.Supply(unreachable(t)))
		}, false},
		{"in process", func(*testing.T, backend) fx.Option { return ratelimitfx.InProcess }, false},
		{"embedded", func(*testing.T, backend) fx.Option { return ratelimitfx.Embedded }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBackend(t)
			var seen []string
			if err := runWith(tt.app(t, b), ratelimitfx.Module, fx.Supply(quiet), hold(b.keys, &seen)); err != nil {
				t.Fatal(err)
			}
			const key = "rl:lock:{rl:key=42:orders.Orders-Pay@lock}"
			if got := strings.Contains(strings.Join(seen, " "), key); got != tt.want {
				t.Errorf("the server has %q, want %s there: %v", seen, key, tt.want)
			}
		})
	}
}

func TestModuleWithoutLocks(t *testing.T) {
	var seen []string
	err := runWith(fx.Provide(func() store.Store { return memstore.New() }), ratelimitfx.Module, hold(func() []string { return nil }, &seen))
	if want := "the limiter has no lock store"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("the app = %v, want that %s", err, want)
	}
}
