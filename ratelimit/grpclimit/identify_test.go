package grpclimit_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/clientaddr"
	"github.com/rlgen/rlgen/ratelimit/grpclimit"
	"github.com/rlgen/rlgen/ratelimit/ratelimittest"
	"github.com/rlgen/rlgen/rules"
)

// identified returns the context that handlers get where ctx comes in.
func identified(t *testing.T, ctx context.Context, opts ...grpclimit.Option) context.Context {
	t.Helper()
	var got context.Context
	_, err := grpclimit.UnaryServerInterceptor(opts...)(ctx, nil, nil, func(ctx context.Context, _ any) (any, error) {
		got = ctx
		return nil, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// named is an address as servers behind other transports give it.
type named string

func (named) Network() string  { return "named" }
func (n named) String() string { return string(n) }

func TestIdentifyTakesThePeersAddress(t *testing.T) {
	for _, tt := range []struct {
		addr net.Addr
		want string // "" is no address
	}{
		{&net.TCPAddr{IP: net.ParseIP("203.0.113.7"), Port: 1234}, "203.0.113.7"},
		{&net.TCPAddr{IP: net.ParseIP("2001:db8::1"), Port: 443}, "2001:db8::1"},
		{&net.TCPAddr{IP: net.ParseIP("fe80::1"), Zone: "eth0", Port: 443}, "fe80::1"},
		{named("203.0.113.7:1234"), "203.0.113.7"},
		{named("[::ffff:203.0.113.7]:80"), "203.0.113.7"},

		{&net.TCPAddr{}, ""},
		{&net.TCPAddr{IP: net.IPv4zero, Port: 1}, ""},
		{&net.UnixAddr{Name: "@", Net: "unix"}, ""},
		{named("bufconn"), ""},
		{named("203.0.113.7"), ""},
		{named("localhost:80"), ""},
		{named(""), ""},
		{nil, ""},
	} {
		t.Run(fmt.Sprint(tt.addr), func(t *testing.T) {
			// What an earlier interceptor left must not stand in for a peer without an address.
			ctx := ratelimit.WithIP(t.Context(), netip.MustParseAddr("198.51.100.9"))
			got, ok := ratelimit.IPFrom(identified(t, peer.NewContext(ctx, &peer.Peer{Addr: tt.addr})))
			if ok != (tt.want != "") || ok && got.String() != tt.want {
				t.Errorf("address = %v, %t, want %q", got, ok, tt.want)
			}
		})
	}
	t.Run("no peer", func(t *testing.T) {
		if got, ok := ratelimit.IPFrom(identified(t, t.Context())); ok {
			t.Errorf("address = %v, want none", got)
		}
	})
}

func TestIdentifyTakesTheUser(t *testing.T) {
	type subject struct{}
	found := grpclimit.WithUserFunc(func(ctx context.Context) string {
		user, _ := ctx.Value(subject{}).(string)
		return user
	})
	for _, tt := range []struct {
		name   string
		opts   []grpclimit.Option
		before string // the context's user
		auth   string
		want   string
	}{
		{name: "none", opts: []grpclimit.Option{found}},
		{name: "found", opts: []grpclimit.Option{found}, auth: "alice", want: "alice"},
		{name: "found replaces", opts: []grpclimit.Option{found}, before: "bob", auth: "alice", want: "alice"},
		{name: "none takes away", opts: []grpclimit.Option{found}, before: "bob"},
		{name: "no option leaves", before: "bob", auth: "alice", want: "bob"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx := context.WithValue(t.Context(), subject{}, tt.auth)
			if tt.before != "" {
				ctx = ratelimit.WithUser(ctx, tt.before)
			}
			got, ok := ratelimit.UserFrom(identified(t, ctx, tt.opts...))
			if got != tt.want || ok != (tt.want != "") {
				t.Errorf("user = %q, %t, want %q", got, ok, tt.want)
			}
		})
	}
}

// spoofs are metadata by which a client might want to be taken for another.
var spoofs = [][]string{
	{"x-forwarded-for", "198.51.100.1"},
	{"X-Forwarded-For", "198.51.100.1, 127.0.0.1"},
	{"x-forwarded-for", "198.51.100.1", "x-forwarded-for", "198.51.100.2"},
	{"x-forwarded-for", "127.0.0.1"},
	{"x-forwarded-for", "not an address"},
	{"x-forwarded-for", ",,,,"},
	{"x-forwarded-for", "::ffff:198.51.100.1"},
	{"x-forwarded-for", strings.Repeat("198.51.100.1,", 500)},
	{"x-forwarded-for-bin", "\x00\x01\xff"},
	{"x-real-ip", "198.51.100.1", "true-client-ip", "198.51.100.1", "cf-connecting-ip", "198.51.100.1"},
	{"forwarded", "for=198.51.100.1", "via", "198.51.100.1"},
	{"x-user", "bob", "user", "bob", "authorization", "bearer bob"},
}

func TestSpoofedMetadataChangesNobodysBucket(t *testing.T) {
	limiter, _ := ratelimittest.New()
	for name, source := range map[string]clientaddr.Source{
		"peer":             clientaddr.RemoteAddr(),
		"proxies are none": clientaddr.XFFTrustedCIDRs(netip.MustParsePrefix("10.0.0.0/8")),
	} {
		t.Run(name, func(t *testing.T) {
			o := newOrders(limiter, rules.Limit{Kind: rules.IP, Rules: []rules.Rule{{Count: int64(2 * len(spoofs)), Window: time.Hour}}, Bucket: strings.ReplaceAll(name, " ", "-")})
			c := dial(t, serve(t, o, grpclimit.WithClientAddr(source)))
			for _, pairs := range spoofs {
				if err := c.create(t.Context(), 1, pairs...); err != nil {
					t.Fatalf("with %q: %v", pairs, err)
				}
				if n, _, err := c.follow(t.Context(), 1, pairs...); n != 1 || err != nil {
					t.Fatalf("a stream with %q: %d messages, %v, want 1", pairs, n, err)
				}
			}
			// All of them have counted as one caller, so there is no room for that one, whatever it now says.
			for _, pairs := range append(spoofs, nil) {
				if err := c.create(t.Context(), 1, pairs...); status.Code(err) != codes.ResourceExhausted {
					t.Errorf("with %q: %v, want ResourceExhausted", pairs, err)
				}
				if n, _, err := c.follow(t.Context(), 1, pairs...); n != 0 || status.Code(err) != codes.ResourceExhausted {
					t.Errorf("a stream with %q: %d messages, %v, want ResourceExhausted", pairs, n, err)
				}
			}
		})
	}
}

func TestMetadataOfProxies(t *testing.T) {
	md := metadata.Pairs("x-forwarded-for", "1.1.1.1", "x-forwarded-for", "203.0.113.7, 10.2.0.1", "x-real-ip", "203.0.113.9")
	proxy := &peer.Peer{Addr: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 4711}}
	for _, tt := range []struct {
		name   string
		source clientaddr.Source
		want   string
	}{
		{"none that counts", clientaddr.RemoteAddr(), "10.0.0.1"},
		{"two", clientaddr.XFFTrustedCount(2), "203.0.113.7"},
		{"of a network", clientaddr.XFFTrustedCIDRs(netip.MustParsePrefix("10.0.0.0/8")), "203.0.113.7"},
		{"by a header", clientaddr.TrustedHeader("X-Real-IP"), "203.0.113.9"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx := metadata.NewIncomingContext(peer.NewContext(t.Context(), proxy), md)
			got, _ := ratelimit.IPFrom(identified(t, ctx, grpclimit.WithClientAddr(tt.source)))
			if got != netip.MustParseAddr(tt.want) {
				t.Errorf("address = %v, want %s", got, tt.want)
			}
		})
	}
}

func TestHostileMetadataOfATrustedPeerIsNobody(t *testing.T) {
	limiter, _ := ratelimittest.New()
	o := newOrders(limiter, rules.Limit{Kind: rules.IP, Rules: []rules.Rule{{Count: 1, Window: time.Hour}}})
	c := dial(t, serve(t, o, grpclimit.WithClientAddr(clientaddr.XFFTrustedCIDRs(netip.MustParsePrefix("127.0.0.0/8")))))
	for _, value := range []string{
		"not an address", "198.51.100.1, unknown", "198.51.100.1,", "198.51.100.1, 0.0.0.0", "198.51.100.1, [203.0.113.7", "198.51.100.1, 203.0.113.7.",
		strings.Repeat("127.0.0.1,", 70) + "127.0.0.1",
	} {
		for range 2 {
			if err := c.create(t.Context(), 1, "x-forwarded-for", value); status.Code(err) != codes.Unauthenticated {
				t.Errorf("with %.40q: %v, want Unauthenticated", value, err)
			}
		}
	}
}

func TestMessagesOfAStreamAreLimited(t *testing.T) {
	limiter, clock := ratelimittest.New()
	o := newOrders(limiter, rules.Limit{Kind: rules.IP, Rules: []rules.Rule{{Count: 3, Window: time.Minute}}})
	c := dial(t, serve(t, o))
	n, trailer, err := c.follow(t.Context(), 5)
	if n != 3 || status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a stream had %d messages answered, and ended with %v, want 3 and ResourceExhausted", n, err)
	}
	if got := trailer.Get("grpc-retry-pushback-ms"); len(got) != 1 || got[0] != "60000" {
		t.Errorf("pushback = %q, want 60000", got)
	}
	clock.Advance(time.Minute)
	if n, _, err := c.follow(t.Context(), 3); n != 3 || err != nil {
		t.Errorf("a minute later: %d messages, %v, want 3", n, err)
	}
}

func TestPeersWithoutAnAddressAreNobody(t *testing.T) {
	limiter, _ := ratelimittest.New()
	path := filepath.Join(t.TempDir(), "s")
	l := listen(t, "unix", path)
	o := newOrders(limiter, rules.Limit{Kind: rules.IP, Rules: []rules.Rule{{Count: 3, Window: time.Minute}}})
	serveOn(t, l, o)
	if err := dial(t, "unix:"+path).create(t.Context(), 1, "x-forwarded-for", "198.51.100.1"); status.Code(err) != codes.Unauthenticated {
		t.Errorf("a call through a unix socket = %v, want Unauthenticated", err)
	}
}

// A source that is none is found where the program is put together, and not by the first call.
func TestWithClientAddrRefuses(t *testing.T) {
	const want = "grpclimit: WithClientAddr with a nil source, want one of package clientaddr, or no WithClientAddr for clientaddr.RemoteAddr()"
	defer func() {
		if got := recover(); got != want {
			t.Errorf("WithClientAddr(nil) panics with %v, want %s", got, want)
		}
	}()
	grpclimit.WithClientAddr(nil)
}
