// Command shop serves orders over HTTP, each method behind its limits, wired by fx.
//
//	go run ./examples/shop
//	curl -i -H 'X-User: alice' -d '{"item":"tea"}' http://127.0.0.1:8080/orders
//
// The fourth order of one user within ten seconds is answered with 429 and Retry-After. It counts in a Redis of its own;
// with REDIS_URL, such as redis://127.0.0.1:6379, in the one there. Package redisurl has the forms for TLS, Sentinel and Cluster.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/fx"

	"github.com/rlgen/rlgen/examples/shop/orders"
	"github.com/rlgen/rlgen/ratelimit/ratelimitfx"
	"github.com/rlgen/rlgen/ratelimit/redisurl"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:8080", "address to serve on")
	flag.Parse()
	fx.New(
		fx.NopLogger,
		fx.Supply(slog.Default(), listen(*addr)),
		shop(os.Getenv("REDIS_URL")),
	).Run()
}

// listen is the address to serve on.
type listen string

// shop is the program without what the command line and the tests decide: logger and address.
func shop(redisURL string) fx.Option {
	return fx.Options(
		counts(redisURL),
		ratelimitfx.Module,
		orders.RateLimitModule,
		fx.Provide(orders.NewService, newServer),
		fx.Invoke(func(*http.Server) {}),
	)
}

// counts is where the calls are counted: in the Redis at url, else in one of the program's own.
func counts(url string) fx.Option {
	if url == "" {
		return ratelimitfx.Embedded
	}
	return fx.Provide(func(lc fx.Lifecycle, log *slog.Logger) (redis.UniversalClient, error) {
		client, err := redisurl.Open(url)
		if err != nil {
			return nil, fmt.Errorf("REDIS_URL: %w", err)
		}
		redis.SetLogger(clientLog{log})
		lc.Append(fx.StopHook(client.Close))
		return client, nil
	})
}

// clientLog has the Redis client log where the program does, and not a line for each call while Redis is down: that it is, the
// limiter says once.
type clientLog struct{ log *slog.Logger }

func (l clientLog) Printf(ctx context.Context, format string, v ...any) {
	l.log.DebugContext(ctx, fmt.Sprintf(format, v...))
}

// newServer serves svc while the app runs.
func newServer(lc fx.Lifecycle, addr listen, svc orders.Orders, log *slog.Logger) *http.Server {
	server := &http.Server{
		Handler:           orders.Handler(svc),
		ReadHeaderTimeout: 5 * time.Second,
	}
	lc.Append(fx.Hook{
		OnStart: func(ctx context.Context) error {
			l, err := new(net.ListenConfig).Listen(ctx, "tcp", string(addr))
			if err != nil {
				return err
			}
			log.Info("serving", "url", "http://"+l.Addr().String())
			go func() {
				if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
					log.Error("server ended", "error", err)
				}
			}()
			return nil
		},
		OnStop: server.Shutdown,
	})
	return server
}
