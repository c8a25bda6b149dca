package main

import (
	"net/http"
	"net/netip"
	"strings"

	"github.com/rlgen/rlgen/ratelimit/clientaddr"
	"github.com/rlgen/rlgen/ratelimit/httplimit"
)

// tokens are whom each bearer token belongs to. A real program asks its sessions, or checks a signature.
var tokens = map[string]string{
	"alice-secret": "alice",
	"bob-secret":   "bob",
}

// caller returns the user whose token the request carries, empty if it carries none that is known.
func caller(r *http.Request) string {
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return tokens[token]
}

// identify puts the client's address into the request's context. The proxy stands on the same host; what it appends to
// X-Forwarded-For counts, and no other header does, whoever sends it. What the frameworks find out by themselves is not asked:
// chi's RealIP, gin's ClientIP and echo's RealIP believe, unless configured otherwise, what anybody writes into a header.
var identify = httplimit.Identify(httplimit.WithClientAddr(clientaddr.XFFTrustedCIDRs(
	netip.MustParsePrefix("127.0.0.0/8"),
	netip.MustParsePrefix("::1/128"),
)))
