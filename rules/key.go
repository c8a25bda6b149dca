package rules

import (
	"net/netip"
	"strconv"
	"strings"
)

// Name returns the handle of limit i in errors, headers, metrics and overrides: the name that its directive gives, else the method's
// name, followed by the kind where the policy has several limits: "Create", "Create/user",
// "Create/user2" for the second limit of that kind. Behind it stand the plan, and that the limit is a shadow: "Create/user/pro",
// "Create/user/shadow". A shadow changes no other limit's name. The names of a valid policy are distinct.
func (p *Policy) Name(i int) string {
	l := &p.Limits[i]
	switch {
	case l.Name != "":
		return l.Name
	case l.Mode == Enforce && l.Plan == "" && p.enforced() == 1:
		return p.Method
	}
	nth := 1
	for j := range i {
		if other := &p.Limits[j]; other.Kind == l.Kind && other.Plan == l.Plan && other.Mode == l.Mode {
			nth++
		}
	}
	name := p.Method + "/" + l.Kind.String()
	if nth > 1 {
		name += strconv.Itoa(nth)
	}
	if l.Plan != "" {
		name += "/" + l.Plan
	}
	if l.Mode == Shadow {
		name += "/" + l.Mode.String()
	}
	return name
}

// enforced is how many limits are no shadows.
func (p *Policy) enforced() int {
	n := 0
	for i := range p.Limits {
		if p.Limits[i].Mode == Enforce {
			n++
		}
	}
	return n
}

// Key returns the parts of limit i's key that no call changes: a key is prefix:id:bucket. The bucket is escaped, and
// is the method's own ("orders.Orders-Create") unless the directive names one. A suffix tells apart what would
// otherwise be one key: "@2" for the second limit of a kind, "@" and its name for an
// algorithm other than the default, "@concurrency", "@lock", "@plan=pro" and "@shadow". So each plan has its own count.
func (p *Policy) Key(i int) (prefix, bucket string) {
	l := &p.Limits[i]
	prefix, bucket = l.Prefix, l.Bucket
	if prefix == "" {
		prefix = DefaultPrefix
	}
	own := bucket == ""
	if own {
		bucket = Escape(p.Type) + "-" + Escape(p.Method)
	}
	if l.Kind.Holds() {
		bucket += "@" + l.Kind.String()
	}
	if l.Algorithm != SlidingLog {
		bucket += "@" + l.Algorithm.String()
	}
	if l.Plan != "" {
		bucket += "@plan=" + Escape(l.Plan)
	}
	if l.Mode == Shadow {
		bucket += "@" + l.Mode.String()
	}
	if nth := p.nth(i); own && nth > 1 {
		bucket += "@" + strconv.Itoa(nth)
	}
	return prefix, bucket
}

// nth returns limit i's place, from 1, among the limits that would have its key if no number told them apart.
func (p *Policy) nth(i int) int {
	l := &p.Limits[i]
	nth := 1
	for j := range i {
		other := &p.Limits[j]
		if other.Kind == l.Kind && other.Whose() == l.Whose() && other.Algorithm == l.Algorithm && other.Mode == l.Mode &&
			other.Bucket == "" && other.Plan == l.Plan {
			nth = max(nth, 1+p.nth(j))
		}
	}
	return nth
}

// idTemplates by Kind.
var idTemplates = []string{IP: "ip=<addr>", User: "user=<id>", Global: "global", Key: "key=<text>"}

// KeyTemplate returns limit i's key with a placeholder for what calls differ in: "rl:user=<id>:orders.Orders-Create". That
// of a lock with segments is "rl:global:orders.Orders-Create@lock#<segment>". What a concurrency and a lock hold is kept
// under a key that the store makes of this one.
func (p *Policy) KeyTemplate(i int) string {
	prefix, bucket := p.Key(i)
	l := &p.Limits[i]
	if l.Kind == Lock && l.Segments > 0 {
		return prefix + ":" + Global.String() + ":" + bucket + "#<segment>"
	}
	return prefix + ":" + wordFor("Kind", idTemplates, l.Whose()) + ":" + bucket
}

// DefaultIPv6Prefix is how many bits of an IPv6 address count unless the program says otherwise: a customer holds a /64 or more.
const DefaultIPv6Prefix = 64

// nat64 is the prefix of IPv6 addresses that stand for IPv4 addresses behind a NAT64 gateway (RFC
// 6052).
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

// AddressID is the id that a limit by ip counts an address by: v4 in v6 form and v4 behind NAT64
// (64:ff9b::/96) are v4, v6 is its network of as many bits, of 128 at most, and zones are dropped.
// It is empty for the zero Addr.
func AddressID(addr netip.Addr, bits int) string { return string(AppendAddressID(nil, addr, bits)) }

// AppendAddressID appends the [AddressID] of addr to dst.
func AppendAddressID(dst []byte, addr netip.Addr, bits int) []byte {
	if !addr.IsValid() {
		return dst
	}
	addr = addr.Unmap().WithZone("")
	if nat64.Contains(addr) {
		all := addr.As16()
		addr = netip.AddrFrom4([4]byte(all[12:]))
	}
	if addr.Is6() {
		network, _ := addr.Prefix(bits)
		addr = network.Addr()
	}
	return addr.AppendTo(dst)
}

// ParseAddressID is the [AddressID] of an address in text form, with or without a port and brackets; empty if it is none.
func ParseAddressID(text string, bits int) string { return AddressID(ParseAddress(text), bits) }

// ParseAddress is the address of a text form, with or without a port and brackets; the zero Addr if it is none.
func ParseAddress(text string) netip.Addr {
	if inner, ok := strings.CutPrefix(text, "["); ok && strings.HasSuffix(inner, "]") {
		text = strings.TrimSuffix(inner, "]")
	}
	if text != "" && text[0] == '[' || strings.Count(text, ":") == 1 {
		ap, _ := netip.ParseAddrPort(text)
		return ap.Addr()
	}
	addr, _ := netip.ParseAddr(text)
	return addr
}

// Escape returns s with every byte outside [A-Za-z0-9._@-] as % and two upper-case hexadecimal digits, so that
// no part of a key can hold a separator or a hash tag. Different texts have different escapes.
func Escape(s string) string {
	for i := range len(s) {
		if !safe(s[i]) {
			return string(AppendEscape(make([]byte, 0, len(s)+8), s))
		}
	}
	return s
}

// AppendEscape appends the [Escape] of s to dst.
func AppendEscape[S ~string | ~[]byte](dst []byte, s S) []byte {
	const hex = "0123456789ABCDEF"
	for i := range len(s) {
		if c := s[i]; safe(c) {
			dst = append(dst, c)
		} else {
			dst = append(dst, '%', hex[c>>4], hex[c&15])
		}
	}
	return dst
}

// safe reports whether c stands for itself in a key.
func safe(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
		c == '.' || c == '_' || c == '@' || c == '-'
}
