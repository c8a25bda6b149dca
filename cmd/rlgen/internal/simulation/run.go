package simulation

import (
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

	sim      *Simulation
	cells    memstore.Cells
	requests []store.Request
	counts   []*memstore.Cell // of each request
	asked    []asked
	outcome  store.Outcome
	charged  bool // some limit is charged by outcome
}

// asked is whom a request is for.
type asked struct {
	limit int
	id    *traffic.Name
	who   *one
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
	Hit    Top
	ids    ids
	living living
	// outlives says that its keys may live for longer than ids counts, so that living does.
	outlives bool
	index    int           // among the limits of its kind of all runs
	request  store.Request // of a call that costs 1
}

// Rule is what one rule did.
type Rule struct {
	rules.Rule
	Denied int64
	// Peak is the most calls of one id in a window of the clock's, denied ones and costs included, PeakID whose they were, and
	// PeakAt when that window began, µs since 1970.
	Peak     int64
	PeakID   string
	PeakAt   int64
	capacity int64
}

func (s *Simulation) newRun(c Candidate) (*Run, error) {
	r := &Run{Candidate: c, sim: s}
	for i := range c.Policy.Limits {
		own := &c.Policy.Limits[i]
		l := &Limit{Limit: own, index: s.limits[own.Kind], outlives: outlives(own), request: store.NewRequest(own, own.Bucket, 1)}
		s.limits[own.Kind]++
		for _, rule := range own.Rules {
			l.Rules = append(l.Rules, Rule{Rule: rule, capacity: own.Capacity(rule)})
			l.ids.window = max(l.ids.window, rule.Window.Microseconds())
		}
		r.Limits = append(r.Limits, l)
		r.charged = r.charged || l.Charge != rules.ChargeAlways
		if err := store.Validate([]store.Request{l.request}); err != nil {
			return nil, fmt.Errorf("%s: %w", c.Name, err)
		}
	}
	return r, nil
}

// decide decides one call, and sets levels where those that the call has met are higher.
func (r *Run) decide(call *traffic.Call, levels []float64) bool {
	if !r.ask(call) {
		r.Denied++
		return false
	}
	out := &r.outcome
	r.cells.Take(call.Time(), r.requests, r.counts, true, out)
	r.tally(call, out, levels)
	if out.Allowed && r.charged {
		r.settle(call)
	}
	return out.Allowed
}

// ask makes the requests of a call, and says whether they can be met at all.
func (r *Run) ask(call *traffic.Call) (able bool) {
	r.requests, r.counts, r.asked = r.requests[:0], r.counts[:0], r.asked[:0]
	able = true
	for i, l := range r.Limits {
		id := r.sim.idOf(l.Kind, call)
		if id == nil && l.Missing == rules.MissingAllow {
			continue
		}
		l.Calls++
		if id == nil {
			l.NoID++
			able = false
			continue
		}
		who := r.sim.one(l, id, call.At)
		l.arrive(who, id, call)
		if !l.fits(call.Cost) {
			l.TooBig++
			able = false
			continue
		}
		r.requests = append(r.requests, l.request)
		l.aim(&r.requests[len(r.requests)-1], id, call.Cost)
		r.counts, r.asked = append(r.counts, &who.cell), append(r.asked, asked{i, id, who})
	}
	return able
}

// aim makes the limit's request that of a call of an id. Only a ban needs a key.
func (l *Limit) aim(req *store.Request, id *traffic.Name, cost int64) {
	req.Cost = cost
	if l.Ban > 0 {
		req.Key = id.Text + ":" + l.Kind.String() + ":" + l.Bucket
	}
}

// settle gives back what a call is not charged for, by how it ends.
func (r *Run) settle(call *traffic.Call) {
	var cells []*memstore.Cell
	part := r.outcome.Receipt.Part(func(i int) bool {
		if !r.refunds(i, call) {
			return false
		}
		cells = append(cells, r.counts[i])
		return true
	})
	r.cells.GiveBack(call.Time(), part, cells)
}

// refunds says whether request i is given back, by how the call ends.
func (r *Run) refunds(i int, call *traffic.Call) bool {
	switch r.Limits[r.asked[i].limit].Charge {
	case rules.ChargeError:
		return !call.Failed()
	case rules.ChargeSuccess:
		return call.Failed()
	}
	return false
}

// tally counts what the store has said.
func (r *Run) tally(call *traffic.Call, out *store.Outcome, levels []float64) {
	if out.Allowed {
		r.Allowed++
	} else {
		r.Denied++
	}
	answers := out.Rules
	for _, a := range r.asked {
		l := r.Limits[a.limit]
		own := answers[:len(l.Rules)]
		answers = answers[len(l.Rules):]
		retry := l.answer(own, out.Allowed)
		if retry > 0 {
			l.Denied++
			a.who.hit = l.Hit.add(a.who.hit, a.id.Text)
			l.LongestRetry = max(l.LongestRetry, retry)
			if retry <= l.Wait && !l.Queues() {
				l.Patient++
			}
		}
		levels[a.limit] = max(levels[a.limit], l.level(own))
		until := l.lasts(a.who, own, retry > 0, call.At)
		if l.outlives {
			l.living.keep(a.who, until, call.At)
		}
		a.id.Until = max(a.id.Until, until)
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
		level = max(level, 1-float64(answers[j].Remaining)/float64(l.Rules[j].capacity))
	}
	return level
}

// MostIDs returns how many ids had a key at once, at most. Where no key outlives the longest window, that is how many there were at most within two of these that
// follow one another.
func (l *Limit) MostIDs() int {
	if l.outlives {
		return l.living.most
	}
	return l.ids.most
}

func (l *Limit) fits(cost int64) bool {
	for j := range l.Rules {
		if cost > l.Rules[j].capacity {
			return false
		}
	}
	return true
}

// arrive counts a call of an id in the windows of the rules.
func (l *Limit) arrive(who *one, id *traffic.Name, call *traffic.Call) {
	for j := range l.Rules {
		r, seen := &l.Rules[j], who.window(j)
		if at := call.At - call.At%r.Window.Microseconds(); at != seen.at {
			seen.at, seen.calls = at, 0
		}
		if seen.calls += call.Cost; seen.calls > r.Peak {
			r.Peak, r.PeakID, r.PeakAt = seen.calls, id.Text, seen.at
		}
	}
}
