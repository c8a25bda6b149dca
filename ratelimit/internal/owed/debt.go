package owed

import (
	"context"
	"slices"
	"time"

	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// debt is permits that are told of together: of a log, those that were let through at about one time; of other algorithms, those that count now against one rule.
type debt struct {
	charge store.Request // to the store, at the cost of all of them
	back   store.Request // what the local store then forgets
	rule   int           // of the request's; -1 for all that see it
	age    time.Duration // how long ago they were let through
	told   bool          // the store knows of them
}

// debts returns what an account owes now, the latest first.
func (l *Ledger) debts(a *account) []debt {
	if a.whole.Algorithm.Logs() {
		return l.logged(a)
	}
	own := a.part
	own.Ban, own.After = 0, 0 // of a key that is banned nothing remains
	var out store.Outcome
	if l.local.Peek(context.Background(), []store.Request{own}, &out) != nil {
		return nil
	}
	var all []debt
	for i := range min(len(own.Rules), len(a.whole.Rules)) {
		whole, part := a.whole.Rules[i], own.Rules[i]
		if cost := own.Capacity(part) - out.Rules[i].Remaining; cost > 0 {
			all = append(all, newDebt(a, whole, part, i, cost))
			all[len(all)-1].charge.Cost += l.beyond(a, lasts(&a.whole, whole))
		}
	}
	return all
}

// lasts is how long a permit counts at most that a rule has let through.
func lasts(req *store.Request, r rules.Rule) time.Duration {
	return time.Duration(min(float64(store.MaxWindow), float64(r.Window)*max(1, float64(req.Capacity(r))/float64(r.Count))))
}

// beyond is what calls have cost beyond what the local store has charged, where that still counts.
func (l *Ledger) beyond(a *account, counts time.Duration) int64 {
	if l.clock()-a.latest < counts {
		return a.excess
	}
	return 0
}

// logged returns what a log has, by when it was let through: each rule sees as much of it in the store as in the log, or up to a band's width longer.
func (l *Ledger) logged(a *account) []debt {
	own, longest := a.part, longestOf(a.whole.Rules)
	own.Ban, own.After, own.Rules = 0, 0, bands(a.whole.Rules)
	var out store.Outcome
	if l.local.Peek(context.Background(), []store.Request{own}, &out) != nil {
		return nil
	}
	var all []debt
	last := len(own.Rules) - 1
	age, before := max(0, own.Rules[last].Window-out.Rules[last].ResetAfter), int64(0) // of the newest
	for i, band := range own.Rules {
		used := band.Count - out.Rules[i].Remaining
		if used > before {
			d := newDebt(a, longest, own.Rules[last], -1, used-before)
			if before == 0 {
				d.charge.Cost += l.beyond(a, longest.Window)
			}
			d.age, d.charge.Ahead = age, -age
			all = append(all, d)
		}
		age, before = max(age, band.Window), used
	}
	return all
}

func newDebt(a *account, to, from rules.Rule, rule int, cost int64) debt {
	d := debt{charge: a.whole, back: a.part, rule: rule}
	d.charge.Rules, d.charge.Cost, d.charge.Prefetch, d.charge.Ban, d.charge.After = []rules.Rule{to}, cost, 0, 0, 0
	d.back.Rules, d.back.Cost, d.back.Ban, d.back.After = []rules.Rule{from}, cost, 0, 0
	widen(&d.charge)
	return d
}

// widen makes room in a request of one rule for what was let through beside what the store has counted, as much again at most: a key is closed for no more than a window longer
// by whatever the store is told of it, were it told twice.
func widen(req *store.Request) {
	r := &req.Rules[0]
	switch twice := 2 * req.Capacity(*r); {
	case req.Algorithm.Logs(), req.Algorithm == rules.SlidingWindow, req.Algorithm == rules.FixedWindow:
		r.Count *= 2
	case req.Refill == rules.RefillInterval && rules.IntervalFits(r.Count, twice, r.Window),
		req.Refill != rules.RefillInterval && req.Algorithm.Fits(*r, twice):
		req.Burst = twice
	}
}

func longestOf(all []rules.Rule) rules.Rule {
	return slices.MaxFunc(all, func(a, b rules.Rule) int { return int(a.Window - b.Window) })
}

// bands are rules that see what a log has by when it was let through: of every window of the rules, and of the eighths of the longest.
func bands(of []rules.Rule) []rules.Rule {
	const unlimited, parts = rules.MaxCount, 8
	longest := longestOf(of).Window
	all := make([]rules.Rule, 0, parts+len(of))
	for i := range parts {
		if w := (longest * time.Duration(i+1) / parts).Truncate(time.Microsecond); w > 0 {
			all = append(all, rules.Rule{Count: unlimited, Window: w})
		}
	}
	for _, r := range of {
		all = append(all, rules.Rule{Count: unlimited, Window: r.Window})
	}
	slices.SortFunc(all, func(a, b rules.Rule) int { return int(a.Window - b.Window) })
	return slices.CompactFunc(all, func(a, b rules.Rule) bool { return a.Window == b.Window })
}
