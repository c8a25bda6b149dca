package memstore

import (
	"cmp"
	"slices"
	"time"

	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// door is what is known of the denials of one key whose limit has a ban. The zero door is open, and nobody has been denied.
type door struct {
	denials []denial // in the order of their coming; those that have closed it while it is closed
	closed  int64    // until when the key is banned, µs
	expires int64    // when none of this matters any more, µs
}

// denial is a call that a key's limit has denied.
type denial struct {
	at int64           // µs
	by []time.Duration // the windows of the rules that have denied it; nil for all of the limit's
}

// left is for how much longer the door is closed.
func (d *door) left(now int64) time.Duration {
	if d == nil {
		return 0
	}
	return micros(max(0, d.closed-now))
}

// deny counts a denial at now by these answers, and closes the door if it is one too many. A clock that is set back leaves later ones behind, which count too.
func (d *door) deny(now int64, req *store.Request, answers []store.RuleOutcome) {
	window := req.Longest().Microseconds()
	if d.closed != 0 {
		d.denials, d.closed = d.denials[:0], 0
	}
	d.denials = slices.DeleteFunc(d.denials, func(old denial) bool { return old.at <= now-window })
	d.denials = append(d.denials, denial{now, deniers(req, answers)})
	d.expires = d.last() + window
	if int64(len(d.denials)) >= req.After {
		d.closed = now + req.Ban.Microseconds()
		d.expires = d.closed
	}
}

// last is when the latest denial was, of which there is one.
func (d *door) last() int64 {
	return slices.MaxFunc(d.denials, func(a, b denial) int { return cmp.Compare(a.at, b.at) }).at
}

// deniers are the windows of the rules that deny by these answers, nil if all do.
func deniers(req *store.Request, answers []store.RuleOutcome) (windows []time.Duration) {
	if !slices.ContainsFunc(answers, func(a store.RuleOutcome) bool { return a.RetryAfter == 0 }) {
		return nil
	}
	for i, rule := range req.Rules {
		if answers[i].RetryAfter > 0 {
			windows = append(windows, rule.Window)
		}
	}
	return windows
}

// forgive forgets at now, of the denials since a call was charged that gives its permits back, the first ones: of those by a rule no more than the permits that
// it has gained by that, which it has kept from whom it denied. It opens the door for whose closing too few are left.
func (d *door) forgive(now, charged int64, req *store.Request, gains []int64) {
	if d.closed != 0 && d.closed <= now {
		return
	}
	before := len(d.denials)
	d.denials = slices.DeleteFunc(d.denials, func(old denial) bool { return old.at >= charged && old.excused(req.Rules, gains) })
	switch left := len(d.denials); {
	case left == before || d.closed != 0 && int64(left) >= req.After:
	case left == 0:
		d.closed, d.expires = 0, now
	default:
		d.closed, d.expires = 0, d.last()+req.Longest().Microseconds()
	}
}

// excused says whether each rule that has denied the call has gained a permit, and takes these. A rule that there is no more has gained none.
func (old *denial) excused(rs []rules.Rule, gains []int64) bool {
	var met []int
	for i, rule := range rs {
		if old.by == nil || slices.Contains(old.by, rule.Window) {
			met = append(met, i)
		}
	}
	if len(met) < len(old.by) || slices.ContainsFunc(met, func(i int) bool { return gains[i] < 1 }) {
		return false
	}
	for _, i := range met {
		gains[i]--
	}
	return true
}

// giveBack gives back at now what a charge of p's key has charged, and forgives its door the denials that this has brought.
func (p *place) giveBack(now int64, a admission) {
	d := p.shard.doors[p.req.Key]
	if d == nil || p.req.Ban == 0 || a.at == 0 {
		p.discharge(now, a)
		return
	}
	p.find(now)
	gains := make([]int64, len(p.req.Rules))
	resets := make([]time.Duration, len(p.req.Rules))
	for i, rule := range p.req.Rules {
		gains[i], resets[i] = p.held().describe(now, p.req, rule)
	}
	p.discharge(now, a)
	for i, rule := range p.req.Rules {
		remaining, reset := p.held().describe(now, p.req, rule)
		if gains[i] = remaining - gains[i]; gains[i] == 0 && reset < resets[i] {
			gains[i] = 1 // a part of one
		}
	}
	d.forgive(now, a.at, p.req, gains)
}

// close closes the door for a time.
func (d *door) close(now int64, ban time.Duration) {
	d.denials, d.closed = d.denials[:0], now+ban.Microseconds()
	d.expires = d.closed
}

// open returns the door of a key, a new one if it has none.
func (sh *shard) open(now int64, key string, most int) *door {
	if d := sh.doors[key]; d != nil {
		return d
	}
	sh.sweepDoors(now, most)
	if sh.doors == nil {
		sh.doors = make(map[string]*door)
	}
	d := new(door)
	sh.doors[key] = d
	return d
}

// sweepDoors drops some doors that have expired, and one that has not where there are too many.
func (sh *shard) sweepDoors(now int64, most int) {
	looks := looksNew
	for key, d := range sh.doors {
		if d.expires <= now || len(sh.doors) >= most {
			delete(sh.doors, key)
		}
		if looks--; looks == 0 {
			return
		}
	}
}

// bar makes what the rules of keys have said, who are banned, that they deny for as long.
func (c call) bar(now int64, detail bool, out *store.Outcome) {
	answers := out.Rules
	for i := range c {
		req := c[i].req
		own := answers[:len(req.Rules)]
		answers = answers[len(req.Rules):]
		if req.Ban == 0 || req.Cost == 0 && !detail {
			continue
		}
		if left := c[i].shard.doors[req.Key].left(now); left > 0 {
			closeAll(own, left, req.Cost)
			out.Allowed = out.Allowed && req.Cost == 0
		}
	}
}

// refuse counts the denials of a call that is denied, by those keys that are not banned.
func (c call) refuse(now int64, most int, answers []store.RuleOutcome) {
	for i := range c {
		p := &c[i]
		own := answers[:len(p.req.Rules)]
		answers = answers[len(p.req.Rules):]
		if p.req.Ban == 0 || own[0].Banned > 0 || !p.req.Refused(own) {
			continue
		}
		d := p.shard.open(now, p.req.Key, most)
		d.deny(now, p.req, own)
		closeAll(own, d.left(now), p.req.Cost)
	}
}

func closeAll(answers []store.RuleOutcome, left time.Duration, cost int64) {
	for j := range answers {
		answers[j].Close(left, cost)
	}
}
