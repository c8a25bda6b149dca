package httplimit_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/clientaddr"
	"github.com/rlgen/rlgen/ratelimit/httplimit"
	"github.com/rlgen/rlgen/testdata/suite"
)

func TestMain(m *testing.M) {
	suite.Draw(100)
	goleak.VerifyTestMain(m)
}

// identified returns the request that Identify hands on.
func identified(r *http.Request, opts ...httplimit.Option) *http.Request {
	var got *http.Request
	h := httplimit.Identify(opts...)(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r }))
	h.ServeHTTP(httptest.NewRecorder(), r)
	return got
}

func TestIdentifyTakesThePeersAddress(t *testing.T) {
	for _, tt := range []struct {
		remote, want string // want "" is no address
	}{
		{"203.0.113.7:1234", "203.0.113.7"},
		{"[2001:db8::1]:443", "2001:db8::1"},
		{"[fe80::1%eth0]:443", "fe80::1"},
		{"[::ffff:203.0.113.7]:80", "203.0.113.7"},
		{"127.0.0.1:0", "127.0.0.1"},

		{"", ""},
		{"@", ""},
		{"/run/app.sock", ""},
		{"pipe", ""},
		{":80", ""},
		{"localhost:80", ""},
		{"example.com:80", ""},
		{"203.0.113.7", ""},
		{"2001:db8::1", ""},
		{"2001:db8::1:443", ""},
		{"203.0.113.7:", ""},
		{"203.0.113.7:65536", ""},
		{"203.0.113.7:-1", ""},
		{"203.0.113.7:80:80", ""},
		{"203.0.113.007:80", ""},
		{"0x7f.0.0.1:80", ""},
		{"2130706433:80", ""},
		{" 203.0.113.7:80", ""},
		{"203.0.113.7:80\r\nX: y", ""},
		{"203.0.113.7, 198.51.100.1:80", ""},
		{"[203.0.113.7]:80", ""},
		{"[2001:db8::1:443", ""},
		{"\x00:80", ""},
		{"0.0.0.0:80", ""},
		{"[::]:80", ""},
		{strings.Repeat("1", 1<<20) + ":80", ""},
	} {
		name := tt.remote
		if len(name) > 40 {
			name = name[:40]
		}
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest("GET", "/", nil)
			r.RemoteAddr = tt.remote
			// What an earlier middleware left must not stand in for a peer without an address.
			r = r.WithContext(ratelimit.WithIP(r.Context(), netip.MustParseAddr("198.51.100.9")))
			addr, ok := ratelimit.IPFrom(identified(r).Context())
			got := ""
			if ok {
				got = addr.String()
			}
			if got != tt.want {
				t.Errorf("address of %q = %q, want %q", tt.remote, got, tt.want)
			}
		})
	}
}

func TestIdentifyTrustsNoHeader(t *testing.T) {
	r := httptest.NewRequest("GET", "/", nil)
	r.RemoteAddr = "203.0.113.7:1234"
	for _, name := range []string{
		"X-Forwarded-For", "X-Real-Ip", "Forwarded", "True-Client-Ip", "Cf-Connecting-Ip", "X-Client-Ip", "X-User", "Remote-User",
	} {
		r.Header.Set(name, "198.51.100.1")
	}
	ctx := identified(r).Context()
	if got, _ := ratelimit.IPFrom(ctx); got.String() != "203.0.113.7" {
		t.Errorf("address = %v, want 203.0.113.7", got)
	}
	if got, ok := ratelimit.UserFrom(ctx); ok {
		t.Errorf("user = %q, want none", got)
	}
}

func TestIdentifyTakesTheUser(t *testing.T) {
	basic := httplimit.WithUserFunc(func(r *http.Request) string {
		user, _, _ := r.BasicAuth()
		return user
	})
	for _, tt := range []struct {
		name   string
		opts   []httplimit.Option
		before string // the context's user
		auth   string
		want   string
	}{
		{name: "none", opts: []httplimit.Option{basic}},
		{name: "found", opts: []httplimit.Option{basic}, auth: "alice", want: "alice"},
		{name: "found replaces", opts: []httplimit.Option{basic}, before: "bob", auth: "alice", want: "alice"},
		{name: "none takes away", opts: []httplimit.Option{basic}, before: "bob"},
		{name: "no option leaves", before: "bob", auth: "alice", want: "bob"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := httptest.NewRequest("GET", "/", nil)
			if tt.before != "" {
				r = r.WithContext(ratelimit.WithUser(r.Context(), tt.before))
			}
			if tt.auth != "" {
				r.SetBasicAuth(tt.auth, "")
			}
			got, ok := ratelimit.UserFrom(identified(r, tt.opts...).Context())
			if got != tt.want || ok != (tt.want != "") {
				t.Errorf("user = %q, %t, want %q", got, ok, tt.want)
			}
		})
	}
}

func TestIdentifyBehindRealListeners(t *testing.T) {
	unix, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Skip(err)
	}
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		listener net.Listener
		want     string
	}{
		{tcp, "127.0.0.1 true"},
		{unix, "invalid IP false"},
	} {
		t.Run(tt.listener.Addr().Network(), func(t *testing.T) {
			var got string
			srv := httptest.NewUnstartedServer(httplimit.Identify()(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				addr, ok := ratelimit.IPFrom(r.Context())
				got = addr.String() + " " + map[bool]string{true: "true", false: "false"}[ok]
			})))
			srv.Listener.Close()
			srv.Listener = tt.listener
			srv.Start()
			defer srv.Close()
			tr := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, tt.listener.Addr().Network(), tt.listener.Addr().String())
			}}
			defer tr.CloseIdleConnections()
			res, err := (&http.Client{Transport: tr}).Get("http://shop/")
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			if got != tt.want {
				t.Errorf("address = %s, want %s", got, tt.want)
			}
		})
	}
}

func TestIdentifyBehindProxies(t *testing.T) {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.RemoteAddr = "10.0.0.1:4711"
	r.Header.Add("X-Forwarded-For", "1.1.1.1")
	r.Header.Add("X-Forwarded-For", "203.0.113.7, 10.2.0.1")
	for _, test := range []struct {
		name   string
		source clientaddr.Source
		want   string
	}{
		{"none that counts", clientaddr.RemoteAddr(), "10.0.0.1"},
		{"two", clientaddr.XFFTrustedCount(2), "203.0.113.7"},
		{"of a network", clientaddr.XFFTrustedCIDRs(netip.MustParsePrefix("10.0.0.0/8")), "203.0.113.7"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, _ := ratelimit.IPFrom(identified(r, httplimit.WithClientAddr(test.source)).Context())
			if want := netip.MustParseAddr(test.want); got != want {
				t.Errorf("the context has %v, want %v", got, want)
			}
		})
	}
}

// A source that is none is found where the program is put together, and not by the first call.
func TestWithClientAddrRefuses(t *testing.T) {
	const want = "httplimit: WithClientAddr with a nil source, want one of package clientaddr, or no WithClientAddr for clientaddr.RemoteAddr()"
	defer func() {
		if got := recover(); got != want {
			t.Errorf("WithClientAddr(nil) panics with %v, want %s", got, want)
		}
	}()
	httplimit.WithClientAddr(nil)
}
