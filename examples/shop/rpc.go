package main

import (
	"context"
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
		return err
	}
	r.log.Info("serving", "grpc", l.Addr().String())
	go func() {
		if err := r.server.Serve(l); err != nil {
			r.log.Error("server ended", "error", err)
		}
	}()
	return nil
}
