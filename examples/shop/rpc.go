package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"

	"go.uber.org/fx"
	"google.golang.org/grpc"

	"github.com/rlgen/rlgen/examples/shop/orders"
)

// rpc serves gRPC while the app runs.
type rpc struct {
	server *grpc.Server
	log    *slog.Logger
}

func newRPC(lc fx.Lifecycle, c config, who *caller, o orders.Orders, log *slog.Logger) *rpc {
	r := &rpc{grpc.NewServer(who.ofCall()...), log}
	orders.Register(r.server, o)
	lc.Append(fx.StartStopHook(func(ctx context.Context) error { return r.start(ctx, c.grpcAddr) }, r.server.GracefulStop))
	return r
}

func (r *rpc) start(ctx context.Context, addr string) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("-grpc: %w", err)
	}
	r.log.Info("serving", "grpc", l.Addr().String())
	go r.serve(l)
	return nil
}

// serve serves until the server is stopped, which it may be before it has begun, where another one of the program's cannot start.
func (r *rpc) serve(l net.Listener) {
	if err := r.server.Serve(l); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		r.log.Error("server ended", "error", err)
	}
}
