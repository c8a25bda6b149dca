package ratelimit

import "github.com/rlgen/rlgen/rules"

// maxID is how many bytes an escaped id may have in a key; a longer one is replaced by as many of its hash's as hashedID says.
const (
	maxID    = 64
	hashedID = 16
)

// DefaultIPv6Prefix is how many bits of an IPv6 address count unless [WithIPv6Prefix] says otherwise: a customer holds a /64
// or more.
const DefaultIPv6Prefix = rules.DefaultIPv6Prefix

// keyer writes the keys of one limit: prefix "rl:user=", then the id, then suffix ":orders.Orders-Create".
type keyer struct {
	prefix, suffix string
	hasher         *hasher // of all ids; nil for ids in the clear
	ipv6           int     // how many bits of an IPv6 address count
	none           string  // the key without an id
}

func newKeyer(p *rules.Policy, i int, hasher *hasher, ipv6 int) keyer {
	prefix, bucket := p.Key(i)
	kind := p.Limits[i].Whose()
	if p.Limits[i].Kind == rules.Lock && p.Limits[i].Segments > 0 {
		kind = rules.Global
	}
	k := keyer{prefix: prefix + ":" + kind.String(), hasher: hasher, ipv6: ipv6}
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
func (k *keyer) key(id *callerID) string {
	switch id.form {
	case noID:
		return k.none
	case textID:
		return keyOf(k, id.text)
	}
	var room [64]byte
	return keyOf(k, id.appendText(room[:0], k.ipv6))
}

// keyOf returns the key of an id that is not empty.
func keyOf[S string | []byte](k *keyer, id S) string {
	var buf [256]byte
	b := append(buf[:0], k.prefix...)
	start := len(b)
	by := k.hasher
	if by == nil && len(id) <= maxID {
		b = rules.AppendEscape(b, id)
	}
	if by == nil && (len(id) > maxID || len(b)-start > maxID) { // escaping makes no id shorter
		by, b = unkeyed, b[:start]
	}
	if by != nil { // escaped ids have no "~", so that no id meets another's hash
		b = appendHash(append(b, '~'), by, id, hashedID)
	}
	return string(append(b, k.suffix...))
}
