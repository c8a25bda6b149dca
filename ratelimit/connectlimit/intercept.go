package connectlimit

import (
	"context"
	"net/http"
	"net/netip"

	"connectrpc.com/connect"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/clientaddr"
)

// Option configures an [Interceptor].
type Option interface{ apply(*interceptor) }

type optionFunc func(*interceptor)

func (f optionFunc) apply(i *interceptor) { f(i) }

// WithUserFunc makes the interceptor put the user that f finds in a call's context into it, as [ratelimit.WithUser] does; an
// empty text is no user. f gets the context as it reaches the interceptor, so what authenticates the call comes first. The default
// is to leave the context's user as it is.
func WithUserFunc(f func(context.Context) string) Option {
	return optionFunc(func(i *interceptor) { i.user = f })
}

// WithClientAddr makes the interceptor take the client's address from where source says, for programs that proxies stand before.
// The default is [clientaddr.RemoteAddr]: the address of the peer.
// It panics if source is nil.
func WithClientAddr(source clientaddr.Source) Option {
	if source == nil {
		panic("connectlimit: WithClientAddr with a nil source, want one of package clientaddr, or no WithClientAddr for clientaddr.RemoteAddr()")
	}
	return optionFunc(func(i *interceptor) { i.addr = source })
}

// Interceptor puts the caller's identity into the context of the calls that handlers get: the client's address, as [ratelimit.WithIP] does,
// and with [WithUserFunc] the user. What it finds replaces what the context had. A client without an address, as on a unix
// socket, is a caller without one: what then happens is the limit's own missing=.
//
// An error of the handler for which [Error] has one is returned as that. Calls of clients go through as they are.
func Interceptor(opts ...Option) connect.Interceptor {
	i := &interceptor{addr: clientaddr.RemoteAddr()}
	for _, o := range opts {
		o.apply(i)
	}
	return i
}

type interceptor struct {
	addr clientaddr.Source
	user func(context.Context) string // nil leaves the user as it is
}

func (i *interceptor) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		if req.Spec().IsClient {
			return next(ctx, req)
		}
		res, err := next(i.identify(ctx, req.Peer(), req.Header()), req)
		return res, said(err, req.Peer())
	}
}

func (i *interceptor) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		err := next(i.identify(ctx, conn.Peer(), conn.RequestHeader()), conn)
		return said(err, conn.Peer())
	}
}

func (i *interceptor) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

func (i *interceptor) identify(ctx context.Context, peer connect.Peer, header http.Header) context.Context {
	inner := ratelimit.WithIP(ctx, i.addr.Find(address(peer), header.Values))
	if i.user != nil {
		inner = ratelimit.WithUser(inner, i.user(ctx))
	}
	return inner
}

// address returns the address of the connection's peer, the zero Addr if there is none.
func address(peer connect.Peer) netip.Addr {
	ap, err := netip.ParseAddrPort(peer.Addr)
	if err != nil {
		return netip.Addr{}
	}
	return ap.Addr()
}

// said is what the peer is told of a handler's error: err itself where no limit is the reason.
func said(err error, peer connect.Peer) error {
	a, ok := answerTo(err)
	if !ok {
		return err
	}
	told := a.error(err)
	switch {
	case peer.Protocol != connect.ProtocolConnect && a.pushback != "":
		told.Meta().Set("Grpc-Retry-Pushback-Ms", a.pushback)
	case peer.Protocol == connect.ProtocolConnect && a.retryAfter != "":
		told.Meta().Set("Retry-After", a.retryAfter)
	}
	return told
}
