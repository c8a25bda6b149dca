package httplimit_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/clientaddr"
	"github.com/rlgen/rlgen/ratelimit/httplimit"
	"github.com/rlgen/rlgen/ratelimit/ratelimittest"
	"github.com/rlgen/rlgen/rules"
)

// door is the way of a request from its headers to the key that it counts under.
type door struct {
	guard  *ratelimit.Guard
	source clientaddr.Source
	peer   string
	proxy  func(r *http.Request, client string) // what the proxy makes of the request of a client
}

func newDoor(source clientaddr.Source, peer string, proxy func(r *http.Request, client string), opts ...ratelimit.Option) *door {
	guard := ratelimittest.AllowAll(opts...).Guard(policy("shop.Orders", "Create", rules.Limit{Kind: rules.IP, Rules: []rules.Rule{per(1, time.Hour)}}))
	return &door{guard, source, peer, proxy}
}

// key returns what a client's request counts under, "" if it is turned away for want of an address.
func (d *door) key(t *testing.T, client string, sent http.Header) string {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.RemoteAddr = d.peer
	for name, lines := range sent {
		r.Header[name] = append([]string(nil), lines...)
	}
	d.proxy(r, client)
	decision, _, err := d.guard.Decide(identified(r, httplimit.WithClientAddr(d.source)).Context())
	if errors.Is(err, ratelimit.ErrNoIdentity) {
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	return decision.Limits[0].Key
}

// The proxies of the tests: one that appends to the last line, one that adds a line, two behind one another, one that sets a
// header anew, and none.
func appends(r *http.Request, client string) {
	lines := r.Header["X-Forwarded-For"]
	if len(lines) == 0 {
		lines = []string{client}
	} else {
		lines[len(lines)-1] += ", " + client
	}
	r.Header["X-Forwarded-For"] = lines
}

func addsALine(r *http.Request, client string) { r.Header.Add("X-Forwarded-For", client) }

func two(r *http.Request, client string) {
	appends(r, client)
	addsALine(r, "10.0.0.2")
}

func setsAnew(r *http.Request, client string) { r.Header.Set("X-Real-Ip", client) }

func none(*http.Request, string) {}

func doors(opts ...ratelimit.Option) map[string]*door {
	networks := clientaddr.XFFTrustedCIDRs(netip.MustParsePrefix("10.0.0.0/8"))
	return map[string]*door{
		"no proxy":                            newDoor(clientaddr.RemoteAddr(), "203.0.113.7:4711", none, opts...),
		"no proxy, though networks trusted":   newDoor(networks, "203.0.113.7:4711", none, opts...),
		"networks, a proxy that appends":      newDoor(networks, "10.0.0.1:80", appends, opts...),
		"networks, a proxy that adds a line":  newDoor(networks, "10.0.0.1:80", addsALine, opts...),
		"networks, two proxies":               newDoor(networks, "10.0.0.1:80", two, opts...),
		"a count, a proxy that appends":       newDoor(clientaddr.XFFTrustedCount(1), "10.0.0.1:80", appends, opts...),
		"a count, a proxy on a unix socket":   newDoor(clientaddr.XFFTrustedCount(1), "@", appends, opts...),
		"a count, two proxies":                newDoor(clientaddr.XFFTrustedCount(2), "10.0.0.1:80", two, opts...),
		"a header that the proxy sets anew":   newDoor(clientaddr.TrustedHeader("X-Real-IP"), "10.0.0.1:80", setsAnew, opts...),
		"the same, the proxy on unix sockets": newDoor(clientaddr.TrustedHeader("X-Real-IP"), "@", setsAnew, opts...),
	}
}

// The names of headers that somebody believes.
var believed = []string{
	"X-Forwarded-For", "X-Real-Ip", "Forwarded", "True-Client-Ip", "Cf-Connecting-Ip", "X-Client-Ip", "X-Cluster-Client-Ip",
	"X-Original-Forwarded-For", "X-Envoy-External-Address", "Fastly-Client-Ip", "X-Appengine-User-Ip", "Client-Ip", "Remote-Addr", "Via",
}

func sent(lines ...string) http.Header {
	h := make(http.Header)
	for _, name := range believed {
		h[name] = lines
	}
	return h
}

// Whatever a client writes into headers, it counts under one key, and that is no other client's.
func TestSpoofingChangesNobodysKey(t *testing.T) {
	const client, want = "203.0.113.7", "rl:ip=203.0.113.7:shop.Orders-Create"
	for name, d := range doors() {
		t.Run(name, func(t *testing.T) {
			if got := d.key(t, client, nil); got != want {
				t.Fatalf("the key is %q without a word of the client's, want %q", got, want)
			}
			for _, lines := range [][]string{
				{"198.51.100.1"},
				{"198.51.100.1, 192.0.2.1"},
				{"198.51.100.1", "192.0.2.1"},
				{"10.0.0.1"},
				{"10.9.9.9, 10.0.0.2"},
				{"127.0.0.1"},
				{"198.51.100.1,"},
				{",198.51.100.1"},
				{""},
				{",,,,"},
				{"unknown"},
				{"_hidden, _SEVKISEK"},
				{"evil"},
				{"198.51.100.1, evil"},
				{"198.51.100.1:80"},
				{"198.51.100.1:80:80"},
				{"[2001:db8::1]:443"},
				{"[2001:db8::1"},
				{"2001:db8::1"},
				{"::ffff:1.2.3.4"},
				{"::ffff:10.0.0.1"},
				{"fe80::1%evil:{x}"},
				{"@"},
				{"/run/app.sock"},
				{"0.0.0.0"},
				{"::"},
				{`"198.51.100.1"`},
				{`for="[2001:db8::1]:80";proto=https`},
				{"198.051.100.001"},
				{"0xc6336401"},
				{"3325256705"},
				{"198.51.100.1\r\nX-Forwarded-For: 192.0.2.1"},
				{"198.51.100.1\x00"},
				{"\xff\xfe"},
				{"203.0.113.7:shop.Orders-Create"},
				{"a:{b}"},
				{strings.Repeat("198.51.100.1, ", 9_999) + "198.51.100.1"},
				{strings.Repeat("10.0.0.1, ", 9_999) + "10.0.0.1"},
				strings.Split(strings.Repeat("198.51.100.1,", 1_000), ","),
				{strings.Repeat("1", 1<<20)},
				{strings.Repeat(" ", 1<<20)},
			} {
				if got := d.key(t, client, sent(lines...)); got != want {
					t.Errorf("%.60q: the key is %q, want %q", lines, got, want)
				}
			}
		})
	}
}

// A client for which the proxy has no address is turned away: it shares no key with others of that kind, and the proxy's is not its.
func TestNoAddressIsNoKey(t *testing.T) {
	for name, d := range doors() {
		if strings.HasPrefix(name, "no proxy") {
			d.peer = "@"
		}
		t.Run(name, func(t *testing.T) {
			for _, client := range []string{"unknown", "", "evil", "@", "0.0.0.0", "::", strings.Repeat("x", 10_000)} {
				if got := d.key(t, client, sent("198.51.100.1")); got != "" {
					t.Errorf("a client of the address %.20q counts under %q, want it turned away", client, got)
				}
			}
		})
	}
}

// A caller who moves about in the network that it holds counts under one key.
func TestNetworksOfIPv6(t *testing.T) {
	for name, d := range doors(ratelimit.WithIPv6Prefix(56)) {
		t.Run(name, func(t *testing.T) {
			key := func(client string) string {
				if strings.HasPrefix(name, "no proxy") {
					d.peer = "[" + client + "]:4711"
				}
				return d.key(t, client, nil)
			}
			first := key("2001:db8:1:200::1")
			if want := "rl:ip=2001%3Adb8%3A1%3A200%3A%3A:shop.Orders-Create"; first != want {
				t.Errorf("the key is %q, want %q", first, want)
			}
			if second := key("2001:db8:1:2ff:dead:beef:0:1"); second != first {
				t.Errorf("two addresses of a /56 count under %q and %q", first, second)
			}
			if other := key("2001:db8:1:300::1"); other == first {
				t.Errorf("two addresses of two /56 count under %q", first)
			}
		})
	}
}

func FuzzSpoofing(f *testing.F) {
	for _, seed := range []string{"", "198.51.100.1", ",", "unknown", "10.0.0.1, ", "[::1", "fe80::1%evil:{x}", "a\r\nb", strings.Repeat(",", 100)} {
		f.Add(seed, seed)
	}
	all := doors()
	f.Fuzz(func(t *testing.T, first, second string) {
		for name, d := range all {
			for _, header := range []http.Header{sent(first), sent(first, second), sent(first + "," + second)} {
				if got, want := d.key(t, "203.0.113.7", header), "rl:ip=203.0.113.7:shop.Orders-Create"; got != want {
					t.Errorf("%s: %q: the key is %q, want %q", name, header["X-Forwarded-For"], got, want)
				}
			}
		}
	})
}
