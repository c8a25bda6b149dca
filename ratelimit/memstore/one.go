package memstore

import (
	"slices"

	"github.com/rlgen/rlgen/ratelimit/store"
)

// one says whether a call is of one request, with neither a ban nor a queue. Most are, for which what several places need takes longer than to decide.
func one(requests []store.Request, detail bool) bool {
	return len(requests) == 1 && !detail && requests[0].Ban == 0 && !requests[0].Queue
}

// takeBucket decides by a bucket that is there already, if that can do all at once, which takes a quarter less time than [place.take]. If it cannot, nothing is changed.
func (sh *shard) takeBucket(now int64, hash uint64, index int, requests []store.Request, out *store.Outcome) (done bool) {
	t := &sh.buckets
	if len(t.tags) == 0 {
		return false
	}
	at, found := t.find(tag(hash), requests[0].Key)
	if !found {
		return false
	}
	s := &t.slots[at]
	retryAfter, done := s.own.take(now, &requests[0])
	if !done {
		return false
	}
	if cap(out.Rules) == 0 {
		out.Rules = make([]store.RuleOutcome, 1)
	}
	out.Rules = out.Rules[:1]
	out.Rules[0] = store.RuleOutcome{RetryAfter: retryAfter}
	out.Allowed, out.Cached, out.Ahead = retryAfter == 0, false, 0
	r := &out.Receipt
	r.Partial, r.First, r.From = false, 0, nil
	if retryAfter != 0 {
		r.Requests, r.ID, r.Charges = nil, 0, r.Charges[:0]
		return true
	}
	s.expires = max(s.expires, s.own.first.full)
	r.Requests, r.ID, r.Charges = requests, sh.name(index), charges(r.Charges, 1)
	r.Charges[0].At = now
	sh.tend(now)
	return true
}

// take decides a call of one request, or fails where that is not valid.
func (p *place) take(now int64, most int, requests []store.Request, out *store.Outcome) error {
	if p.steps == nil {
		return misconfigured(unknown(requests, 0))
	}
	if err := store.Validate(requests); err != nil {
		return misconfigured(err)
	}
	p.find(now)
	out.Rules = slices.Grow(out.Rules[:0], len(p.req.Rules))[:len(p.req.Rules)]
	out.Allowed, out.Cached, out.Ahead = p.ask(now, out.Rules), false, 0
	out.Receipt = store.Receipt{Charges: out.Receipt.Charges[:0]}
	if !out.Allowed {
		return nil
	}
	out.Receipt.Requests, out.Receipt.ID = requests, p.shard.name(p.index)
	if p.req.Cost == 0 {
		return nil
	}
	if p.dated() {
		out.Receipt.Charges = charges(out.Receipt.Charges, 1)
	}
	p.admit(now, most, &out.Receipt, 0)
	p.shard.tend(now)
	return nil
}
