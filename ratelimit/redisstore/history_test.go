package redisstore_test

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"
	"time"

	"github.com/rlgen/rlgen/ratelimit/redisstore"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// result is what a store answered to a call.
type result uint8

const (
	unasked result = iota // the call did not reach the store
	allowed
	denied
	unavailable
	indeterminate
	misconfigured
	cancelled // another error, the context's
	results   // how many there are
)

func (r result) String() string {
	return [results]string{"not asked", "allowed", "denied", "unavailable", "indeterminate", "misconfigured", "cancelled"}[r]
}

// call is what one call asked of a store, and what came of it. Times are by one monotonic clock, from its beginning.
type call struct {
	charges    []charge
	start, end time.Duration
	result     result
	why        string          // what the store says of a failure
	at         []time.Duration // when the store says that it has charged, where it does
	duration                   // of all of the call, with what the limiter adds
	source     string          // who decided in the end
	alone      solo            // what the process let through by itself, without the store

	backStart, backEnd time.Duration // of its give-back; zero without one
	backFailed         bool
}

// solo is what a process lets through by itself.
type solo struct {
	requests  []store.Request // their keys and costs
	end, back time.Duration   // when it had, and when that began to be given back; zero if it was not
}

// charge is what a call asks of one limit.
type charge struct {
	limit  int
	cost   int64
	denies bool          // the limit denied the call
	banned time.Duration // and said that it is banned for so long
}

// span is the time from begin to end, both included.
type span struct{ begin, end time.Duration }

func (s span) meets(t span) bool { return s.begin <= t.end && t.begin <= s.end }

// history is what was recorded of calls to one store.
type history struct {
	limits []store.Request // Cost is not looked at
	calls  []call
	acts   []act
	losses []span // in which the store has lost charges, and bans: some, or all of them
	law    string // by which more is admitted than may be; empty for admissions
	apart  bool   // limits of one call may lie on several servers: what is denied is charged to some of them for a moment
}

const (
	// skew is how far the store's clock and the recorder's may go apart in a few windows.
	skew = 10 * time.Millisecond
	// phantom is how long after a call whose answer was lost the store may yet execute it.
	phantom = 10 * time.Second
	// unsure is how long before a loss what was given back may be charged again after it.
	unsure = 2 * time.Second
	// tooLate is when a call has not ended with its budget.
	tooLate = 5 * time.Second
	// tardy is by how much a call may outlast its budget among 50 callers, beside what the machine explains.
	tardy = time.Second
)

// violations checks the history against the laws, and says where it breaks one:
//
//   - admissions: in every interval I, a limit admits at most
//
//     bound(|I|) + Σ over the losses and its resets f that meet I of min(bound(|I|), what was admitted in I before the end of f)
//
//     and what was given back in I that had been charged before an f: by whoever was admitted, or by the store where limits lie apart. Here bound is what the
//     algorithm promises of an interval of this length. What has been given back before the end of I is not admitted.
//
//   - denials: what may be charged when a limit denies a cost, and the cost, are more than its rule has room for.
//
//   - receipts: what the store says of when it charged lies within the call.
//
//   - alone: what the process lets through by itself while the store cannot decide is no more than bound, but for its resets.
//
//   - budget: every call ends with its budget.
//
//   - bans: whoever is told that a limit is banned until an instant, by the store or from memory, is told of a ban that somebody asked for, or that
//     enough denials have brought about, which ends then and has not been lifted; and until then nobody is admitted who comes later.
//
//   - refusals: no call is misconfigured.
func (h *history) violations() []string {
	var found []string
	alone := h.withoutStore()
	for i := range h.limits {
		found = append(found, h.overAdmitted(i)...)
		found = append(found, alone.overAdmitted(i)...)
		found = append(found, h.unexplained(i)...)
		found = append(found, h.unbanned(i)...)
	}
	for i := range h.calls {
		if what := h.calls[i].wrong(); what != "" {
			found = append(found, fmt.Sprintf("call at %v: %s", h.calls[i].start, what))
		}
	}
	return found
}

// withoutStore is the history of what the process has let through by itself, which loses nothing but what it is told to.
func (h *history) withoutStore() *history {
	limits := make(map[string]int)
	for i := range h.limits {
		limits[h.limits[i].Key] = i
	}
	alone := &history{limits: h.limits, acts: h.acts, law: "alone"}
	for i := range h.calls {
		c := &h.calls[i]
		if len(c.alone.requests) == 0 {
			continue
		}
		let := call{result: allowed, start: c.start, end: c.alone.end, backStart: c.alone.back, backEnd: c.alone.back}
		for _, req := range c.alone.requests {
			let.charges = append(let.charges, charge{limit: limits[req.Key], cost: req.Cost})
		}
		alone.calls = append(alone.calls, let)
	}
	return alone
}

// wrong says what is wrong with a call by itself.
func (c *call) wrong() string {
	if over := c.over(redisstore.DefaultBudget); over > tardy {
		return fmt.Sprintf("budget: it took %v, of which the machine stood still for %v, want at most %v more than the budget", c.took, c.stood, tardy)
	}
	if c.result == misconfigured {
		return "refusals: " + c.why
	}
	for _, at := range c.at {
		if at < c.start-skew || at > c.end+skew {
			return fmt.Sprintf("receipts: charged at %v, want %v to %v", at, c.start, c.end)
		}
	}
	return ""
}

// bound is the most that req's limit admits within a time of this length, both ends included.
func bound(req *store.Request, length time.Duration) int64 {
	most := int64(math.MaxInt64)
	for _, r := range req.Rules {
		most = min(most, boundOf(req, r, length))
	}
	return most
}

func boundOf(req *store.Request, r rules.Rule, length time.Duration) int64 {
	windows, begun := int64(length/r.Window), int64((length+r.Window-1)/r.Window)
	capacity := req.Capacity(r)
	switch {
	case req.Algorithm == rules.FixedWindow:
		return r.Count * (begun + 1)
	case req.Algorithm == rules.TokenBucket && req.Refill == rules.RefillInterval:
		return capacity + min(r.Count, capacity)*begun
	case flows(req):
		return capacity + int64(length)/int64(time.Microsecond)*r.Count/r.Window.Microseconds()
	}
	return r.Count * (windows + 1)
}

// flows says whether what was charged leaves bit by bit.
func flows(req *store.Request) bool {
	switch req.Algorithm {
	case rules.TokenBucket:
		return req.Refill != rules.RefillInterval
	case rules.LeakyBucket, rules.GCRA:
		return true
	}
	return false
}

// admission is a change of what a limit has admitted.
type admission struct {
	at, start time.Duration // at the latest, and at the earliest
	cost      int64         // negative for what is given back
}

// admissions are those of a limit, by when they were known.
func (h *history) admissions(limit int) []admission {
	var all []admission
	for i := range h.calls {
		c := &h.calls[i]
		if c.result != allowed {
			continue
		}
		for _, of := range c.charges {
			if of.limit != limit || of.cost == 0 {
				continue
			}
			all = append(all, admission{c.end, c.start, of.cost})
			if c.backEnd > 0 {
				all = append(all, admission{c.backStart, c.start, -of.cost})
			}
		}
	}
	slices.SortFunc(all, func(a, b admission) int { return int(a.at - b.at) })
	return all
}

// overAdmitted looks at every interval from the beginning of a call to the end of another.
func (h *history) overAdmitted(limit int) []string {
	req := &h.limits[limit]
	all, o := h.admissions(limit), h.oblivion(limit)
	longest := time.Duration(0)
	for _, r := range req.Rules {
		longest = max(longest, 3*r.Window)
	}
	for i := range all {
		begin := all[i].start
		sum := int64(0)
		first := sort.Search(len(all), func(j int) bool { return all[j].at >= begin })
		for j := first; j < len(all) && all[j].at <= begin+longest; j++ {
			if all[j].start < begin {
				continue
			}
			sum += all[j].cost
			length := all[j].at - begin + skew
			if sum <= bound(req, length) {
				continue
			}
			within := span{begin, all[j].at}
			if most := bound(req, length) + o.more(all[first:j+1], within, bound(req, length)); sum > most {
				return []string{fmt.Sprintf("%s: %s %v admitted %d from %v to %v, want at most %d with %d losses",
					cmp.Or(h.law, "admissions"), req.Key, req.Rules, sum, within.begin, within.end, most, len(meeting(o.losses, within)))}
			}
		}
	}
	return nil
}

func (h *history) lossesIn(within span) []span { return meeting(h.losses, within) }

// meeting are those spans that meet another.
func meeting(spans []span, within span) (in []span) {
	for _, f := range spans {
		if f.meets(within) {
			in = append(in, f)
		}
	}
	return in
}

// oblivion is what a store has forgotten of a limit.
type oblivion struct {
	losses []span // what the store has lost, and what somebody had it forget
	// Of what was given back after a loss, and had been charged before it, how much began to be and how much had been: it was taken from what others had been charged.
	began, ended total
}

func (h *history) oblivion(limit int) oblivion {
	o := oblivion{losses: slices.Clone(h.losses)}
	for _, a := range h.actsOn(limit) {
		if a.reset {
			o.losses = append(o.losses, a.done())
		}
	}
	var astray []holding
	for i := range h.calls {
		c := &h.calls[i]
		if back := h.returns(c); back.end > 0 && c.asks(limit) > 0 && len(meeting(o.losses, span{c.start, back.end})) > 0 {
			astray = append(astray, holding{from: back.begin, until: back.end, cost: c.asks(limit)})
		}
	}
	o.began = newTotal(astray, func(a holding) time.Duration { return a.from })
	o.ended = newTotal(astray, func(a holding) time.Duration { return a.until })
	return o
}

// returns is when what a call was charged is given back: by whoever made it, or by the store, where one of its limits has reserved what another denies. The end
// is zero where nothing is.
func (h *history) returns(c *call) span {
	switch {
	case c.backEnd > 0:
		return span{c.backStart, c.backEnd}
	case c.result == allowed || !h.mayReserve(c):
		return span{}
	case c.end-c.start < redisstore.DefaultBudget:
		return span{c.start, c.end}
	}
	return span{c.start, c.end + phantom} // beyond the budget it goes on after the call
}

// more is how much more than most may be admitted in an interval for what was lost in it: of each loss, what had been
// admitted before.
func (o *oblivion) more(admitted []admission, within span, most int64) int64 {
	more := o.began.before(within.end+1) - o.ended.before(within.begin)
	for _, f := range meeting(o.losses, within) {
		before := int64(0)
		for _, a := range admitted {
			if a.start >= within.begin && a.start <= f.end {
				before += a.cost
			}
		}
		more += min(most, before)
	}
	return more
}

// asks is what the call asks of a limit.
func (c *call) asks(limit int) (cost int64) {
	for _, of := range c.charges {
		if of.limit == limit {
			cost += of.cost
		}
	}
	return cost
}

// holding is what may be charged to a limit, and when: from the earliest to the latest instant.
type holding struct {
	from, until time.Duration // when the store may have charged it, until its reply at the latest
	gone        time.Duration // when it surely has been given back; never if it was not
	cost        int64
}

const never = time.Duration(math.MaxInt64 / 4)

// holdings are all of a limit's.
func (h *history) holdings(limit int) []holding {
	var all []holding
	resets := slices.DeleteFunc(h.actsOn(limit), func(a act) bool { return a.failed || !a.reset })
	for i := range h.calls {
		c := &h.calls[i]
		cost := c.asks(limit)
		if cost == 0 || !h.mayHold(c) {
			continue
		}
		one := holding{from: c.start, until: c.end, gone: never, cost: cost}
		if c.result != allowed {
			one.until += phantom
		}
		if c.backEnd > 0 && !c.backFailed && len(h.lossesIn(span{c.start, c.backEnd + unsure})) == 0 {
			one.gone = c.backEnd
		}
		next := sort.Search(len(resets), func(j int) bool { return resets[j].start > one.until })
		if next < len(resets) && h.forgets(resets[next], span{one.from, one.until}) {
			one.gone = min(one.gone, resets[next].end)
		}
		all = append(all, one)
	}
	return all
}

// mayHold says whether anything may be charged by a call: by one that is not allowed where its answer was lost, or its limits lie apart, and what some of
// them reserved may not have come back.
func (h *history) mayHold(c *call) bool {
	return c.result == allowed || c.result == indeterminate || h.mayReserve(c)
}

// mayReserve says whether some limits of a call may have reserved what it asked while others denied it, or were not to be reached.
func (h *history) mayReserve(c *call) bool { return h.apart && len(c.charges) > 1 && !c.remembered() }

// total answers how much has come by a time.
type total struct {
	times []time.Duration
	sums  []int64
}

func newTotal(all []holding, when func(holding) time.Duration) total {
	sorted := slices.Clone(all)
	slices.SortFunc(sorted, func(a, b holding) int { return int(when(a) - when(b)) })
	t := total{sums: []int64{0}}
	for _, one := range sorted {
		t.times = append(t.times, when(one))
		t.sums = append(t.sums, t.sums[len(t.sums)-1]+one.cost)
	}
	return t
}

// before is the sum of what came before a time.
func (t total) before(at time.Duration) int64 {
	return t.sums[sort.Search(len(t.times), func(i int) bool { return t.times[i] >= at })]
}

// unexplained looks at every denial of a limit.
func (h *history) unexplained(limit int) []string {
	req := &h.limits[limit]
	all := h.holdings(limit)
	var room []func(denial span) int64 // by rule: the most that may be charged
	for _, r := range req.Rules {
		if flows(req) {
			room = append(room, meter(all, req.Capacity(r), r))
		} else {
			room = append(room, inWindow(all, counts(req, r)))
		}
	}
	for i := range h.calls {
		c := &h.calls[i]
		for _, of := range c.charges {
			if of.limit != limit || !of.denies || of.banned > 0 {
				continue
			}
			explained := false
			text := ""
			for j, r := range req.Rules {
				held := room[j](span{c.start, c.end})
				explained = explained || held+of.cost > req.Capacity(r)
				text += fmt.Sprintf(" %d of %d in %v", held, req.Capacity(r), r.Window)
			}
			if !explained {
				return []string{fmt.Sprintf("denials: %s denied %d at %v with at most%s charged, want an admission", req.Key, of.cost, c.start, text)}
			}
		}
	}
	return nil
}

// counts is how long an admission counts at most.
func counts(req *store.Request, r rules.Rule) time.Duration {
	if req.Algorithm == rules.SlidingWindow {
		_, length := rules.Subwindows(r.Window, req.Segments)
		return r.Window + length + skew
	}
	return r.Window + skew
}

// inWindow is what may be charged when all that is counts for so long.
func inWindow(all []holding, counts time.Duration) func(span) int64 {
	from := newTotal(all, func(h holding) time.Duration { return h.from })
	gone := newTotal(all, func(h holding) time.Duration { return min(h.until+counts, max(h.gone, h.from)) })
	return func(denial span) int64 { return from.before(denial.end+1) - gone.before(denial.begin) }
}

// meter is what may be in a bucket that leaks.
func meter(all []holding, capacity int64, r rules.Rule) func(span) int64 {
	sorted := slices.Clone(all)
	slices.SortFunc(sorted, func(a, b holding) int { return int(a.until - b.until) })
	from := newTotal(all, func(h holding) time.Duration { return h.from })
	until := newTotal(all, func(h holding) time.Duration { return h.until })
	rate := float64(r.Count) / float64(r.Window)
	levels := make([]float64, len(sorted)+1) // after each
	for i, one := range sorted {
		level := levels[i]
		if i > 0 {
			level = max(0, level-rate*float64(one.until-sorted[i-1].until))
		}
		levels[i+1] = min(float64(capacity), level+float64(one.cost))
	}
	return func(denial span) int64 {
		n := sort.Search(len(sorted), func(i int) bool { return sorted[i].until >= denial.begin })
		level := 0.0
		if n > 0 {
			level = max(0, levels[n]-rate*float64(denial.begin-sorted[n-1].until-skew))
		}
		straddling := from.before(denial.end+1) - until.before(denial.begin)
		return min(capacity, int64(math.Ceil(level))+straddling)
	}
}
