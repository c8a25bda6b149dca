// Command quickstart calls a limited service as two users from two addresses and prints what every limit said to each
// call, and the keys that are in Redis afterwards.
//
// It brings a Redis of its own. With REDIS_URL, such as redis://127.0.0.1:6379, it uses the one there.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/examples/quickstart/shop"
	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/embedded"
	"github.com/rlgen/rlgen/ratelimit/redisstore"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := run(ctx, os.Stdout, os.Stderr, os.Getenv("REDIS_URL")); err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
}

// calls are who calls, and from where.
var calls = []struct{ user, addr string }{
	{"alice", "203.0.113.7"},
	{"alice", "203.0.113.7"},
	{"alice", "203.0.113.7"},
	{"alice", "203.0.113.7"}, // alice's fourth within ten seconds
	{"bob", "203.0.113.7"},
	{"bob", "203.0.113.7"}, // the fifth from this address that would pass
	{"bob", "198.51.100.9"},
	{"alice", "198.51.100.9"}, // another address is no way around alice's own limit
}

func run(ctx context.Context, out, log io.Writer, redisURL string) error {
	client, stop, err := connect(ctx, log, redisURL)
	if err != nil {
		return err
	}
	defer stop()

	earlier, err := keys(ctx, client)
	if err != nil {
		return err
	}
	if len(earlier) > 0 {
		fmt.Fprintf(out, "Redis still has %d keys of an earlier run: what they count is in the answers.\n\n", len(earlier))
	}

	s, err := redisstore.New(client, redisstore.WithBudget(time.Second)) // so that Redis decides on a busy machine, too
	if err != nil {
		return err
	}
	report := &report{}
	limiter, err := ratelimit.New(s, ratelimit.WithObserver(report))
	if err != nil {
		return err
	}
	var orders shop.Orders = shop.NewRateLimitedOrders(&shop.Service{}, limiter)

	for _, c := range calls {
		report.caller(c.user, c.addr)
		ctx := ratelimit.WithUser(ctx, c.user)
		ctx = ratelimit.WithIP(ctx, netip.MustParseAddr(c.addr))
		if _, err := orders.Create(ctx, "tea"); err != nil && !errors.Is(err, ratelimit.ErrExceeded) {
			return err
		}
	}
	placed, err := orders.Count(ctx)
	if err != nil {
		return err
	}
	report.print(out)
	fmt.Fprintf(out, "\n%d calls reached the service. A call that one limit denies is charged to none of the others.\n\n", placed)
	return printKeys(ctx, out, client)
}

// connect returns a client of the Redis at url, or of one inside this process, and what ends it.
func connect(ctx context.Context, log io.Writer, url string) (*redis.Client, func(), error) {
	if url == "" {
		server, err := embedded.Start(embedded.WithLogger(slog.New(slog.NewTextHandler(log, nil))))
		if err != nil {
			return nil, nil, err
		}
		return server.Client(), func() { server.Close() }, nil
	}
	opts, err := redis.ParseURL(url)
	if err != nil {
		return nil, nil, errors.New("REDIS_URL is not the URL of a Redis, want redis://host:port or redis://user:password@host:port/db")
	}
	client := redis.NewClient(opts)
	if err := client.Ping(ctx).Err(); err != nil {
		client.Close()
		return nil, nil, fmt.Errorf("no Redis at REDIS_URL: %w; leave REDIS_URL out to use the built-in one", err)
	}
	return client, func() { client.Close() }, nil
}
