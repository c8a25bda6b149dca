package httplimit

import (
	"net/http"
	"net/netip"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/clientaddr"
)

// Option configures [Identify].
type Option interface{ apply(*identifier) }

type optionFunc func(*identifier)

func (f optionFunc) apply(i *identifier) { f(i) }

// WithUserFunc makes [Identify] put the user that f finds in a request into its context, as [ratelimit.WithUser] does; an
// empty text is no user. f gets the request as it reaches the middleware, so what authenticates the request comes
// first, and f trusts nothing that the caller could have written. The default is to leave the context's user as it is.
func WithUserFunc(f func(*http.Request) string) Option {
	return optionFunc(func(i *identifier) { i.user = f })
}

// WithClientAddr makes [Identify] take the client's address from where source says, for programs that proxies stand before.
// The default is [clientaddr.RemoteAddr]: the address of the TCP peer.
// It panics if source is nil.
func WithClientAddr(source clientaddr.Source) Option {
	if source == nil {
		panic("httplimit: WithClientAddr with a nil source, want one of package clientaddr, or no WithClientAddr for clientaddr.RemoteAddr()")
	}
	return optionFunc(func(i *identifier) { i.addr = source })
}

type identifier struct {
	addr clientaddr.Source
	user func(*http.Request) string // nil leaves the user as it is
}

// Identify returns a middleware that puts the caller's identity into the request's context: the client's address, as
// [ratelimit.WithIP] does, and with [WithUserFunc] the user. What it finds replaces what the context had. A client without an
// address, as on a unix socket, is a caller without one: what then happens is the limit's own missing=.
func Identify(opts ...Option) func(http.Handler) http.Handler {
	i := identifier{addr: clientaddr.RemoteAddr()}
	for _, o := range opts {
		o.apply(&i)
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			serveCopy(next, w, r, i.identify(r))
		})
	}
}

// identify returns r with the identity of its caller.
func (i *identifier) identify(r *http.Request) *http.Request {
	ctx := ratelimit.WithIP(r.Context(), i.addr.Find(peer(r), r.Header.Values))
	if i.user != nil {
		ctx = ratelimit.WithUser(ctx, i.user(r))
	}
	return r.WithContext(ctx)
}

// peer returns the address of the TCP peer, the zero Addr if there is none. The server writes RemoteAddr as address and port;
// anything else is not an address of a peer, and no reason to guess one.
func peer(r *http.Request) netip.Addr {
	ap, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || ap.Addr().IsUnspecified() {
		return netip.Addr{}
	}
	return ap.Addr()
}
