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
// leaves behind, count too: capacity never grows because time went backwards.
type slidingLog struct {
	admissions []admission
}

// What is taken ahead is an admission of a later time, and counts from now on until a window after that.
func (l *slidingLog) reset() { l.admissions = l.admissions[:0] }

func (l *slidingLog) ask(now int64, req *store.Request, rule rules.Rule) (out store.RuleOutcome) {
	window := rule.Window.Microseconds()
	live, used := l.live(now, rule)
	switch cost := req.Cost; {
	case cost == 0:
	case cost > rule.Count:
		out.RetryAfter = store.Never
	case used+cost <= rule.Count:
	default:
		excess := used + cost - rule.Count
		for _, a := range live {
			if excess -= a.cost; excess <= 0 {
				out.RetryAfter = micros(a.at + window - now)
				break
			}
		}
	}
	return out
}

func (l *slidingLog) describe(now int64, _ *store.Request, rule rules.Rule) (remaining int64, reset time.Duration) {
	live, used := l.live(now, rule)
	if len(live) > 0 {
		reset = micros(live[len(live)-1].at + rule.Window.Microseconds() - now)
	}
	return max(0, rule.Count-used), reset
}

// live is what the rule sees at now, and its cost.
func (l *slidingLog) live(now int64, rule rules.Rule) (live []admission, used int64) {
	live = l.admissions[l.firstAfter(now-rule.Window.Microseconds()):]
	for _, a := range live {
		used += a.cost
	}
	return live, used
}

// charge records a as of when it counts, and drops what no rule can see any more once the log holds more than the largest count.
func (l *slidingLog) charge(now int64, req *store.Request, a admission) int64 {
	ahead := req.Ahead.Microseconds()
	a.at += ahead
	l.admissions = slices.Insert(l.admissions, l.firstAfter(a.at), a)
	var units, count int64
	for _, a := range l.admissions {
		units += a.cost
	}
	for _, r := range req.Rules {
		count = max(count, r.Count)
	}
	window := longest(req.Rules).Microseconds()
	if units > count {
		l.admissions = slices.Delete(l.admissions, 0, l.firstAfter(now-window))
	}
	return now + ahead + window
}

// giveBack takes back from the admission of a's id, and removes it if nothing is left.
func (l *slidingLog) giveBack(_ int64, _ *store.Request, a admission) {
	i := slices.IndexFunc(l.admissions, func(other admission) bool { return other.id == a.id })
	if i < 0 {
		return
	}
	if l.admissions[i].cost -= a.cost; l.admissions[i].cost <= 0 {
		l.admissions = slices.Delete(l.admissions, i, i+1)
	}
}

// grant removes the newest units.
func (l *slidingLog) grant(_ int64, _ *store.Request, n int64) {
	for n > 0 && len(l.admissions) > 0 {
		newest := len(l.admissions) - 1
		a := &l.admissions[newest]
		units := min(n, a.cost)
		n -= units
		if a.cost -= units; a.cost == 0 {
			l.admissions = l.admissions[:newest]
		}
	}
}

// firstAfter is the index of the first admission later than t.
func (l *slidingLog) firstAfter(t int64) int {
	return sort.Search(len(l.admissions), func(i int) bool { return l.admissions[i].at > t })
}

func longest(rs []rules.Rule) time.Duration {
	var w time.Duration
	for _, r := range rs {
		w = max(w, r.Window)
	}
	return w
}

func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
