package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"go.uber.org/fx"

	"github.com/rlgen/rlgen/examples/shop/accounts"
	"github.com/rlgen/rlgen/examples/shop/orders"
	"github.com/rlgen/rlgen/ratelimit/httplimit"
)

// web serves HTTP while the app runs.
type web struct {
	server *http.Server
	log    *slog.Logger
}

func newWeb(lc fx.Lifecycle, c config, who *caller, o orders.Orders, a accounts.Accounts, p page, log *slog.Logger) *web {
	w := &web{&http.Server{Handler: routes(who, o, a, p), ReadHeaderTimeout: 5 * time.Second}, log}
	lc.Append(fx.StartStopHook(func(ctx context.Context) error { return w.start(ctx, c.addr) }, w.server.Shutdown))
	return w
}

// routes is what is served where. Every answer of the services says what their limits have left, in RateLimit and RateLimit-Policy. A real service has
// the page of metrics on a port that the world does not reach.
func routes(who *caller, o orders.Orders, a accounts.Accounts, p page) http.Handler {
	services := http.NewServeMux()
	services.Handle("/orders", orders.Handler(o))
	services.Handle("/orders/", orders.Handler(o))
	services.Handle("POST /login", accounts.Handler(a))

	all := http.NewServeMux()
	all.Handle("/", httplimit.Headers()(who.ofRequest(services)))
	all.Handle("GET /metrics", p)
	return all
}

func (w *web) start(ctx context.Context, addr string) error {
	at, err := listen(ctx, w.server, addr, w.log)
	if err != nil {
		return fmt.Errorf("-addr: %w", err)
	}
	w.log.Info("serving", "url", "http://"+at)
	return nil
}

// listen serves until the server is shut down, and returns at which address.
func listen(ctx context.Context, server *http.Server, addr string, log *slog.Logger) (at string, err error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return "", err
	}
	go func() {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.Error("server ended", "error", err)
		}
	}()
	return l.Addr().String(), nil
}
