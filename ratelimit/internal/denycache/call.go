package denycache

import (
	"time"

	"github.com/rlgen/rlgen/ratelimit/store"
)

// call is the requests of one call, with what is remembered of them.
type call []place

// place is where the denial of a request is remembered.
type place struct {
	req      *store.Request
	hash     uint64
	set      *set
	age      uint64  // of the set, before the store is asked
	reserved uint64  // in the set, before that
	charged  int64   // to the set's keys, before that
	denial   *denial // nil if there is none that says anything of the request
	bars     bool    // that denies it
}

// find finds what is remembered of the request at now.
func (p *place) find(now time.Duration) {
	d := p.set.find(p.hash, p.req, now)
	if d == nil {
		return
	}
	p.bars = d.bars(p.req)
	if p.bars || d.hasRoom(p.req.Cost, p.charged) {
		p.denial = d
	}
}

// remembered says whether denials of the request are: a queue denies by how long the one call may wait, and a cost of 0 is never denied.
func (p *place) remembered() bool { return p.req.Cost > 0 && !p.req.Queue }

// countsDenials says whether the store is to hear of a denial by the request, whose ban it counts towards.
func (p *place) countsDenials() bool { return p.req.Ban > 0 && p.req.Cost > 0 }

// denies says whether what is remembered answers the call.
func (c call) denies(detail bool) bool {
	denied := false
	for i := range c {
		p := &c[i]
		if !p.bars && p.countsDenials() {
			return false
		}
		if detail && (p.denial == nil || !p.denial.detail) {
			return false
		}
		denied = denied || p.bars
	}
	return denied
}

// answer writes what denies the call at now.
func (c call) answer(now time.Duration, out *store.Outcome) {
	*out = store.Outcome{Cached: true, Rules: out.Rules[:0], Receipt: store.Receipt{Charges: out.Receipt.Charges[:0]}}
	for i := range c {
		p := &c[i]
		for j := range p.req.Rules {
			var r store.RuleOutcome
			if p.denial != nil {
				r = p.denial.rule(j, now, p)
			}
			out.Rules = append(out.Rules, r)
		}
	}
}

// remember remembers what the store has said of a call that it denies, which was sent at an instant. What another limit has denied may have been charged to
// the ones with room for a moment, where the store keeps them apart: what they have denied meanwhile is forgotten.
func (c call) remember(sent time.Duration, detail bool, answers []store.RuleOutcome) {
	for i := range c {
		p := &c[i]
		n := len(p.req.Rules)
		if len(answers) < n {
			return
		}
		wait := longest(answers[:n])
		if wait == 0 && len(c) > 1 {
			p.set.reserved.Add(1)
		}
		if p.remembers(wait, detail, answers[:n]) {
			p.set.put(newDenial(p, sent, wait, detail, answers[:n]))
		}
		answers = answers[n:]
	}
}

// remembers says whether there is something to remember of answers, the longest of whose waits is given: a denial that will end, and, of a limit with room, what
// remains.
func (p *place) remembers(wait time.Duration, detail bool, answers []store.RuleOutcome) bool {
	if !p.remembered() || wait == store.Never {
		return false
	}
	if p.countsDenials() {
		return answers[0].Banned > 0
	}
	return wait > 0 || detail
}

func longest(answers []store.RuleOutcome) (wait time.Duration) {
	for i := range answers {
		wait = max(wait, answers[i].RetryAfter)
	}
	return wait
}
