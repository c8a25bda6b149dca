package grpclimit

import (
	"context"
	"net/netip"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/clientaddr"
)

// Option configures the interceptors.
type Option interface{ apply(*identifier) }

type optionFunc func(*identifier)

func (f optionFunc) apply(i *identifier) { f(i) }

// WithUserFunc makes the interceptors put the user that f finds in a call's context into it, as [ratelimit.WithUser] does; an
// empty text is no user. f gets the context as it reaches the interceptor, so what authenticates the call comes first, and f
// trusts no metadata that the caller could have written. The default is to leave the context's user as it is.
func WithUserFunc(f func(context.Context) string) Option {
	return optionFunc(func(i *identifier) { i.user = f })
}

// WithClientAddr makes the interceptors take the client's address from where source says, which reads metadata as it reads the
// headers of HTTP, for programs that proxies stand before. The default is [clientaddr.RemoteAddr]: the address of the peer.
// It panics if source is nil.
func WithClientAddr(source clientaddr.Source) Option {
	if source == nil {
		panic("grpclimit: WithClientAddr with a nil source, want one of package clientaddr, or no WithClientAddr for clientaddr.RemoteAddr()")
	}
	return optionFunc(func(i *identifier) { i.addr = source })
}

// UnaryServerInterceptor puts the caller's identity into the call's context: the client's address, as [ratelimit.WithIP] does,
// and with [WithUserFunc] the user. What it finds replaces what the context had. A client without an address, as on a unix
// socket, is a caller without one: what then happens is the limit's own missing=.
//
// An error of the handler for which [Status] has one is returned with that status.
func UnaryServerInterceptor(opts ...Option) grpc.UnaryServerInterceptor {
	i := newIdentifier(opts)
	return func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		res, err := next(i.identify(ctx), req)
		a, ok := answerTo(err)
		if !ok {
			return res, err
		}
		if a.pushback != "" {
			_ = grpc.SetTrailer(ctx, a.trailer()) // fails only where there is no server to send it
		}
		return nil, &statusError{a.status, err}
	}
}

// StreamServerInterceptor is [UnaryServerInterceptor] for streams: the identity is in the stream's context.
func StreamServerInterceptor(opts ...Option) grpc.StreamServerInterceptor {
	i := newIdentifier(opts)
	return func(srv any, s grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
		err := next(srv, &identified{s, i.identify(s.Context())})
		a, ok := answerTo(err)
		if !ok {
			return err
		}
		if a.pushback != "" {
			s.SetTrailer(a.trailer())
		}
		return &statusError{a.status, err}
	}
}

func (a answer) trailer() metadata.MD {
	return metadata.Pairs("grpc-retry-pushback-ms", a.pushback)
}

// identified is a stream whose context has the identity of its caller.
type identified struct {
	grpc.ServerStream
	ctx context.Context
}

func (s *identified) Context() context.Context { return s.ctx }

type identifier struct {
	addr clientaddr.Source
	user func(context.Context) string // nil leaves the user as it is
}

func newIdentifier(opts []Option) *identifier {
	i := &identifier{addr: clientaddr.RemoteAddr()}
	for _, o := range opts {
		o.apply(i)
	}
	return i
}

func (i *identifier) identify(ctx context.Context) context.Context {
	lines := func(name string) []string { return metadata.ValueFromIncomingContext(ctx, name) }
	inner := ratelimit.WithIP(ctx, i.addr.Find(peerAddr(ctx), lines))
	if i.user != nil {
		inner = ratelimit.WithUser(inner, i.user(ctx))
	}
	return inner
}

// peerAddr returns the address of the connection's peer, the zero Addr if there is none.
func peerAddr(ctx context.Context) netip.Addr {
	p, ok := peer.FromContext(ctx)
	if !ok || p.Addr == nil {
		return netip.Addr{}
	}
	ap, err := netip.ParseAddrPort(p.Addr.String())
	if err != nil {
		return netip.Addr{}
	}
	return ap.Addr()
}
