package ratelimitwire_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/embedded"
	"github.com/rlgen/rlgen/ratelimit/memstore"
	"github.com/rlgen/rlgen/ratelimit/ratelimitwire"
	"github.com/rlgen/rlgen/ratelimit/ratelimitwire/testdata/shop"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// counter counts the decisions that it observes.
type counter struct{ n atomic.Int64 }

func (c *counter) Observe(context.Context, *ratelimit.Decision, error) { c.n.Add(1) }

// TestInjectors holds that what wire makes of each set gives the server the limited service.
func TestInjectors(t *testing.T) {
	redisServer, err := embedded.Start(embedded.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	defer redisServer.Close()
	client := redis.NewClient(&redis.Options{Addr: redisServer.Addr()})
	defer client.Close()
	var seen counter

	for _, tt := range []struct {
		name   string
		inject func() (*shop.Server, func(), error)
		seen   int64 // calls that the observer sees
	}{
		{"OverClient", func() (*shop.Server, func(), error) { return shop.OverClient(client) }, 0},
		{"WithOptions", func() (*shop.Server, func(), error) {
			return shop.WithOptions(client, ratelimitwire.Options{ratelimit.WithObserver(&seen)})
		}, 2},
		{"OverStore", func() (*shop.Server, func(), error) { return shop.OverStore(memstore.New()) }, 0},
		{"Embedded", shop.Embedded, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			server, cleanup, err := tt.inject()
			if err != nil {
				t.Fatal(err)
			}
			defer cleanup()
			ctx := ratelimit.WithUser(context.Background(), tt.name)
			if err := server.Orders.Create(ctx); err != nil {
				t.Errorf("Create = %v, want nil", err)
			}
			if err := server.Orders.Create(ctx); !errors.Is(err, ratelimit.ErrExceeded) {
				t.Errorf("second Create = %v, want ErrExceeded", err)
			}
			if n := seen.n.Swap(0); n != tt.seen {
				t.Errorf("the observer saw %d calls, want %d", n, tt.seen)
			}
		})
	}
	if err := client.Ping(context.Background()).Err(); err != nil {
		t.Errorf("Ping = %v, want the client open", err)
	}
}

func TestInjectorsFail(t *testing.T) {
	if _, _, err := shop.WithOptions(nil, nil); err == nil {
		t.Error("WithOptions(nil client) succeeds, want an error")
	}
	if _, _, err := shop.OverStore(nil); err == nil {
		t.Error("OverStore(nil) succeeds, want an error")
	}
	opts := ratelimitwire.Options{ratelimit.WithInstances(0)}
	client := redis.NewClient(&redis.Options{})
	defer client.Close()
	if _, _, err := shop.WithOptions(client, opts); err == nil {
		t.Error("WithOptions(0 instances) succeeds, want an error")
	}
}
