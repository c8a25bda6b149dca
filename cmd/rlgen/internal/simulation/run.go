package simulation

import (
	"context"
	"fmt"
	"time"

	"github.com/rlgen/rlgen/cmd/rlgen/internal/traffic"
	"github.com/rlgen/rlgen/ratelimit/memstore"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// Run is what one candidate did.
type Run struct {
	Candidate
	Allowed, Denied int64
	Limits          []*Limit

	store    *memstore.Store
	now      time.Time
	requests []store.Request
	outcome  store.Outcome
	asked    []int // the limit of each request
	charged  bool  // some limit is charged by outcome
}

// Limit is what one limit of a candidate did.
type Limit struct {
	*rules.Limit
	Calls   int64 // that it applied to
	Denied  int64 // for want of room; other limits may have denied them too
	NoID    int64 // denied because they have no id
	TooBig  int64 // denied because they cost more than the limit ever allows
	Patient int64 // denied that would have had room within the limit's wait
	// LongestRetry is the longest retry after of a denied call, LongestDelay the longest time that a queue delayed one.
	LongestRetry, LongestDelay time.Duration
	Rules                      []Rule
	// Hit has the ids that were denied most often.
	Hit Top
	ids ids
}

// Rule is what one rule did.
type Rule struct {
	rules.Rule
	Denied int64
	// Peak is the most calls of one id in a window of the clock's, denied ones and costs included, PeakID whose they were, and
	// PeakAt when that window began, µs since 1970.
	Peak   int64
	PeakID string
	PeakAt int64
}

const mostKeys = 1 << 30 // the traffic's ids bound the memory

func newRun(c Candidate) (*Run, error) {
	r := &Run{Candidate: c}
	r.store = memstore.New(memstore.WithClock(func() time.Time { return r.now }), memstore.WithMaxKeys(mostKeys))
	for i := range c.Policy.Limits {
		l := &Limit{Limit: &c.Policy.Limits[i]}
		l.ids.suffix = ":" + l.Bucket
		for _, rule := range l.Limit.Rules {
			l.Rules = append(l.Rules, Rule{Rule: rule})
			l.ids.window = max(l.ids.window, rule.Window.Microseconds())
		}
		r.Limits = append(r.Limits, l)
		r.charged = r.charged || l.Charge != rules.ChargeAlways
	}
	return r, nil
}

// decide decides one call, and sets levels where those that the call has met are higher.
func (r *Run) decide(call *traffic.Call, levels []float64) (bool, error) {
	r.now = time.UnixMicro(call.At)
	r.requests, r.asked = r.requests[:0], r.asked[:0]
	able := true
	for i, l := range r.Limits {
		id, ok := l.id(call)
		switch {
		case !ok && l.Missing == rules.MissingAllow:
			continue
		case !ok:
			l.Calls++
			l.NoID++
			able = false
			continue
		}
		l.Calls++
		who := l.ids.at(id, call.At, len(l.Rules))
		l.arrive(who, id, call)
		if !l.fits(call.Cost) {
			l.TooBig++
			able = false
			continue
		}
		r.requests, r.asked = append(r.requests, store.NewRequest(l.Limit, who.key, call.Cost)), append(r.asked, i)
	}
	if !able {
		r.Denied++
		return false, nil
	}
	out := &r.outcome
	if err := r.store.Take(context.Background(), r.requests, true, out); err != nil {
		return false, fmt.Errorf("%s: %w", r.Name, err)
	}
	r.tally(out, levels)
	if !out.Allowed || !r.charged {
		return out.Allowed, nil
	}
	return true, r.store.GiveBack(context.Background(), out.Receipt.Part(func(i int) bool { return r.refunds(i, call) }))
}

// refunds says whether request i is given back, by how the call ends.
func (r *Run) refunds(i int, call *traffic.Call) bool {
	switch r.Limits[r.asked[i]].Charge {
	case rules.ChargeError:
		return !call.Failed()
	case rules.ChargeSuccess:
		return call.Failed()
	}
	return false
}

// tally counts what the store has said.
func (r *Run) tally(out *store.Outcome, levels []float64) {
	if out.Allowed {
		r.Allowed++
	} else {
		r.Denied++
	}
	answers := out.Rules
	for n := range r.requests {
		l := r.Limits[r.asked[n]]
		own := answers[:len(l.Rules)]
		answers = answers[len(l.Rules):]
		if retry := l.answer(own, out.Allowed); retry > 0 {
			l.Denied++
			l.Hit.Add(l.ids.last.id)
			l.LongestRetry = max(l.LongestRetry, retry)
			if retry <= l.Wait && !l.Queues() {
				l.Patient++
			}
		}
		i := r.asked[n]
		levels[i] = max(levels[i], l.level(own))
	}
}

// answer takes note of what the rules said, and returns the longest retry after among them.
func (l *Limit) answer(answers []store.RuleOutcome, allowed bool) (retry time.Duration) {
	for j := range answers {
		if answers[j].RetryAfter > 0 {
			l.Rules[j].Denied++
			retry = max(retry, answers[j].RetryAfter)
		}
		if allowed {
			l.LongestDelay = max(l.LongestDelay, answers[j].Delay)
		}
	}
	return retry
}

// level is how much of its fullest rule is used, 0 to 1.
func (l *Limit) level(answers []store.RuleOutcome) float64 {
	level := 0.0
	for j := range answers {
		level = max(level, 1-float64(answers[j].Remaining)/float64(l.Capacity(l.Rules[j].Rule)))
	}
	return level
}

// MostIDs returns how many ids there were at most within two of the longest windows that follow one another.
func (l *Limit) MostIDs() int { return l.ids.most }

func (l *Limit) fits(cost int64) bool {
	for _, r := range l.Rules {
		if cost > l.Capacity(r.Rule) {
			return false
		}
	}
	return true
}

// arrive counts a call of an id in the windows of the rules.
func (l *Limit) arrive(who *one, id string, call *traffic.Call) {
	for j := range l.Rules {
		r, seen := &l.Rules[j], &who.windows[j]
		if at := call.At - call.At%r.Window.Microseconds(); at != seen.at {
			seen.at, seen.calls = at, 0
		}
		if seen.calls += call.Cost; seen.calls > r.Peak {
			r.Peak, r.PeakID, r.PeakAt = seen.calls, id, seen.at
		}
	}
}

// id returns what the limit counts the call by, as the limiter has it, and whether there is anything.
func (l *Limit) id(call *traffic.Call) (string, bool) {
	switch l.Kind {
	case rules.Global:
		return "", true
	case rules.IP:
		return l.ids.address(call.Addr)
	case rules.User:
		return call.User, call.User != ""
	}
	return call.Key, call.Key != ""
}
