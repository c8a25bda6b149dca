package storetest

import (
	"slices"
	"time"

	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// model is the sliding log as its law is written: a slice of all admissions, never trimmed.
//
// A store may forget what no rule could see any more, and cannot remember it when a window is made longer or the
// clock is set back. The model therefore answers twice: with all admissions, and with those only that no store may
// have forgotten. The store's answer lies between the two, which are one while windows do not grow and the clock does not go back.
type model struct {
	latest time.Time // the highest time seen
	logs   map[string]*modelLog
}

type modelLog struct {
	admissions []modelAdmission
	shortest   time.Duration // the shortest of the longest windows that it was asked for permits by
}

type modelAdmission struct {
	at   time.Time
	cost int64
	id   int
}

func newModel() *model { return &model{logs: make(map[string]*modelLog)} }

// log is the log of key.
func (m *model) log(key string) *modelLog {
	l, ok := m.logs[key]
	if !ok {
		l = &modelLog{}
		m.logs[key] = l
	}
	return l
}

// ask answers a request twice: with all admissions, and with those that are surely remembered. Neither charges.
func (m *model) ask(now time.Time, req store.Request) (all, sure []store.RuleOutcome) {
	l := m.log(req.Key)
	remembered := slices.DeleteFunc(slices.Clone(l.admissions), func(a modelAdmission) bool {
		return !a.at.After(m.latest.Add(-l.shortest))
	})
	for _, r := range req.Rules {
		all = append(all, askModel(l.admissions, now, r, req.Cost))
		sure = append(sure, askModel(remembered, now, r, req.Cost))
	}
	return all, sure
}

// askModel answers one rule: the law of the sliding log, word for word.
func askModel(admissions []modelAdmission, now time.Time, r rules.Rule, cost int64) store.RuleOutcome {
	var live []modelAdmission
	var used int64
	for _, a := range admissions {
		if a.at.After(now.Add(-r.Window)) {
			live = append(live, a)
			used += a.cost
		}
	}
	slices.SortFunc(live, func(a, b modelAdmission) int { return a.at.Compare(b.at) })
	out := store.RuleOutcome{Remaining: max(0, r.Count-used)}
	if len(live) > 0 {
		out.ResetAfter = live[len(live)-1].at.Add(r.Window).Sub(now)
	}
	switch {
	case cost == 0 || used+cost <= r.Count:
		return out
	case cost > r.Count:
		out.RetryAfter = store.Never
		return out
	}
	excess := used + cost - r.Count
	for _, a := range live {
		if excess -= a.cost; excess <= 0 {
			out.RetryAfter = a.at.Add(r.Window).Sub(now)
			break
		}
	}
	return out
}

// charge records what an allowed request took.
func (m *model) charge(now time.Time, req store.Request, id int) {
	if req.Cost == 0 {
		return
	}
	l := m.log(req.Key)
	l.admissions = append(l.admissions, modelAdmission{at: now, cost: req.Cost, id: id})
}

// see takes note that the store may forget what the rules of req do not see. It may even where it denied the call: on a
// cluster, what one slot reserves another may make it give back.
func (m *model) see(req store.Request) {
	if req.Cost == 0 {
		return
	}
	l := m.log(req.Key)
	var longest time.Duration
	for _, r := range req.Rules {
		longest = max(longest, r.Window)
	}
	if l.shortest == 0 || longest < l.shortest {
		l.shortest = longest
	}
}

// giveBack removes what id took.
func (m *model) giveBack(id int) {
	for _, l := range m.logs {
		l.admissions = slices.DeleteFunc(l.admissions, func(a modelAdmission) bool { return a.id == id })
	}
}
