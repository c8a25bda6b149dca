package main

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/rlgen/rlgen/examples/shop/accounts"
	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/clientaddr"
	"github.com/rlgen/rlgen/ratelimit/grpclimit"
	"github.com/rlgen/rlgen/ratelimit/httplimit"
)

// caller finds out who is calling, for limits by ip and by user, and for those of plans.
//
// The user is whom the header X-User names, so that the example can be tried with curl. A real service takes the user from what it has
// authenticated, which then stands before this.
type caller struct {
	addr     clientaddr.Source
	accounts accounts.Accounts
}

func newCaller(c config, a accounts.Accounts) (*caller, error) {
	addr, err := behind(c.proxies)
	return &caller{addr, a}, err
}

// behind is where the address of a client is found behind proxies in networks. Without any, no header is trusted.
func behind(networks string) (clientaddr.Source, error) {
	if networks == "" {
		return clientaddr.RemoteAddr(), nil
	}
	var trusted []netip.Prefix
	for text := range strings.SplitSeq(networks, ",") {
		network, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("-proxies: %w, want networks such as 10.0.0.0/8,fd00::/8", err)
		}
		trusted = append(trusted, network)
	}
	return clientaddr.XFFTrustedCIDRs(trusted...), nil
}

// ofRequest returns a handler that puts the caller of a request into its context.
func (c *caller) ofRequest(next http.Handler) http.Handler {
	user := func(r *http.Request) string { return r.Header.Get("X-User") }
	planned := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(c.withPlan(r.Context())))
	})
	return httplimit.Identify(httplimit.WithClientAddr(c.addr), httplimit.WithUserFunc(user))(planned)
}

// withPlan puts the plan of the context's user beside him.
func (c *caller) withPlan(ctx context.Context) context.Context {
	if user, ok := ratelimit.UserFrom(ctx); ok {
		return ratelimit.WithPlan(ctx, c.accounts.Plan(user))
	}
	return ctx
}

// ofCall are the interceptors that put the caller of a gRPC call into its context, and answer with what limits say.
func (c *caller) ofCall() []grpc.ServerOption {
	user := func(ctx context.Context) string {
		if names := metadata.ValueFromIncomingContext(ctx, "x-user"); len(names) == 1 {
			return names[0]
		}
		return ""
	}
	opts := []grpclimit.Option{grpclimit.WithClientAddr(c.addr), grpclimit.WithUserFunc(user)}
	return []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(grpclimit.UnaryServerInterceptor(opts...), c.planUnary),
		grpc.ChainStreamInterceptor(grpclimit.StreamServerInterceptor(opts...), c.planStream),
	}
}

func (c *caller) planUnary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	return next(c.withPlan(ctx), req)
}

func (c *caller) planStream(srv any, s grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	return next(srv, planned{s, c.withPlan(s.Context())})
}

// planned is a stream whose context has the plan of its caller.
type planned struct {
	grpc.ServerStream
	ctx context.Context
}

func (s planned) Context() context.Context { return s.ctx }
