package denycache

import (
	"time"

	"github.com/rlgen/rlgen/ratelimit/store"
)

// call is the requests of one call, with what is remembered of them.
type call []place

// place is where the denial of a request is remembered.
type place struct {
	req    *store.Request
	hash   uint64
	set    *set
	age    uint64  // of the set, before the store is asked
	denial *denial // nil if there is none
}

// remembered says whether denials of the request are: a queue denies by how long the one call may wait, and a cost of 0 is never denied.
func (p *place) remembered() bool { return p.req.Cost > 0 && !p.req.Queue }

// countsDenials says whether the store is to hear of a denial by the request, whose ban it counts towards.
func (p *place) countsDenials() bool { return p.req.Ban > 0 && p.req.Cost > 0 }

// denies says whether a remembered denial answers the call at now.
func (c call) denies(now time.Duration, detail bool) bool {
	denied := false
	for i := range c {
		d := c[i].denial
		if d == nil && c[i].countsDenials() {
			return false
		}
		if detail && (d == nil || !d.exact(c[i].req, now)) {
			return false
		}
		denied = denied || d != nil
	}
	return denied
}

// answer writes what denies the call at now.
func (c call) answer(now time.Duration, out *store.Outcome) {
	*out = store.Outcome{Cached: true, Rules: out.Rules[:0], Receipt: store.Receipt{Charges: out.Receipt.Charges[:0]}}
	for i := range c {
		d := c[i].denial
		for j := range c[i].req.Rules {
			var r store.RuleOutcome
			if d != nil {
				r = d.rules[j]
				r.RetryAfter = max(0, r.RetryAfter-(now-d.sent))
				r.ResetAfter = max(0, r.ResetAfter-(now-d.sent))
				r.Banned = max(0, r.Banned-(now-d.sent))
			}
			out.Rules = append(out.Rules, r)
		}
	}
}

// remember remembers by which limits the store has denied a call that was sent at an instant. What another limit has denied may have been charged to
// the others for a moment, where the store keeps them apart: what they have denied meanwhile is forgotten.
func (c call) remember(sent time.Duration, detail bool, answers []store.RuleOutcome) {
	for i := range c {
		p := &c[i]
		n := len(p.req.Rules)
		if len(answers) < n {
			return
		}
		switch wait := longest(answers[:n]); {
		case wait == 0 && len(c) > 1:
			p.set.forget()
		case p.countsDenials() && answers[0].Banned == 0:
		case wait > 0 && wait != store.Never && p.remembered():
			p.set.put(newDenial(p, sent, wait, detail, answers[:n]))
		}
		answers = answers[n:]
	}
}

func longest(answers []store.RuleOutcome) (wait time.Duration) {
	for i := range answers {
		wait = max(wait, answers[i].RetryAfter)
	}
	return wait
}
