package main

import (
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rlgen/rlgen/examples/shop/orders/orderspb"
)

// spoofs are what a client may write of its address, a line of a header each.
var spoofs = [][]string{
	{"198.51.100.1"},
	{"198.51.100.1, 192.0.2.1"},
	{"198.51.100.1", "192.0.2.1"},
	{"10.0.0.1"},
	{"10.0.0.1, 127.0.0.1"},
	{"127.0.0.1"},
	{"198.51.100.1,"},
	{",198.51.100.1"},
	{""},
	{",,,,"},
	{"unknown"},
	{"evil, 198.51.100.1"},
	{"198.51.100.1:80"},
	{"[2001:db8::1]:443"},
	{"[2001:db8::1"},
	{"2001:db8::1"},
	{"::ffff:1.2.3.4"},
	{"fe80::1%evil:{x}"},
	{"0.0.0.0"},
	{`for="[2001:db8::1]:80";proto=https`},
	{"198.051.100.001"},
	{"127.0.0.1:orders.Orders-Search"},
	{strings.Repeat("198.51.100.1,", 100) + "198.51.100.1"},
	{strings.Repeat("10.0.0.1,", 700) + "10.0.0.1"},
}

// written is a request's header, and the metadata of a call, in which everything that somebody believes has the lines.
func written(lines []string) (header http.Header, pairs []string) {
	header = http.Header{}
	for _, name := range []string{"X-Forwarded-For", "X-Real-Ip", "Forwarded", "True-Client-Ip", "Cf-Connecting-Ip", "X-Client-Ip", "Via"} {
		for _, line := range lines {
			header.Add(name, line)
			pairs = append(pairs, strings.ToLower(name), line)
		}
	}
	return header, pairs
}

// left is how many pages the address that a request comes from may search yet, after one more, -1 if none.
func (r *running) left(header http.Header) int64 {
	r.t.Helper()
	resp, _ := r.ask("GET", "/orders?item=tea", "", header)
	of, ok := list(r.t, resp, "RateLimit")["Search/ip"]
	if !ok || resp.StatusCode != http.StatusOK {
		return -1
	}
	return of["r"]
}

// Whatever a client writes of its address, over HTTP or gRPC, it is the one that it calls from: its calls count together, and once the limit is exceeded it
// is denied.
func TestSpoofedAddress(t *testing.T) {
	for name, c := range map[string]config{"no proxies": {}, "proxies elsewhere": {proxies: "10.0.0.0/8,fd00::/8"}} {
		t.Run(name, func(t *testing.T) {
			_, counted := clocked()
			shop := start(t, c, counted)
			client, left := shop.dial(), int64(300)
			for _, lines := range spoofs {
				header, pairs := written(lines)
				if err := search(calling(t, pairs...), client, 1); err != nil {
					t.Errorf("a call with %.60q: %v", lines, err)
				}
				left -= 2
				if got := shop.left(header); got != left {
					t.Errorf("a request with %.60q has %d left, want %d", lines, got, left)
				}
			}
			if err := search(t.Context(), client, int(left)); err != nil {
				t.Errorf("the %d pages that are left: %v", left, err)
			}
			for _, lines := range append(spoofs, nil) {
				header, pairs := written(lines)
				if resp, _ := shop.ask("GET", "/orders?item=tea", "", header); resp.StatusCode != http.StatusTooManyRequests {
					t.Errorf("a request with %.60q, with nothing left: status %d, want 429", lines, resp.StatusCode)
				}
				if err := search(calling(t, pairs...), client, 1); status.Code(err) != codes.ResourceExhausted {
					t.Errorf("a call with %.60q, with nothing left: %v, want ResourceExhausted", lines, err)
				}
			}
		})
	}
}

// Behind proxies that are trusted the client is whom the nearest has seen, whatever the client wrote before that; and who has no address there is nobody, not the proxy.
func TestSpoofedAddressBehindProxies(t *testing.T) {
	_, counted := clocked()
	shop := start(t, config{proxies: "127.0.0.0/8"}, counted) // the test is the proxy
	client, left := shop.dial(), int64(300)
	for _, lines := range spoofs {
		header, pairs := written(lines)
		header.Add("X-Forwarded-For", "203.0.113.7")
		if err := search(calling(t, append(pairs, "x-forwarded-for", "203.0.113.7")...), client, 1); err != nil {
			t.Errorf("a call with %.60q: %v", lines, err)
		}
		left -= 2
		if got := shop.left(header); got != left {
			t.Errorf("a request with %.60q has %d left, want %d", lines, got, left)
		}
	}
	if got := shop.left(http.Header{"X-Forwarded-For": {"203.0.113.7, 203.0.113.8"}}); got != 299 {
		t.Errorf("another client has %d left, want 299", got)
	}
	for _, address := range []string{"", "unknown", "evil", "0.0.0.0", "203.0.113.7, ", "[203.0.113.7]", "203.0.113.007", strings.Repeat("127.0.0.1,", 64) + "127.0.0.1"} {
		shop.nobody(t, client, address)
	}
}

// nobody expects that a client of whom the proxy says so is turned away, before it counts for anybody.
func (r *running) nobody(t *testing.T, client orderspb.OrdersClient, address string) {
	t.Helper()
	if resp, _ := r.ask("GET", "/orders?item=tea", "", http.Header{"X-Forwarded-For": {address}}); resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("a request from %.60q: status %d, want 401", address, resp.StatusCode)
	}
	if err := search(calling(t, "x-forwarded-for", address), client, 1); status.Code(err) != codes.Unauthenticated {
		t.Errorf("a call from %.60q: %v, want Unauthenticated", address, err)
	}
}
