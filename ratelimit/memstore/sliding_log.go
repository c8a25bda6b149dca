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

type admission struct {
	at   int64 // µs
	cost int64
	id   uint64
}

// ask answers one rule for cost at now. It changes nothing.
func (l *slidingLog) ask(now int64, rule rules.Rule, cost int64) store.RuleOutcome {
	window := rule.Window.Microseconds()
	live := l.admissions[l.firstAfter(now-window):]
	var used int64
	for _, a := range live {
		used += a.cost
	}
	out := store.RuleOutcome{Remaining: max(0, rule.Count-used)}
	if len(live) > 0 {
		out.ResetAfter = micros(live[len(live)-1].at + window - now)
	}
	switch {
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

// charge records an admission of cost at now, and drops what no rule can see any more once the log holds more
// than the largest count.
func (l *slidingLog) charge(now int64, rs []rules.Rule, cost int64, id uint64) {
	i := l.firstAfter(now)
	l.admissions = slices.Insert(l.admissions, i, admission{at: now, cost: cost, id: id})
	var units, count int64
	for _, a := range l.admissions {
		units += a.cost
	}
	for _, r := range rs {
		count = max(count, r.Count)
	}
	if units > count {
		l.admissions = slices.Delete(l.admissions, 0, l.firstAfter(now-longest(rs).Microseconds()))
	}
}

// giveBack removes the admission called id.
func (l *slidingLog) giveBack(id uint64) {
	l.admissions = slices.DeleteFunc(l.admissions, func(a admission) bool { return a.id == id })
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
