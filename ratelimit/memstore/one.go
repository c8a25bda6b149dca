package memstore

import (
	"slices"

	"github.com/rlgen/rlgen/ratelimit/store"
)

// one says whether a call is one that [Store.takeOne] decides: of one request, with neither a ban nor a queue.
func one(requests []store.Request, detail bool) bool {
	return len(requests) == 1 && !detail && requests[0].Ban == 0 && !requests[0].Queue
}

// takeOne decides as call.decide does. Most calls are such, for which what several places need takes longer than to decide.
func (s *Store) takeOne(requests []store.Request, out *store.Outcome) error {
	var p place
	req := &requests[0]
	p.locate(s, req)
	if p.steps == nil {
		return misconfigured(unknown(requests, 0))
	}
	if err := store.Validate(requests); err != nil {
		return misconfigured(err)
	}
	p.shard.mu.Lock()
	now := s.clock.now()
	p.find(now)
	out.Rules = slices.Grow(out.Rules[:0], len(req.Rules))[:len(req.Rules)]
	out.Allowed, out.Cached, out.Ahead = p.ask(now, out.Rules), false, 0
	out.Receipt = store.Receipt{Charges: out.Receipt.Charges[:0]}
	if out.Allowed {
		out.Receipt.Requests, out.Receipt.ID = requests, p.shard.name(p.index)
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
	if p.dated() {
		r.Charges = charges(r.Charges, 1)
	}
	if opened := p.admit(now, most, r, 0); !opened {
		p.sweep(now)
	}
}
