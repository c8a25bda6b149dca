package ratelimit

import (
	"net/netip"

	"github.com/rlgen/rlgen/rules"
)

// maxID is how many bytes an escaped id may have in a key; a longer one is replaced by as many of its hash's as hashedID says.
const (
	maxID    = 64
	hashedID = 16
)

// DefaultIPv6Prefix is how many bits of an IPv6 address count unless [WithIPv6Prefix] says otherwise: a customer holds a /64
// or more.
const DefaultIPv6Prefix = rules.DefaultIPv6Prefix

// ipv6Prefix is how many bits of an IPv6 address count.
type ipv6Prefix int

// keyer writes the keys of one limit: prefix "rl:user=", then the id, then suffix ":orders.Orders-Create".
type keyer struct {
	prefix, suffix string
	hasher         *hasher // of all ids; nil for ids in the clear
	none           string  // the key without an id
}

func newKeyer(p *rules.Policy, i int, hasher *hasher) keyer {
	prefix, bucket := p.Key(i)
	kind := p.Limits[i].Whose()
	if p.Limits[i].Kind == rules.Lock && p.Limits[i].Segments > 0 {
		kind = rules.Global
	}
	k := keyer{prefix: prefix + ":" + kind.String(), hasher: hasher}
	if kind != rules.Global {
		k.prefix += "="
	}
	k.count(bucket)
	return k
}

// count makes the keys those of a bucket.
func (k *keyer) count(bucket string) {
	k.suffix = ":" + bucket
	k.none = k.prefix + k.suffix
}

// key returns the key of id. Different ids have different keys.
func (k *keyer) key(id string) string {
	if id == "" {
		return k.none
	}
	return keyOf(k, id)
}

// addressKey returns the key of an address, which is valid: that of its id.
func (k *keyer) addressKey(addr netip.Addr, bits ipv6Prefix) string {
	var room [64]byte
	return keyOf(k, rules.AppendAddressID(room[:0], addr, int(bits)))
}

// keyOf returns the key of an id that is not empty.
func keyOf[S string | []byte](k *keyer, id S) string {
	var buf [256]byte
	b := append(buf[:0], k.prefix...)
	start := len(b)
	by := k.hasher
	if by == nil {
		if len(id) <= maxID { // which escaping makes no shorter
			b = rules.AppendEscape(b, id)
		}
		if len(id) > maxID || len(b)-start > maxID {
			by, b = unkeyed, b[:start]
		}
	}
	if by != nil { // escaped ids have no "~", so that no id meets another's hash
		b = appendHash(append(b, '~'), by, id, hashedID)
	}
	return string(append(b, k.suffix...))
}

// id is the id of an address; empty for the zero Addr. [New] has seen to it that v6 addresses have so many bits.
func (bits ipv6Prefix) id(addr netip.Addr) string { return rules.AddressID(addr, int(bits)) }

// parse is the id of an address in text form; empty if it is none.
func (bits ipv6Prefix) parse(text string) string { return rules.ParseAddressID(text, int(bits)) }
