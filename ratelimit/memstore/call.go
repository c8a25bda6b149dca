package memstore

import (
	"hash/maphash"
	"slices"

	"github.com/rlgen/rlgen/ratelimit/store"
)

// few is how many limits a call may have before it needs memory of its own.
const few = 4

// call is the requests of one call, with the places of their keys.
type call []place

// place is where the key of a request is.
type place struct {
	req   *store.Request
	hash  uint64 // of its key
	shard *shard
	index int // of the shard
	steps *steps

	counts  counts // of the key; nil where there are none
	expires *int64 // when nothing of counts counts any more, µs
	live    bool   // something of counts counts now
	known   bool   // counts are a cell's, which nobody has to look for
}

// locate makes p the place of a request, whose key nobody has looked for yet.
func (p *place) locate(s *Store, req *store.Request) {
	p.req, p.steps = req, stepsOf(req)
	p.hash = maphash.String(s.seed, req.Key)
	p.index = int(p.hash % shardCount)
	p.shard = &s.shards[p.index]
}

// lock locks the shards of all places, each once and in ascending order, so that two calls never wait for each other.
func (c call) lock() {
	if len(c) == 1 {
		c[0].shard.mu.Lock()
		return
	}
	for p := c.next(-1); p != nil; p = c.next(p.index) {
		p.shard.mu.Lock()
	}
}

func (c call) unlock() {
	if len(c) == 1 {
		c[0].shard.mu.Unlock()
		return
	}
	for p := c.next(-1); p != nil; p = c.next(p.index) {
		p.shard.mu.Unlock()
	}
}

// next returns a place in the shard that comes after the one of index last, nil if there is none.
func (c call) next(last int) (next *place) {
	for i := range c {
		if p := &c[i]; p.index > last && (next == nil || p.index < next.index) {
			next = p
		}
	}
	return next
}

// decide decides the call at now, while its shards are locked.
func (c call) decide(now int64, detail bool, most int, out *store.Outcome) {
	rare := c.rare()
	c.find(now)
	c.ask(now, out)
	if rare {
		c.bar(now, out)
	}
	out.Receipt.Requests, out.Receipt.ID, out.Receipt.Charges = nil, 0, out.Receipt.Charges[:0]
	out.Receipt.Partial, out.Receipt.First, out.Receipt.From = false, 0, nil
	if out.Allowed {
		c.charge(now, most, out)
	} else if rare {
		c.refuse(now, most, out.Rules)
		undelay(out.Rules)
	}
	if detail {
		c.describe(now, out.Rules)
		c.bar(now, out)
	}
	if out.Allowed {
		c.tend(now)
	}
}

// rare says whether a request has what few have: a ban, or a queue.
func (c call) rare() bool {
	for i := range c {
		if req := c[i].req; req.Ban != 0 || req.Queue {
			return true
		}
	}
	return false
}

// find looks up what the keys hold at now.
func (c call) find(now int64) {
	for i := range c {
		c[i].find(now)
	}
}

// find looks up what the key holds at now. Most keys hold buckets, which are found without the choice of a book: that takes a twentieth of a decision's time.
func (p *place) find(now int64) {
	if p.known {
		return
	}
	if p.steps == bucketSteps {
		p.counts, p.expires = p.shard.buckets.get(p.hash, p.req.Key)
	} else if b := p.shard.books[p.steps.kind]; b != nil {
		p.counts, p.expires = b.get(p.hash, p.req.Key)
	}
	p.live = p.counts != nil && *p.expires > now
}

// held is what the key holds, which is not to be changed: where that is nothing, it is the same for all such keys.
func (p *place) held() counts {
	if !p.live {
		return p.steps.none
	}
	return p.counts
}

// tend drops a few keys that have expired, now and then.
func (c call) tend(now int64) {
	for i := range c {
		if p := &c[i]; p.req.Cost > 0 {
			p.shard.tend(now)
		}
	}
}

// ask asks every rule of every request.
func (c call) ask(now int64, out *store.Outcome) {
	n := 0
	for i := range c {
		n += len(c[i].req.Rules)
	}
	out.Allowed, out.Cached, out.Ahead, out.Rules = true, false, 0, slices.Grow(out.Rules[:0], n)[:n]
	answers := out.Rules
	for i := range c {
		if !c[i].ask(now, answers) {
			out.Allowed = false
		}
		answers = answers[len(c[i].req.Rules):]
	}
}

// ask writes down what every rule of the request answers, and returns whether all allow it.
func (p *place) ask(now int64, answers []store.RuleOutcome) (allowed bool) {
	allowed = true
	counts, req := p.held(), p.req
	for i := range req.Rules {
		answer := &answers[i]
		*answer = store.RuleOutcome{}
		answer.RetryAfter, answer.Delay = counts.ask(now, req, req.Rules[i])
		if answer.RetryAfter != 0 {
			allowed = false
		}
	}
	return allowed
}

// undelay takes back what queues have said to a call that another limit denies.
func undelay(answers []store.RuleOutcome) {
	for i := range answers {
		answers[i].Delay = 0
	}
}

// charge charges every request, and writes down how in the outcome's receipt. Keys that are new move others, or drive them out: the places are found once more.
func (c call) charge(now int64, most int, out *store.Outcome) {
	opened, r := false, &out.Receipt
	if c.forgets() {
		r.Charges = charges(r.Charges, len(c))
	}
	for i := range c {
		p := &c[i]
		if i == 0 {
			r.ID = p.shard.name(p.index)
		}
		if p.req.Cost == 0 {
			continue
		}
		if opened {
			p.find(now)
		}
		if p.admit(now, most, r, i) {
			opened = true
		}
	}
	if opened && len(c) > 1 {
		c.find(now)
	}
}

// admit charges the request, which is number i of its call, and writes down how in the receipt. It returns whether the key had to be opened.
func (p *place) admit(now int64, most int, r *store.Receipt, i int) (opened bool) {
	if opened = !p.live; opened {
		p.open(now, most)
	}
	if note := p.charge(now, r.ID); p.dated() {
		r.Charges[i].At, r.Charges[i].Note = now, note
	}
	return opened
}

// open makes room for what the key will hold, which holds nothing now.
func (p *place) open(now int64, most int) {
	if p.counts == nil {
		p.counts, p.expires = p.shard.fresh(now, p.hash, p.req.Key, p.steps, most)
	} else {
		p.counts.reset()
		*p.expires = 0
	}
	p.live = true
}

// charge charges the request at now, and returns what giving back has to be told.
func (p *place) charge(now int64, id uint64) int64 {
	ends, note := p.counts.charge(now, p.req, admission{at: now, cost: p.req.Cost, id: id})
	*p.expires = max(*p.expires, ends)
	return note
}

// dated reports whether a receipt has to record when the request was charged: the algorithm does not
// tell admissions apart.
func (p *place) dated() bool { return !p.steps.remembers }

// forgets says whether a receipt has to say when a request was charged.
func (c call) forgets() bool {
	for i := range c {
		if c[i].dated() && c[i].req.Cost > 0 {
			return true
		}
	}
	return false
}

// charges are n new ones, in the memory of old ones where it suffices.
func charges(old []store.Charge, n int) []store.Charge {
	if cap(old) < n {
		return make([]store.Charge, n)
	}
	old = old[:n]
	for i := range old {
		old[i].At, old[i].Note = 0, 0
		if old[i].GivenBack.Load() {
			old[i].GivenBack.Store(false)
		}
	}
	return old
}

// describe sets what remains of each rule and when it is reset.
func (c call) describe(now int64, answers []store.RuleOutcome) {
	for i := range c {
		req, counts := c[i].req, c[i].held()
		for j, rule := range req.Rules {
			answers[j].Remaining, answers[j].ResetAfter = counts.describe(now, req, rule)
		}
		answers = answers[len(req.Rules):]
	}
}

// giveBack gives back at now what receipt charged, while the shards of its keys are locked.
func (c call) giveBack(now int64, receipt store.Receipt) {
	for i := range c {
		req, p := c[i].req, &c[i]
		a := admission{cost: req.Cost, id: receipt.ID}
		if p.dated() && i < len(receipt.Charges) {
			if receipt.Charges[i].GivenBack.Swap(true) {
				continue
			}
			a.at, a.note = receipt.Charges[i].At, receipt.Charges[i].Note
		}
		if req.Cost > 0 {
			p.discharge(now, a)
		}
	}
}

// discharge takes back what a has charged, whether the key's counts have expired or not.
func (p *place) discharge(now int64, a admission) {
	if p.find(now); p.counts != nil {
		p.counts.giveBack(now, p.req, a)
	}
}

// peek answers the call at now, and changes nothing.
func (c call) peek(now int64, out *store.Outcome) {
	c.find(now)
	c.ask(now, out)
	undelay(out.Rules)
	c.describe(now, out.Rules)
	c.bar(now, out)
	out.Receipt = store.Receipt{}
}

// grant gives the requests' costs back at now.
func (c call) grant(now int64) {
	c.find(now)
	for i := range c {
		if p := &c[i]; p.live {
			p.counts.grant(now, p.req, p.req.Cost)
		}
	}
}

// reset forgets what the keys have counted, by whatever steps. What has expired takes no room for long.
func (c call) reset() {
	for i := range c {
		p := &c[i]
		for _, b := range p.shard.books {
			if b == nil {
				continue
			}
			if counts, expires := b.get(p.hash, p.req.Key); counts != nil {
				counts.reset()
				*expires = 0
			}
		}
		delete(p.shard.doors, p.req.Key)
	}
}
