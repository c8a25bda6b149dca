package ratelimit

import (
	"strings"

	"github.com/rlgen/rlgen/rules"
)

// WithColocation keeps all limits of a method in one slot of a Redis Cluster, so that a call is one script, decided at one
// instant, and nothing is ever reserved and given back. The price is that all callers of a method meet at one node, which the default
// spreads: take it where a method's limits are not many, and deny often. Limits of a bucket that several methods share are in
// the bucket's slot.
//
// The keys then have a hash tag ("rl:user=42:{orders.Orders-Create}"), and are others than without: all processes of a
// service need it, and counts begin anew where it is set. It changes nothing for concurrency and locks.
func WithColocation() Option {
	return optionFunc(func(l *Limiter) { l.colocated = true })
}

// bucket returns the last part of limit i's key.
func (l *Limiter) bucket(p *rules.Policy, i int) string {
	_, bucket := p.Key(i)
	from := &p.Limits[i]
	if !l.colocated || from.Kind.Holds() {
		return bucket
	}
	shared := from.Bucket
	if shared == "" {
		shared = rules.Escape(p.Type) + "-" + rules.Escape(p.Method)
	}
	return "{" + shared + "}" + strings.TrimPrefix(bucket, shared)
}

// template returns limit i's key with a placeholder for what calls differ in.
func (l *Limiter) template(p *rules.Policy, i int) string {
	_, bucket := p.Key(i)
	rest, ok := strings.CutSuffix(p.KeyTemplate(i), bucket)
	if !ok { // a lock with segments, which has no hash tag
		return p.KeyTemplate(i)
	}
	return rest + l.bucket(p, i)
}
