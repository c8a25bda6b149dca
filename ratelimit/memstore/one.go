package memstore

import (
	"hash/maphash"

	"github.com/rlgen/rlgen/ratelimit/store"
)

// one says whether a call is one that [Store.takeOne] decides: of one request, with neither a ban nor a queue.
func one(requests []store.Request, detail bool) bool {
	return len(requests) == 1 && !detail && requests[0].Ban == 0 && !requests[0].Queue
}

// takeOne decides as call.decide does. Most calls are such, for which what several places need takes longer than to decide.
func (s *Store) takeOne(requests []store.Request, out *store.Outcome) error {
	req := &requests[0]
	hash := maphash.String(s.seed, req.Key)
	index := int(hash % shardCount)
	p := place{req: req, hash: hash, shard: &s.shards[index], index: index, steps: stepsOf(req)}
	if err := (call{p}).validate(requests); err != nil {
		return &store.Error{Class: store.Misconfigured, Err: err}
	}
	p.shard.mu.Lock()
	now := s.now()
	p.find(now)
	counts := p.held()
	out.Allowed, out.Cached, out.Ahead, out.Rules = true, false, 0, out.Rules[:0]
	for i := range req.Rules {
		retryAfter, _ := counts.ask(now, req, req.Rules[i])
		if retryAfter != 0 {
			out.Allowed = false
		}
		out.Rules = append(out.Rules, store.RuleOutcome{RetryAfter: retryAfter})
	}
	out.Receipt = store.Receipt{Charges: out.Receipt.Charges[:0]}
	if out.Allowed {
		out.Receipt.Requests, out.Receipt.ID = requests, p.shard.name(index)
		p.chargeOne(now, s.most, &out.Receipt)
	}
	p.shard.mu.Unlock()
	return nil
}

// chargeOne charges a call of one request that is allowed.
func (p *place) chargeOne(now int64, most int, r *store.Receipt) {
	if p.req.Cost == 0 {
		return
	}
	opened := !p.live
	if opened {
		p.open(now, most)
	}
	if note := p.charge(now, r.ID); p.dated() {
		r.Charges = charges(r.Charges, 1)
		r.Charges[0].At, r.Charges[0].Note = now, note
	}
	if !opened && p.shard.names%looksNew == 0 {
		p.shard.sweep(now, 1)
	}
}
