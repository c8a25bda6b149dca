package memstore

import (
	"math/bits"
	"slices"
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
// Where calls may be given back, what is charged is counted, and what comes back comes back in the order in which it was charged, as a queue drains. Of a charge that is given back, what is still missing is
// therefore known by how many permits have been charged behind it: what is missing in all, less those. What of them was given
// back itself counts as if it stood before the charge: too little is given back then, never too much. It is not
// less, either, than if all had gone to the charge that has come back since, which is what others get back. The last charge, if all of it is given back, is as if it had never
// been made.
//
// A clock that is set back is further away from the time at which the bucket is full.
type bucket struct {
	first debt // of a window of 0 where there is none
}

// debt is one rule's bucket, known by its window: empty until now, full again at full less early units.
type debt struct {
	window int64 // µs
	full   int64 // µs, rounded up
	fraction
	*extra // nil for most; it is the bucket's, not to be changed through copies of the debt
}

// extra is what few debts have.
type extra struct {
	ahead int64  // the latest time as of which permits were taken ahead, µs; 0 if none were
	line  line   // the zero line where what is charged is not counted
	more  []debt // of the first debt: those of other windows
}

// line is what giveBack knows a charge by.
type line struct {
	start   int64 // when what is charged began to be counted, µs
	charged int64 // permits since, at this count
	count   int64 // of the rule; 0 where nothing is counted
}

// reset keeps the memory of what is extra.
func (b *bucket) reset() {
	b.first.window, b.first.full, b.first.fraction = 0, 0, fraction{}
	if e := b.first.extra; e != nil {
		e.ahead, e.line, e.more = 0, line{}, e.more[:0]
	}
}

// more are the debts of other windows, none if there is no first.
func (b *bucket) more() []debt {
	if b.first.extra == nil {
		return nil
	}
	return b.first.extra.more
}

// until is the latest time as of which permits were taken ahead, 0 if none were.
func (d *debt) until() int64 {
	if d.extra == nil {
		return 0
	}
	return d.ahead
}

// counts says whether what is charged to d is counted, as a rule of d's count understands it.
func (d *debt) counts() bool { return d.extra != nil && d.line.count == d.count }

// rest returns what d has that few have, to be changed.
func (d *debt) rest() *extra {
	if d.extra == nil {
		d.extra = new(extra)
	}
	return d.extra
}

// forget makes what is charged not counted.
func (d *debt) forget() {
	if d.extra != nil {
		d.line = line{}
	}
}

func (b *bucket) fetch() int64 { return b.first.full }

// find returns the debt of a window, nil if there is none.
func (b *bucket) find(window int64) *debt {
	if b.first.window == window {
		return &b.first
	}
	return b.other(window)
}

// other returns the debt of a window that is not the first one's, nil if there is none.
func (b *bucket) other(window int64) *debt {
	more := b.more()
	for i := range more {
		if more[i].window == window {
			return &more[i]
		}
	}
	return nil
}

// of returns the debt of a rule, with nothing missing if it has none at now.
func (b *bucket) of(now int64, rule rules.Rule) debt {
	window := rule.Window.Microseconds()
	if d := b.find(window); d != nil && d.full > now {
		d := *d
		d.fraction = d.of(rule.Count)
		return d
	}
	return debt{window: window, full: now, fraction: fraction{count: rule.Count}}
}

// open returns the debt of a rule, with nothing missing if it had none at now, to be changed.
func (b *bucket) open(now int64, rule rules.Rule) *debt {
	window := rule.Window.Microseconds()
	d := b.find(window)
	switch {
	case d == nil:
		d = b.add()
		d.window, d.full, d.fraction = window, now, fraction{count: rule.Count}
		return d
	case d.full <= now:
		d.full, d.early = now, 0
		if d.extra != nil {
			d.ahead = 0
		}
	}
	d.understand(rule.Count)
	return d
}

// add adds a debt, of which only what is extra is as it should be.
func (b *bucket) add() *debt {
	if b.first.window == 0 {
		return &b.first
	}
	e := b.first.rest()
	e.more = append(e.more, debt{})
	return &e.more[len(e.more)-1]
}

func (b *bucket) ask(now int64, req *store.Request, rule rules.Rule) (retryAfter, delay time.Duration) {
	burst, window := req.Capacity(rule), rule.Window.Microseconds()
	switch cost := req.Cost; {
	case cost == 0:
	case cost > burst:
		retryAfter = store.Never
	default:
		if d := b.find(window); d != nil && d.full > now {
			retryAfter = micros(longer(d.full-now, (burst-cost)*window+d.of(rule.Count).early, rule.Count))
		}
	}
	return retryAfter, delay
}

// longer is for how much longer than a bucket takes to fill up with units, at count in a µs, wait is: 0 where it is not.
func longer(wait, units, count int64) int64 {
	if over, product := bits.Mul64(uint64(wait), uint64(count)); over == 0 && product <= uint64(units) {
		return 0 // most calls, which need no quotient then
	}
	return wait - quotient(units, count)
}

// take is ask and charge at once, of a request of one rule that the bucket has been charged for before, whose numbers are valid therefore, and without options. Others are
// not done, be they valid or not, nor is one of a bucket that has what few have: they change nothing.
func (b *bucket) take(now int64, req *store.Request) (retryAfter time.Duration, done bool) {
	d := &b.first
	options := req.Burst | req.Segments | int64(req.Start) | int64(req.Refill) | int64(req.Ahead) | req.After
	if options != 0 || req.Returns || d.extra != nil || len(req.Rules) != 1 || req.Cost < 1 {
		return 0, false
	}
	rule, window := &req.Rules[0], d.window
	room := rule.Count - req.Cost
	if d.count != rule.Count || micros(window) != rule.Window || room < 0 {
		return 0, false
	}
	if over, all := bits.Mul64(uint64(rule.Count), uint64(window)); over != 0 || all > mostUnits {
		return 0, false // it was charged for with a burst that is less than the count
	}
	wait, missing := d.full-now, d.fraction
	if wait <= 0 {
		wait, missing.early = 0, 0
	}
	if late := longer(wait, room*window+missing.early, missing.count); late > 0 {
		return micros(late), true
	}
	steps, left := missing.move(req.Cost * window)
	d.full, d.fraction = now+wait+steps, left
	return 0, true
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

// charge notes how many permits were charged before, where that is counted.
func (b *bucket) charge(now int64, req *store.Request, a admission) (ends, note int64) {
	var l line
	counts := req.Returns || b.counts()
	if counts {
		l, counts = b.place(now, req)
	}
	return b.owe(now, req, a, l, counts), l.charged
}

// counts says whether what is charged may be counted.
func (b *bucket) counts() bool {
	if b.first.extra == nil {
		return false
	}
	return b.first.counts() || slices.ContainsFunc(b.first.more, func(d debt) bool { return d.counts() })
}

// owe charges a, behind what l says if it counts.
func (b *bucket) owe(now int64, req *store.Request, a admission, l line, counts bool) (ends int64) {
	for _, rule := range req.Rules {
		d := b.open(now, rule)
		if req.Ahead > 0 {
			d.from(now + req.Ahead.Microseconds())
		}
		if counts {
			d.rest().line = line{l.start, l.charged + a.cost, d.count}
		} else {
			d.forget()
		}
		d.owe(a.cost * d.window)
	}
	ends = b.first.full
	for _, d := range b.more() {
		ends = max(ends, d.full)
	}
	return ends
}

// place returns when the rules of req began to count, and the most that any of them has been charged since. They begin now if some did so at another time than
// others, or never, where nothing is counted.
func (b *bucket) place(now int64, req *store.Request) (l line, counts bool) {
	began, anew := false, false
	counts = req.Returns
	for _, rule := range req.Rules {
		d := b.find(rule.Window.Microseconds())
		if d == nil || d.full <= now {
			continue
		}
		if !d.counts() {
			anew = true
			continue
		}
		anew = anew || d.count != rule.Count || began && d.line.start != l.start
		l.start, l.charged, began, counts = d.line.start, max(l.charged, d.line.charged), true, true
	}
	if anew || !began {
		l = line{start: now}
	}
	return l, counts
}

// giveBack takes back what has not come back by itself since.
func (b *bucket) giveBack(now int64, req *store.Request, a admission) {
	for _, rule := range req.Rules {
		d := b.of(now, rule)
		if d.full == now {
			continue
		}
		all := a.cost * d.window
		back := d.since(now, req, a)
		if req.Returns {
			behind := d.behind(now, a)
			if behind == all && a.note+a.cost == d.line.charged {
				d.line.charged = a.note
			}
			back = max(back, behind)
		}
		if back > 0 {
			b.open(now, rule).owe(-back)
		}
	}
}

// since is how many units of a have not come back if all has gone to it that has come back since.
func (d *debt) since(now int64, req *store.Request, a admission) int64 {
	passed := max(0, max(now, d.until())-a.at-req.Ahead.Microseconds())
	if passed >= (a.cost*d.window+d.count-1)/d.count {
		return 0
	}
	return a.cost*d.window - passed*d.count
}

// behind is how many units of a have not come back if all has gone to it, and to those before it, that was not charged behind it: 0 or less
// if none, or if that is not known.
func (d *debt) behind(now int64, a admission) int64 {
	if !d.counts() {
		return 0
	}
	behind := d.line.charged - a.note - a.cost
	if d.line.start > a.at || behind < 0 || behind > mostUnits/d.window {
		return 0
	}
	missing := mostUnits - d.early
	if wait := max(0, d.full-max(now, d.until())); wait <= mostUnits/d.count {
		missing = wait*d.count - d.early
	}
	return min(a.cost*d.window, missing-behind*d.window)
}

// mostUnits is the most of them that are told apart.
const mostUnits = 1 << 53

// grant fills the buckets.
func (b *bucket) grant(now int64, req *store.Request, n int64) {
	for _, rule := range req.Rules {
		if d := b.of(now, rule); d.full > now {
			b.open(now, rule).owe(-min(n, req.Capacity(rule)) * d.window)
		}
	}
}

// from makes d one that is charged as of t.
func (d *debt) from(t int64) {
	if d.full <= t {
		d.full, d.early = t, 0
	}
	d.rest().ahead = max(d.until(), t)
}

// owe makes more units missing in d, or fewer below 0.
func (d *debt) owe(units int64) {
	steps, left := d.move(units)
	d.full, d.fraction = d.full+steps, left
	if d.extra != nil && d.line.start > d.full { // the clock was set back
		d.forget()
	}
}

// understand makes d that of a rule of count, to which a fraction of another count says nothing, nor what was charged at it.
func (d *debt) understand(count int64) {
	if d.count != count {
		d.fraction = fraction{count: count}
		d.forget()
	}
}
