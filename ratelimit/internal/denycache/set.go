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
	age     atomic.Uint64
	denials [ways]atomic.Pointer[denial]
}

// forget forgets all denials, and those that were asked for before, too.
func (s *set) forget() { s.age.Add(1) }

// find returns the denial of req at now, nil if there is none. A key that is asked by another limit than before is forgotten.
func (s *set) find(hash uint64, req *store.Request, now time.Duration) *denial {
	for i := range s.denials {
		d := s.denials[i].Load()
		if d == nil || d.hash != hash || d.limit.Key != req.Key || d.age != s.age.Load() {
			continue
		}
		if !d.of(req) {
			s.forget()
			return nil
		}
		if now < d.until && req.Cost >= d.limit.Cost && req.Cost <= d.most {
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
		if old == nil || old.age != s.age.Load() {
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
	hash    uint64
	age     uint64
	limit   store.Request
	most    int64         // the largest cost that all rules of the limit ever allow
	sent    time.Duration // when the store was asked
	until   time.Duration
	rules   []store.RuleOutcome // at sent
	settled time.Duration       // until when the rules are all that there is to be said of one permit; 0 for never
}

func newDenial(p *place, sent, wait time.Duration, detail bool, answers []store.RuleOutcome) *denial {
	d := &denial{
		hash: p.hash, age: p.age, limit: *p.req, most: p.req.Capacity(p.req.Rules[0]),
		sent: sent, until: sent + min(wait, MaxAge), rules: slices.Clone(answers),
	}
	if ahead := p.req.Prefetch; ahead > 0 {
		d.until = min(d.until, sent+ahead) // by then others give back what they have taken ahead and not used
	}
	shortest := wait
	for i := range answers {
		d.most = min(d.most, p.req.Capacity(p.req.Rules[i]))
		shortest = min(shortest, answers[i].RetryAfter)
	}
	if detail && p.req.Cost == 1 {
		d.settled = sent + shortest
	}
	return d
}

// of says whether req is of the limit that was denied.
func (d *denial) of(req *store.Request) bool {
	l := &d.limit
	return l.Algorithm == req.Algorithm && l.Burst == req.Burst && l.Start == req.Start && l.Refill == req.Refill &&
		l.Segments == req.Segments && l.Ban == req.Ban && l.After == req.After && slices.Equal(l.Rules, req.Rules)
}

// exact says whether the denial says all that the store would say of req at now: nobody can charge the key before one rule has room for one permit.
func (d *denial) exact(req *store.Request, now time.Duration) bool {
	return req.Cost == 1 && now < d.settled
}
