package memstore

import (
	"slices"
	"sort"
	"time"

	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// slidingLog is a log of admissions, sorted by time. An admission at t counts against a rule of window W in
// [t, t+W), so the rule's window at now is (now-W, now]. Admissions later than now, which a clock that was set back
// leaves behind, count too: capacity never grows because time went backwards. What is taken ahead is an admission of a
// later time, and counts from now on until a window after that.
//
// Each admission knows what all up to it have cost, so that a rule is answered by two searches, however long the log is. Only what is
// inserted before others, or given back from among them, is told to those behind it.
type slidingLog struct {
	admissions []logged
	gone       int // of the first admissions, which no rule can see any more; not more than half of them
}

// logged is one admission.
type logged struct {
	at, cost int64
	upTo     int64 // what all up to it have cost, it included; only differences mean anything
	id       uint64
}

// mostKept is of how many admissions an empty log keeps the memory. That of longer ones would stay with keys that never need it.
const mostKept = 32

func (l *slidingLog) reset() {
	l.admissions, l.gone = l.admissions[:0], 0
	if cap(l.admissions) > mostKept {
		l.admissions = nil
	}
}

func (l *slidingLog) fetch() int64 {
	if last := len(l.admissions) - 1; last >= 0 {
		return l.admissions[last].at + l.admissions[min(l.gone, last)].at
	}
	return 0
}

func (l *slidingLog) ask(now int64, req *store.Request, rule rules.Rule) (retryAfter, delay time.Duration) {
	first, used := l.live(now, rule)
	switch cost := req.Cost; {
	case cost == 0:
	case cost > rule.Count:
		retryAfter = store.Never
	case used+cost <= rule.Count:
	default:
		room := l.admissions[l.firstUpTo(first, used+cost-rule.Count)]
		retryAfter = micros(room.at + rule.Window.Microseconds() - now)
	}
	return retryAfter, delay
}

func (l *slidingLog) describe(now int64, _ *store.Request, rule rules.Rule) (remaining int64, reset time.Duration) {
	first, used := l.live(now, rule)
	if last := len(l.admissions) - 1; first <= last {
		reset = micros(l.admissions[last].at + rule.Window.Microseconds() - now)
	}
	return max(0, rule.Count-used), reset
}

// live is the place of the first admission that the rule sees at now, and what it and those behind it cost.
func (l *slidingLog) live(now int64, rule rules.Rule) (first int, used int64) {
	first = l.firstAfter(now - rule.Window.Microseconds())
	return first, l.before(len(l.admissions)) - l.before(first)
}

// before is what those before a place have cost, by the same reckoning as upTo.
func (l *slidingLog) before(place int) int64 {
	switch {
	case place > 0:
		return l.admissions[place-1].upTo
	case len(l.admissions) > 0:
		return l.admissions[0].upTo - l.admissions[0].cost
	}
	return 0
}

// charge records a as of when it counts, and drops what no rule can see any more once the log holds more than the largest count.
func (l *slidingLog) charge(now int64, req *store.Request, a admission) (ends, note int64) {
	ahead := req.Ahead.Microseconds()
	l.insert(logged{at: a.at + ahead, cost: a.cost, id: a.id})
	count := int64(0)
	for _, r := range req.Rules {
		count = max(count, r.Count)
	}
	window := longest(req.Rules).Microseconds()
	if l.before(len(l.admissions))-l.before(l.gone) > count {
		l.drop(l.firstAfter(now - window))
	}
	return now + ahead + window, 0
}

func (l *slidingLog) insert(a logged) {
	place := l.firstAfter(a.at)
	a.upTo = l.before(place)
	l.admissions = slices.Insert(l.admissions, place, a)
	l.add(place, a.cost)
}

// add tells the admissions from a place on that they, or those before them, cost more.
func (l *slidingLog) add(place int, units int64) {
	for i := range l.admissions[place:] {
		l.admissions[place+i].upTo += units
	}
}

// drop makes those before a place gone. Their memory is used again once they are half of all, so that not each charge has to move the others.
func (l *slidingLog) drop(place int) {
	if l.gone = place; 2*l.gone > len(l.admissions) {
		l.admissions = slices.Delete(l.admissions, 0, l.gone)
		l.gone = 0
	}
}

// giveBack takes back from the admission of a's id, and removes it if nothing is left. Most are among the newest.
func (l *slidingLog) giveBack(_ int64, _ *store.Request, a admission) {
	for i := len(l.admissions) - 1; i >= l.gone; i-- {
		if l.admissions[i].id == a.id {
			l.take(i, a.cost)
			return
		}
	}
}

// grant removes the newest units.
func (l *slidingLog) grant(_ int64, _ *store.Request, n int64) {
	for n > 0 && len(l.admissions) > l.gone {
		n -= l.take(len(l.admissions)-1, n)
	}
}

// take takes up to so many units from the admission at a place, and returns how many these were.
func (l *slidingLog) take(place int, most int64) (units int64) {
	a := &l.admissions[place]
	units = min(most, a.cost)
	a.cost -= units
	l.add(place, -units)
	if a.cost == 0 {
		l.admissions = slices.Delete(l.admissions, place, place+1)
	}
	return units
}

// firstAfter is the place of the first admission later than t. It is looked for from the newest on, in steps that double: most rules see all of a log, or the
// last few.
func (l *slidingLog) firstAfter(t int64) int {
	low, high := l.gone, len(l.admissions)
	if low < high && l.admissions[low].at > t {
		return low
	}
	for step := 1; high-low > step; step *= 2 {
		if l.admissions[high-step].at <= t {
			low = high - step + 1
			break
		}
		high -= step
	}
	for low < high {
		if middle := int(uint(low+high) / 2); l.admissions[middle].at > t {
			high = middle
		} else {
			low = middle + 1
		}
	}
	return low
}

// firstUpTo is the place of the admission with which those from first on cost so many units.
func (l *slidingLog) firstUpTo(first int, units int64) int {
	before := l.before(first)
	return first + sort.Search(len(l.admissions)-first, func(i int) bool { return l.admissions[first+i].upTo-before >= units })
}

func longest(rs []rules.Rule) time.Duration {
	var w time.Duration
	for _, r := range rs {
		w = max(w, r.Window)
	}
	return w
}

func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
