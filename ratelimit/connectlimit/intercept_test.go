package connectlimit_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/clientaddr"
	"github.com/rlgen/rlgen/ratelimit/connectlimit"
	"github.com/rlgen/rlgen/ratelimit/ratelimittest"
	"github.com/rlgen/rlgen/rules"
)

// spoofs are headers by which a client might want to be taken for another.
var spoofs = [][]string{
	{"X-Forwarded-For", "198.51.100.1"},
	{"X-Forwarded-For", "198.51.100.1, 127.0.0.1"},
	{"X-Forwarded-For", "198.51.100.1", "X-Forwarded-For", "198.51.100.2"},
	{"X-Forwarded-For", "not an address"},
	{"X-Forwarded-For", ",,,,"},
	{"X-Forwarded-For", strings.Repeat("198.51.100.1,", 500)},
	{"X-Real-IP", "198.51.100.1", "True-Client-IP", "198.51.100.1", "Forwarded", "for=198.51.100.1"},
	{"X-User", "bob", "Authorization", "bearer bob"},
}

func TestSpoofedHeadersChangeNobodysBucket(t *testing.T) {
	for name, source := range map[string]clientaddr.Source{
		"peer":             clientaddr.RemoteAddr(),
		"proxies are none": clientaddr.XFFTrustedCIDRs(netip.MustParsePrefix("10.0.0.0/8")),
	} {
		t.Run(name, func(t *testing.T) {
			limiter, _ := ratelimittest.New()
			s := serve(t, limiter, policy(per(rules.IP, int64(2*len(spoofs)), time.Hour)), connectlimit.WithClientAddr(source))
			for _, pairs := range spoofs {
				if err := s.create("connect", 1, pairs...); err != nil {
					t.Fatalf("with %q: %v", pairs, err)
				}
				if n, err := s.follow("grpc", 1, pairs...); n != 1 || err != nil {
					t.Fatalf("a stream with %q: %d messages, %v, want 1", pairs, n, err)
				}
			}
			for _, pairs := range append(spoofs, nil) {
				if err := s.create("grpc-web", 1, pairs...); connect.CodeOf(err) != connect.CodeResourceExhausted {
					t.Errorf("with %q: %v, want ResourceExhausted", pairs, err)
				}
			}
		})
	}
}

func TestHeadersOfATrustedProxy(t *testing.T) {
	limiter, _ := ratelimittest.New()
	trusted := connectlimit.WithClientAddr(clientaddr.XFFTrustedCIDRs(netip.MustParsePrefix("127.0.0.0/8")))
	s := serve(t, limiter, policy(per(rules.IP, 2, time.Hour)), trusted)
	for _, client := range []string{"203.0.113.7", "203.0.113.8"} {
		if n, err := s.follow("connect", 1, "X-Forwarded-For", "198.51.100.1, "+client); n != 1 || err != nil {
			t.Errorf("a stream from %s: %d messages, %v, want 1", client, n, err)
		}
		if err := s.create("connect", 1, "X-Forwarded-For", "198.51.100.2, "+client); err != nil {
			t.Errorf("a call from %s: %v", client, err)
		}
		if err := s.create("connect", 1, "X-Forwarded-For", client); connect.CodeOf(err) != connect.CodeResourceExhausted {
			t.Errorf("a third from %s: %v, want ResourceExhausted", client, err)
		}
	}
	for _, client := range []string{"unknown", "198.51.100.1, evil", "0.0.0.0"} {
		if err := s.create("connect", 1, "X-Forwarded-For", client); connect.CodeOf(err) != connect.CodeUnauthenticated {
			t.Errorf("a call from %q: %v, want Unauthenticated", client, err)
		}
	}
}

func TestMessagesOfAStreamAreLimited(t *testing.T) {
	limiter, _ := ratelimittest.New()
	s := serve(t, limiter, policy(per(rules.IP, 3, time.Minute)))
	if n, err := s.follow("connect", 5); n != 3 || connect.CodeOf(err) != connect.CodeResourceExhausted {
		t.Errorf("a stream had %d messages answered, and ended with %v, want 3 and ResourceExhausted", n, err)
	}
}

// Around Connect's handlers, package httplimit says what is left, to who is let in and to who is denied, and the status is that of HTTP.
func TestQuotasOfConnectAreThoseOfHTTP(t *testing.T) {
	limiter, _ := ratelimittest.New()
	s := serve(t, limiter, policy(per(rules.IP, 1, time.Minute)))
	for _, want := range []struct {
		status            int
		limit, retryAfter string
	}{{200, `"Create";r=0;t=60`, ""}, {429, `"Create";r=0;t=60`, "60"}} {
		res, err := s.Client().Post(s.URL+createPath, "application/json", strings.NewReader(`"1"`))
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if limit, wait := res.Header.Get("RateLimit"), res.Header.Get("Retry-After"); res.StatusCode != want.status || limit != want.limit || wait != want.retryAfter {
			t.Errorf("status %d, RateLimit %s, Retry-After %q, want %d, %s and %q", res.StatusCode, limit, wait, want.status, want.limit, want.retryAfter)
		}
	}
}

func TestTheUserIsTheInterceptors(t *testing.T) {
	limiter, _ := ratelimittest.New()
	user := ""
	s := serve(t, limiter, policy(per(rules.User, 1, time.Minute)), connectlimit.WithUserFunc(func(context.Context) string { return user }))
	for _, step := range []struct {
		user string
		want connect.Code // 0 for none
	}{{"", connect.CodeUnauthenticated}, {"bob", 0}, {"carol", 0}, {"bob", connect.CodeResourceExhausted}} {
		user = step.user
		err := s.create("connect", 1)
		if err == nil && step.want != 0 || err != nil && connect.CodeOf(err) != step.want {
			t.Errorf("a call of %q: %v, want %v", step.user, err, step.want)
		}
	}
}

// A peer on a unix socket has no address, and none that it could say.
func TestPeersWithoutAnAddressAreNobody(t *testing.T) {
	limiter, _ := ratelimittest.New()
	o := orders{limiter.Guard(policy(per(rules.IP, 3, time.Minute)))}
	path := filepath.Join(t.TempDir(), "s")
	l, err := new(net.ListenConfig).Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(connect.NewUnaryHandler(createPath, o.Create, connect.WithInterceptors(connectlimit.Interceptor())))
	s.Listener.Close()
	s.Listener = l
	s.Start()
	defer s.Close()
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}}
	defer client.CloseIdleConnections()
	req := connect.NewRequest(wrapperspb.Int64(1))
	req.Header().Set("X-Forwarded-For", "198.51.100.1")
	_, err = connect.NewClient[wrapperspb.Int64Value, emptypb.Empty](client, "http://shop"+createPath).CallUnary(t.Context(), req)
	if connect.CodeOf(err) != connect.CodeUnauthenticated {
		t.Errorf("a call through a unix socket = %v, want Unauthenticated", err)
	}
}

// What a client gets of a server is the server's: an interceptor that both share changes nothing of it, nor of the context.
func TestClientsCallsAreLeftAsTheyAre(t *testing.T) {
	denied := connect.UnaryFunc(func(ctx context.Context, _ connect.AnyRequest) (connect.AnyResponse, error) {
		if _, ok := ratelimit.IPFrom(ctx); ok {
			t.Error("the client's context has an address")
		}
		return nil, ratelimit.ErrExceeded
	})
	req := &clientRequest{connect.NewRequest(new(emptypb.Empty))}
	if _, err := connectlimit.Interceptor().WrapUnary(denied)(t.Context(), req); err != ratelimit.ErrExceeded {
		t.Errorf("the client's error is %v, want it as it is", err)
	}
}

// clientRequest is a request as a client's interceptors see it.
type clientRequest struct {
	*connect.Request[emptypb.Empty]
}

func (clientRequest) Spec() connect.Spec { return connect.Spec{IsClient: true} }

// A source that is none is found where the program is put together, and not by the first call.
func TestWithClientAddrRefuses(t *testing.T) {
	const want = "connectlimit: WithClientAddr with a nil source, want one of package clientaddr, or no WithClientAddr for clientaddr.RemoteAddr()"
	defer func() {
		if got := recover(); got != want {
			t.Errorf("WithClientAddr(nil) panics with %v, want %s", got, want)
		}
	}()
	connectlimit.WithClientAddr(nil)
}
