package denycache

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/rlgen/rlgen/ratelimit/store"
)

const (
	setCount = 4096
	ways     = 4 // denials in a set
)

// set is the denials of the keys of some hashes. It is read and written without a lock: a denial never changes, and counts only while
// it is of the set's age.
type set struct {
	age      atomic.Uint64
	reserved atomic.Uint64 // how often a key may have been charged for a moment; a denial from before may be for that
	charged  atomic.Int64  // what this process has charged to the keys
	denials  [ways]atomic.Pointer[denial]
}

// forget forgets all denials, and those that were asked for before, too.
func (s *set) forget() { s.age.Add(1) }

// counts says whether d, which may be nil, is not forgotten.
func (s *set) counts(d *denial) bool {
	return d != nil && d.age == s.age.Load() && (d.wait == 0 || d.reserved == s.reserved.Load())
}

// find returns the denial of req's key at now, nil if there is none. A key that is asked by another limit than before is forgotten.
func (s *set) find(hash uint64, req *store.Request, now time.Duration) *denial {
	for i := range s.denials {
		d := s.denials[i].Load()
		if d == nil || d.hash != hash || d.limit.Key != req.Key || !s.counts(d) {
			continue
		}
		if !d.of(req) {
			s.forget()
			return nil
		}
		if now < d.until {
			return d
		}
	}
	return nil
}

// put puts d in the place of an older one of its key, else of the one that ends first.
func (s *set) put(d *denial) {
	first, ends := 0, store.Never
	for i := range s.denials {
		old := s.denials[i].Load()
		if !s.counts(old) {
			first, ends = i, -1
			continue
		}
		if old.hash == d.hash && old.limit.Key == d.limit.Key {
			first = i
			break
		}
		if old.until < ends {
			first, ends = i, old.until
		}
	}
	s.denials[first].Store(d)
}

// denial is what a store has said of one limit of a call that it denies. It never changes.
type denial struct {
	hash     uint64
	age      uint64
	reserved uint64
	charged  int64 // to keys of the set, before the store was asked
	limit    store.Request
	most     int64               // the largest cost that all rules of the limit ever allow
	sent     time.Duration       // when the store was asked
	until    time.Duration       // when it is forgotten
	wait     time.Duration       // for how long the limit denies its cost, from sent on; 0 if it has room
	detail   bool                // the rules say what remains
	rules    []store.RuleOutcome // at sent
}

func newDenial(p *place, sent, wait time.Duration, detail bool, answers []store.RuleOutcome) *denial {
	d := &denial{
		hash: p.hash, age: p.age, reserved: p.reserved, charged: p.charged, limit: *p.req, most: p.req.Capacity(p.req.Rules[0]),
		sent: sent, until: sent + MaxAge, wait: wait, detail: detail, rules: slices.Clone(answers),
	}
	if wait > 0 {
		d.until = sent + min(wait, MaxAge)
	}
	if ahead := p.req.Prefetch; ahead > 0 {
		d.until = min(d.until, sent+ahead) // by then others give back what they have taken ahead and not used
	}
	for _, r := range p.req.Rules {
		d.most = min(d.most, p.req.Capacity(r))
	}
	return d
}

// bars says whether the limit denies what req, which is of it, asks.
func (d *denial) bars(req *store.Request) bool {
	return d.wait > 0 && req.Cost >= d.limit.Cost && req.Cost <= d.most
}

// hasRoom says whether every rule had room for cost, as far as is known where so much is charged to the set.
func (d *denial) hasRoom(cost, charged int64) bool {
	for j := range d.rules {
		if d.remaining(j, charged) < cost {
			return false
		}
	}
	return d.detail
}

// remaining is what rule j said remains, less what this process has charged since. A limit that denies one permit lets nobody charge it.
func (d *denial) remaining(j int, charged int64) int64 {
	if d.wait > 0 && d.limit.Cost == 1 {
		return d.rules[j].Remaining
	}
	return max(0, d.rules[j].Remaining-max(0, charged-d.charged))
}

// rule is what is left at now of what rule j said, to the request at p. Where the limit has room for that, the rule does.
func (d *denial) rule(j int, now time.Duration, p *place) store.RuleOutcome {
	r, passed := d.rules[j], now-d.sent
	r.Remaining = d.remaining(j, p.charged)
	r.ResetAfter = max(0, r.ResetAfter-passed)
	r.Banned = max(0, r.Banned-passed)
	if r.RetryAfter = max(0, r.RetryAfter-passed); !p.bars {
		r.RetryAfter = 0
	}
	return r
}

// of says whether req is of the limit that was denied.
func (d *denial) of(req *store.Request) bool {
	l := &d.limit
	return l.Algorithm == req.Algorithm && l.Burst == req.Burst && l.Start == req.Start && l.Refill == req.Refill &&
		l.Segments == req.Segments && l.Ban == req.Ban && l.After == req.After && slices.Equal(l.Rules, req.Rules)
}
