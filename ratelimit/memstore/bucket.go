package memstore

import (
	"time"

	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// bucket is a token bucket: burst tokens at most, and count more in each window, evenly. It does not count them, but
// knows for each rule when the bucket will be full. That is the leaky bucket and GCRA too: what is missing in the
// one is the filling of the other, and the time until it is full is what GCRA is ahead of now.
//
// One token takes window/count to come back. All is counted in units of 1 µs/count, of which a token is as many as
// the window has µs: integers, which lose nothing.
//
// What is taken ahead is missing as if nothing had come back by then. A charge made before has room behind it then which is not
// there, so that of what it gives back only that much is free again which would be if it had been charged as late.
//
// A clock that is set back is further away from the time at which the bucket is full.
type bucket struct {
	debts []debt
	first [1]debt // the memory of debts, which most have no more of
}

// debt is one rule's bucket, known by its window: empty until now, full again at full less early units.
type debt struct {
	window int64 // µs
	full   int64 // µs, rounded up
	ahead  int64 // the latest time as of which permits were taken ahead, µs; 0 if none were
	fraction
}

func (b *bucket) reset() { b.debts = b.debts[:0] }

func (b *bucket) fetch() int64 {
	if len(b.debts) > 0 {
		return b.debts[0].full
	}
	return 0
}

// of returns the debt of a rule, with nothing missing if it has none at now.
func (b *bucket) of(now int64, rule rules.Rule) debt {
	window := rule.Window.Microseconds()
	for _, d := range b.debts {
		if d.window == window && d.full > now {
			d.fraction = d.fraction.of(rule.Count)
			return d
		}
	}
	return debt{window: window, full: now, fraction: fraction{count: rule.Count}}
}

// missing is when the bucket of a rule is full, and its early units.
func (b *bucket) missing(now int64, rule rules.Rule) (full, early int64) {
	window := rule.Window.Microseconds()
	for i := range b.debts {
		if d := &b.debts[i]; d.window == window && d.full > now {
			return d.full, d.of(rule.Count).early
		}
	}
	return now, 0
}

// open returns the debt of a rule, with nothing missing if it had none at now, to be changed.
func (b *bucket) open(now int64, rule rules.Rule) *debt {
	window := rule.Window.Microseconds()
	for i := range b.debts {
		if d := &b.debts[i]; d.window == window {
			if d.full <= now {
				d.full, d.ahead, d.early = now, 0, 0
			}
			d.fraction = d.of(rule.Count)
			return d
		}
	}
	if b.debts == nil {
		b.debts = b.first[:0]
	}
	b.debts = append(b.debts, debt{window: window, full: now, fraction: fraction{count: rule.Count}})
	return &b.debts[len(b.debts)-1]
}

func (b *bucket) ask(now int64, req *store.Request, rule rules.Rule) (out store.RuleOutcome) {
	burst := req.Capacity(rule)
	switch cost := req.Cost; {
	case cost == 0:
	case cost > burst:
		out.RetryAfter = store.Never
	default:
		full, early := b.missing(now, rule)
		out.RetryAfter = micros(max(0, full-now-((burst-cost)*rule.Window.Microseconds()+early)/rule.Count))
	}
	return out
}

func (b *bucket) describe(now int64, req *store.Request, rule rules.Rule) (remaining int64, reset time.Duration) {
	d := b.of(now, rule)
	most := req.Capacity(rule) * d.window
	wait := d.full - now
	if wait > most/d.count+1 {
		return 0, micros(wait) // more than a burst is missing: the clock was set back, or the burst was larger
	}
	return max(0, most-wait*d.count+d.early) / d.window, micros(wait)
}

func (b *bucket) charge(now int64, req *store.Request, a admission) (ends int64) {
	for _, rule := range req.Rules {
		d := b.open(now, rule)
		if req.Ahead > 0 {
			*d = d.from(now + req.Ahead.Microseconds())
		}
		d.owe(a.cost * d.window)
	}
	for _, d := range b.debts {
		ends = max(ends, d.full)
	}
	return ends
}

// giveBack takes back what has not come back by itself since.
func (b *bucket) giveBack(now int64, req *store.Request, a admission) {
	for _, rule := range req.Rules {
		d := b.of(now, rule)
		since := max(0, max(now, d.ahead)-a.at-req.Ahead.Microseconds())
		if d.full == now || since >= (a.cost*d.window+d.count-1)/d.count {
			continue
		}
		b.set(d.moved(since*d.count - a.cost*d.window))
	}
}

// grant fills the buckets.
func (b *bucket) grant(now int64, req *store.Request, n int64) {
	for _, rule := range req.Rules {
		if d := b.of(now, rule); d.full > now {
			b.set(d.moved(-min(n, req.Capacity(rule)) * d.window))
		}
	}
}

// from returns d as it is charged as of t.
func (d debt) from(t int64) debt {
	if d.full <= t {
		d = debt{window: d.window, full: t, ahead: d.ahead, fraction: fraction{count: d.count}}
	}
	d.ahead = max(d.ahead, t)
	return d
}

// owe makes more units missing in d, or fewer below 0.
func (d *debt) owe(units int64) {
	steps, left := d.move(units)
	d.full, d.fraction = d.full+steps, left
}

// moved returns d with more units missing, or fewer below 0.
func (d debt) moved(units int64) debt {
	d.owe(units)
	return d
}

// set puts d in the place of the debt of its window, which there is.
func (b *bucket) set(d debt) {
	for i := range b.debts {
		if b.debts[i].window == d.window {
			b.debts[i] = d
			return
		}
	}
}
