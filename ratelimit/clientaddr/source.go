// Package clientaddr finds the address of the client of a request that may have come through proxies.
//
// A proxy's header is worth as much as the program's knowledge of who wrote it: a client can send any header, and a
// proxy that does not know better hands it on. So no header counts unless a [Source] says which of them does, and from whom.
//
//	the program is reached by          take
//	clients themselves                 [RemoteAddr]
//	proxies of known networks          [XFFTrustedCIDRs]
//	a known number of proxies          [XFFTrustedCount]
//	a proxy that sets a header anew    [TrustedHeader]
//
// What cannot be told for sure is no address, never a guess: what becomes of a call without an address is its limit's
// own missing=, which denies it unless told otherwise.
package clientaddr

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Source finds a client's address. It is one of this package's, safe for concurrent use and not to be changed.
type Source interface {
	// Find returns the address of a request's client, the zero Addr if there is none that is sure. The peer is who has opened
	// the connection, the zero Addr if that is no address, as on a unix socket; header returns the lines of a header, in their
	// order. The address has no zone, and is not an IPv4 one in IPv6.
	Find(peer netip.Addr, header func(name string) []string) netip.Addr

	sealed()
}

const forwardedFor = "X-Forwarded-For"

// An X-Forwarded-For is read from its end, as far as this. Whatever a client may have written stands before.
const (
	maxHops  = 64
	maxBytes = 8 << 10
)

// RemoteAddr is the address of the peer, whatever headers say.
func RemoteAddr() Source { return remoteAddr{} }

type remoteAddr struct{}

func (remoteAddr) sealed() {}

func (remoteAddr) Find(peer netip.Addr, _ func(string) []string) netip.Addr { return normal(peer) }

// TrustedHeader is the address in a header that the last proxy sets anew on every request, such as X-Real-IP or
// CF-Connecting-IP. It is for programs that cannot be reached but through that proxy. More than one line of the header, or
// more than one address in it, is no address: then the proxy does not set it anew.
//
// It panics if the name is empty.
func TrustedHeader(name string) Source {
	if name == "" {
		panic("clientaddr: TrustedHeader without a name, want the header that the proxy sets, such as X-Real-IP")
	}
	return trustedHeader(name)
}

type trustedHeader string

func (trustedHeader) sealed() {}

func (name trustedHeader) Find(_ netip.Addr, header func(string) []string) netip.Addr {
	lines := header(string(name))
	if len(lines) != 1 {
		return netip.Addr{}
	}
	return parse(lines[0])
}

// XFFTrustedCIDRs is for programs whose proxies have addresses in known networks and append to X-Forwarded-For the
// address of who has called them. A peer outside the networks is the client, whatever the header says. From a peer inside them,
// the client is the last address of the header that is outside; an entry there that is no address makes it unknown. Where all are
// inside, the client is the first one: one of the program's own.
//
// It panics if there is no network, or an invalid one.
func XFFTrustedCIDRs(networks ...netip.Prefix) Source {
	if len(networks) == 0 {
		panic("clientaddr: XFFTrustedCIDRs without a network, want those of the proxies, or RemoteAddr")
	}
	trusted := make(xffTrustedCIDRs, len(networks))
	for i, network := range networks {
		trusted[i] = normalPrefix(network)
	}
	return trusted
}

type xffTrustedCIDRs []netip.Prefix

func (xffTrustedCIDRs) sealed() {}

func (trusted xffTrustedCIDRs) Find(peer netip.Addr, header func(string) []string) netip.Addr {
	client := normal(peer)
	if !trusted.contain(client) {
		return client
	}
	hops := newHops(header(forwardedFor))
	for {
		entry, ok := hops.next()
		switch {
		case !ok && hops.cut:
			return netip.Addr{}
		case !ok:
			return client
		}
		if client = parse(entry); !trusted.contain(client) {
			return client
		}
	}
}

func (trusted xffTrustedCIDRs) contain(addr netip.Addr) bool {
	return slices.ContainsFunc(trusted, func(network netip.Prefix) bool { return network.Contains(addr) })
}

// XFFTrustedCount is for programs that cannot be reached but through n proxies, one behind the other, each of which appends to
// X-Forwarded-For the address of who has called it: the client is the n-th entry from the end. A header of fewer entries has
// none.
//
// It panics if n is not 1 to 64.
func XFFTrustedCount(n int) Source {
	if n < 1 || n > maxHops {
		panic(fmt.Sprintf("clientaddr: XFFTrustedCount of %d proxies, want 1 to %d, or RemoteAddr for none", n, maxHops))
	}
	return xffTrustedCount(n)
}

type xffTrustedCount int

func (xffTrustedCount) sealed() {}

func (n xffTrustedCount) Find(_ netip.Addr, header func(string) []string) netip.Addr {
	hops := newHops(header(forwardedFor))
	for range n - 1 {
		hops.next()
	}
	entry, _ := hops.next()
	return parse(entry)
}

// hops are the entries of a header's lines from the last to the first.
type hops struct {
	lines       []string
	left, bytes int  // that may still be read
	cut         bool // there are more entries than may be read
}

func newHops(lines []string) *hops {
	return &hops{lines: slices.Clone(lines), left: maxHops, bytes: maxBytes}
}

// next returns the entry before, and whether there is one.
func (h *hops) next() (string, bool) {
	if len(h.lines) == 0 {
		return "", false
	}
	last := &h.lines[len(h.lines)-1]
	comma := strings.LastIndexByte((*last)[max(0, len(*last)-h.bytes):], ',')
	comma += max(0, len(*last)-h.bytes)
	entry := (*last)[comma+1:]
	if h.left--; h.left < 0 || len(entry) >= h.bytes {
		h.lines, h.cut = nil, true
		return "", false
	}
	h.bytes -= len(entry) + 1
	if comma < 0 {
		h.lines = h.lines[:len(h.lines)-1]
	} else {
		*last = (*last)[:comma]
	}
	return entry, true
}

// parse reads an address, with or without a port; the zero Addr is none.
func parse(entry string) netip.Addr {
	entry = strings.Trim(entry, " \t")
	if withPort, err := netip.ParseAddrPort(entry); err == nil {
		return normal(withPort.Addr())
	}
	if inner, ok := strings.CutPrefix(entry, "["); ok {
		inner, ok = strings.CutSuffix(inner, "]")
		if addr, err := netip.ParseAddr(inner); ok && err == nil && addr.Is6() {
			return normal(addr)
		}
		return netip.Addr{}
	}
	addr, err := netip.ParseAddr(entry)
	if err != nil {
		return netip.Addr{}
	}
	return normal(addr)
}

// normal is the address that counts: without a zone, which is another host's business, as IPv4 where it is one, and
// none where it is that of no host.
func normal(addr netip.Addr) netip.Addr {
	addr = addr.Unmap().WithZone("")
	if addr.IsUnspecified() {
		return netip.Addr{}
	}
	return addr
}

// normalPrefix is network as addresses that are normal lie in it.
func normalPrefix(network netip.Prefix) netip.Prefix {
	if !network.IsValid() {
		panic("clientaddr: XFFTrustedCIDRs with an invalid network, want one such as netip.MustParsePrefix(\"10.0.0.0/8\")")
	}
	if addr := network.Addr(); addr.Is4In6() && network.Bits() >= 96 {
		return netip.PrefixFrom(addr.Unmap(), network.Bits()-96).Masked()
	}
	return network.Masked()
}
