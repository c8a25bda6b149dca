package clientaddr_test

import (
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"github.com/rlgen/rlgen/ratelimit/clientaddr"
)

// lines are a header's, whichever is asked for.
func lines(lines ...string) func(string) []string { return func(string) []string { return lines } }

func addr(text string) netip.Addr {
	if text == "" {
		return netip.Addr{}
	}
	return netip.MustParseAddr(text)
}

var (
	proxies = clientaddr.XFFTrustedCIDRs(netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8:ffff::/48"))
	one     = clientaddr.XFFTrustedCount(1)
	two     = clientaddr.XFFTrustedCount(2)
	realIP  = clientaddr.TrustedHeader("X-Real-IP")
)

func TestFind(t *testing.T) {
	many := strings.Repeat("10.1.1.1,", 9_999)
	for _, test := range []struct {
		name   string
		source clientaddr.Source
		peer   string
		header []string
		want   string // "" is no address
	}{
		{"no header is trusted by default", clientaddr.RemoteAddr(), "203.0.113.7", []string{"198.51.100.1"}, "203.0.113.7"},
		{"a peer's zone is dropped", clientaddr.RemoteAddr(), "fe80::1%evil:{x}", nil, "fe80::1"},
		{"IPv4 in IPv6 is IPv4", clientaddr.RemoteAddr(), "::ffff:203.0.113.7", nil, "203.0.113.7"},
		{"a unix socket has no address", clientaddr.RemoteAddr(), "", []string{"198.51.100.1"}, ""},

		{"a peer that is no proxy is the client", proxies, "203.0.113.7", []string{"198.51.100.1"}, "203.0.113.7"},
		{"a proxy's word counts", proxies, "10.0.0.1", []string{"198.51.100.1"}, "198.51.100.1"},
		{"a proxy in IPv4 in IPv6 is one", proxies, "::ffff:10.0.0.1", []string{"198.51.100.1"}, "198.51.100.1"},
		{"proxies whose network is written in IPv4 in IPv6", clientaddr.XFFTrustedCIDRs(netip.MustParsePrefix("::ffff:10.0.0.0/104")), "10.0.0.1", []string{"198.51.100.1, 10.9.9.9"}, "198.51.100.1"},
		{"what the client wrote stands before and does not count", proxies, "10.0.0.1", []string{"1.1.1.1, 2.2.2.2, 198.51.100.1"}, "198.51.100.1"},
		{"nor in lines of its own", proxies, "10.0.0.1", []string{"1.1.1.1", "2.2.2.2,198.51.100.1"}, "198.51.100.1"},
		{"proxies behind one another", proxies, "10.0.0.1", []string{"1.1.1.1, 198.51.100.1, 10.2.0.1, 2001:db8:ffff::2"}, "198.51.100.1"},
		{"also over lines", proxies, "10.0.0.1", []string{"198.51.100.1", "10.2.0.1", "10.3.0.1"}, "198.51.100.1"},
		{"a client that claims a proxy's address", proxies, "10.0.0.1", []string{"10.9.9.9, 198.51.100.1"}, "198.51.100.1"},
		{"a bad entry before the client's", proxies, "10.0.0.1", []string{"evil, 198.51.100.1"}, "198.51.100.1"},
		{"a bad entry in the client's place", proxies, "10.0.0.1", []string{"198.51.100.1, evil, 10.2.0.1"}, ""},
		{"unknown, as RFC 7239 has it", proxies, "10.0.0.1", []string{"198.51.100.1, unknown"}, ""},
		{"an empty entry", proxies, "10.0.0.1", []string{"198.51.100.1,"}, ""},
		{"an empty header", proxies, "10.0.0.1", []string{""}, ""},
		{"no header: the proxy itself calls", proxies, "10.0.0.1", nil, "10.0.0.1"},
		{"all are proxies: the first is the caller", proxies, "10.0.0.1", []string{"10.5.0.1, 10.2.0.1"}, "10.5.0.1"},
		{"a unix socket is in no network", proxies, "", []string{"198.51.100.1"}, ""},
		{"ports", proxies, "10.0.0.1", []string{"198.51.100.1:4711"}, "198.51.100.1"},
		{"brackets", proxies, "10.0.0.1", []string{"[2001:db8::7]"}, "2001:db8::7"},
		{"brackets and ports", proxies, "10.0.0.1", []string{"[2001:db8::7]:4711, [2001:db8:ffff::1]:80"}, "2001:db8::7"},
		{"half a bracket", proxies, "10.0.0.1", []string{"[2001:db8::7"}, ""},
		{"an IPv4 address in brackets", proxies, "10.0.0.1", []string{"[198.51.100.1]"}, ""},
		{"an address with a zone", proxies, "10.0.0.1", []string{"fe80::1%evil:{x}"}, "fe80::1"},
		{"IPv4 in IPv6 in a header", proxies, "10.0.0.1", []string{"198.51.100.1, ::ffff:10.2.0.1"}, "198.51.100.1"},
		{"blanks and tabs", proxies, "10.0.0.1", []string{" \t198.51.100.1\t ,  10.2.0.1 "}, "198.51.100.1"},
		{"quotes", proxies, "10.0.0.1", []string{`"198.51.100.1"`}, ""},
		{"leading zeros", proxies, "10.0.0.1", []string{"198.051.100.001"}, ""},
		{"hexadecimal", proxies, "10.0.0.1", []string{"0xc6336401"}, ""},
		{"the address of no host", proxies, "10.0.0.1", []string{"0.0.0.0"}, ""},
		{"control characters", proxies, "10.0.0.1", []string{"198.51.100.1\r\n"}, ""},
		{"10,000 entries before the client's", proxies, "10.0.0.1", []string{many + "198.51.100.1"}, "198.51.100.1"},
		{"10,000 entries of proxies", proxies, "10.0.0.1", []string{"198.51.100.1," + many + "10.1.1.1"}, ""},
		{"64 entries of proxies", proxies, "10.0.0.1", []string{strings.Repeat("10.1.1.1,", 63) + "10.1.1.2"}, "10.1.1.1"},
		{"the client in the 64th entry", proxies, "10.0.0.1", []string{"198.51.100.1" + strings.Repeat(",10.1.1.1", 63)}, "198.51.100.1"},
		{"the client in the 65th entry", proxies, "10.0.0.1", []string{"198.51.100.1" + strings.Repeat(",10.1.1.1", 64)}, ""},
		{"an entry of 1 MiB", proxies, "10.0.0.1", []string{strings.Repeat("1", 1<<20)}, ""},
		{"an entry of 1 MiB before the client's", proxies, "10.0.0.1", []string{strings.Repeat("1", 1<<20) + ",198.51.100.1"}, "198.51.100.1"},
		{"an entry that ends within 8 KiB", proxies, "10.0.0.1", []string{"198.51.100.1" + strings.Repeat(" ", 8<<10-1-len("198.51.100.1"))}, "198.51.100.1"},
		{"an entry of 8 KiB", proxies, "10.0.0.1", []string{"198.51.100.1" + strings.Repeat(" ", 8<<10-len("198.51.100.1"))}, ""},
		{"entries and lines of 8 KiB together", proxies, "10.0.0.1", []string{"198.51.100.1", "10.1.1.1" + strings.Repeat(" ", 5<<10), "10.1.1.1" + strings.Repeat(" ", 4<<10)}, ""},
		{"blanks of 1 MiB", proxies, "10.0.0.1", []string{"198.51.100.1" + strings.Repeat(" ", 1<<20)}, ""},

		{"one proxy: the last entry", one, "203.0.113.7", []string{"1.1.1.1, 198.51.100.1"}, "198.51.100.1"},
		{"one proxy on a unix socket", one, "", []string{"198.51.100.1"}, "198.51.100.1"},
		{"one proxy that says nothing", one, "203.0.113.7", nil, ""},
		{"two proxies: the last but one", two, "10.0.0.1", []string{"1.1.1.1, 198.51.100.1, 10.2.0.1"}, "198.51.100.1"},
		{"two proxies, over lines", two, "10.0.0.1", []string{"198.51.100.1", "10.2.0.1"}, "198.51.100.1"},
		{"two proxies, one entry", two, "10.0.0.1", []string{"198.51.100.1"}, ""},
		{"two proxies, what the nearer one says does not matter", two, "10.0.0.1", []string{"198.51.100.1, unknown"}, "198.51.100.1"},
		{"64 proxies", clientaddr.XFFTrustedCount(64), "10.0.0.1", []string{"198.51.100.1" + strings.Repeat(",10.1.1.1", 63)}, "198.51.100.1"},

		{"a header that the proxy sets", realIP, "10.0.0.1", []string{"198.51.100.1"}, "198.51.100.1"},
		{"set twice, it is not the proxy's", realIP, "10.0.0.1", []string{"1.1.1.1", "198.51.100.1"}, ""},
		{"two addresses in it", realIP, "10.0.0.1", []string{"1.1.1.1, 198.51.100.1"}, ""},
		{"not set: the peer is no client", realIP, "10.0.0.1", nil, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := test.source.Find(addr(test.peer), lines(test.header...)); got != addr(test.want) {
				t.Errorf("Find(%q, %.60q) = %v, want %q", test.peer, test.header, got, test.want)
			}
		})
	}
}

// The header that a source asks for is the one it names.
func TestHeader(t *testing.T) {
	for name, source := range map[string]clientaddr.Source{"X-Real-IP": realIP, "X-Forwarded-For": one} {
		got := source.Find(addr("10.0.0.1"), func(asked string) []string {
			if asked != name {
				return nil
			}
			return []string{"198.51.100.1"}
		})
		if got != addr("198.51.100.1") {
			t.Errorf("Find in %s = %v, want 198.51.100.1", name, got)
		}
	}
}

// A header's lines are the request's, and stay as they are.
func TestLinesAreNotChanged(t *testing.T) {
	header := []string{"1.1.1.1, 198.51.100.1", "10.2.0.1, 10.3.0.1"}
	proxies.Find(addr("10.0.0.1"), lines(header...))
	if header[0] != "1.1.1.1, 198.51.100.1" || header[1] != "10.2.0.1, 10.3.0.1" {
		t.Errorf("Find has changed the header to %q", header)
	}
}

func TestInvalidSources(t *testing.T) {
	for name, make := range map[string]func(){
		"TrustedHeader of no name":   func() { clientaddr.TrustedHeader("") },
		"XFFTrustedCIDRs of nothing": func() { clientaddr.XFFTrustedCIDRs() },
		"XFFTrustedCIDRs of a zero":  func() { clientaddr.XFFTrustedCIDRs(netip.Prefix{}) },
		"XFFTrustedCount of 0":       func() { clientaddr.XFFTrustedCount(0) },
		"XFFTrustedCount of -1":      func() { clientaddr.XFFTrustedCount(-1) },
		"XFFTrustedCount of many":    func() { clientaddr.XFFTrustedCount(65) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("it is taken, want a panic that says what is wrong")
				}
			}()
			make()
		})
	}
}

// FuzzFind holds that nothing that a client writes into the header changes the address that its proxy has seen, and
// that an address is one that counts.
func FuzzFind(f *testing.F) {
	for _, seed := range []string{"", "1.1.1.1", ",", "unknown", "10.0.0.1, ", "a,b,c", "[::1", "1.1.1.1\n10.1.1.1", strings.Repeat(",", 100)} {
		f.Add(seed, seed, uint8(0))
	}
	f.Fuzz(func(t *testing.T, written, more string, behind uint8) {
		client := addr("198.51.100.1")
		hops := int(behind) % 63
		chain := client.String()
		for i := range hops {
			chain += ", 10.0.0." + strconv.Itoa(i)
		}
		for _, header := range [][]string{{chain}, {written, chain}, {written + ", " + chain}, {written, more + "," + chain}} {
			for _, source := range []clientaddr.Source{proxies, clientaddr.XFFTrustedCount(hops + 1)} {
				if got := source.Find(addr("10.0.0.1"), lines(header...)); got != client {
					t.Errorf("Find(%q) = %v, want %v", header, got, client)
				}
			}
		}
		for _, source := range []clientaddr.Source{proxies, one, two, realIP} {
			got := source.Find(addr("10.0.0.1"), lines(written, more))
			if got.Zone() != "" || got.Is4In6() || got.IsUnspecified() {
				t.Errorf("Find(%q, %q) = %v, want an address without a zone, of a host", written, more, got)
			}
		}
	})
}
