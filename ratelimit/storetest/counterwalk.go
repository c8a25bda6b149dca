package storetest

import (
	"context"
	"fmt"
	"time"

	"pgregory.net/rapid"

	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// naive is what one key counts, as the law of its algorithm is written.
type naive interface {
	empty() naive
	// ask answers one rule with what remains before the call.
	ask(now int64, req store.Request, r rules.Rule) store.RuleOutcome
	// charge returns what giveBack is to be told.
	charge(now int64, req store.Request) (note int64)
	// giveBack takes back what was charged at at.
	giveBack(now, at, note int64, req store.Request)
	// over says whether a store may have forgotten something at a time, which a clock that goes back then would need.
	over(latest int64) bool
	// marks says whether a charge of req at now cannot be given back to the last bit.
	marks(now int64, req store.Request) bool
}

// counterWalk is one random sequence of calls of two limits: any cost, rules that change, permits that are given back
// twice, and time in any step, sometimes back.
type counterWalk struct {
	subject  Subject
	prefix   string
	latest   int64 // µs
	limits   [2]rules.Limit
	models   [2]naive
	named    [2]int // how often the key was given up for another
	receipts []counterReceipt
}

type counterReceipt struct {
	store.Receipt
	at       int64
	requests []store.Request
	limits   []int
	notes    []int64
	named    [2]int
}

func newCounterWalk(s Subject, prefix string) *counterWalk {
	return &counterWalk{subject: s, prefix: s.Prefix + prefix, latest: s.Clock.Now().UnixMicro()}
}

// run walks limits whose algorithms begin draws, with the model of each, and whose rules and options change draws, then
// and now and again.
func (w *counterWalk) run(rt *rapid.T, begin func(*rapid.T, *rules.Limit) naive, change func(*rapid.T, *rules.Limit)) {
	for i := range w.limits {
		w.models[i] = begin(rt, &w.limits[i])
		change(rt, &w.limits[i])
	}
	rt.Repeat(map[string]func(*rapid.T){
		"take": w.take,
		"wait": w.wait,
		"back": w.back,
		"rules": func(rt *rapid.T) {
			if rapid.IntRange(0, 4).Draw(rt, "change") == 0 {
				change(rt, &w.limits[rapid.IntRange(0, 1).Draw(rt, "limit")])
			}
		},
	})
}

// drawRulesOf draws one or two rules whose windows differ.
func drawRulesOf(rt *rapid.T, counts []int64) []rules.Rule {
	var rs []rules.Rule
	windows := []time.Duration{time.Second, 2 * time.Second, 7 * time.Second}
	for _, window := range rapid.SliceOfNDistinct(rapid.SampledFrom(windows), 1, 2, rapid.ID).Draw(rt, "windows") {
		rs = append(rs, rules.Rule{Count: rapid.SampledFrom(counts).Draw(rt, "count"), Window: window})
	}
	return rs
}

// drawBucket draws the rules and the burst of a bucket, and whether calls may be given back.
func drawBucket(rt *rapid.T, l *rules.Limit) {
	l.Charge = rapid.SampledFrom([]rules.Charge{rules.ChargeAlways, rules.ChargeError}).Draw(rt, "charge")
	l.Rules = drawRulesOf(rt, []int64{1, 2, 3, 7, 1000})
	l.Burst = rapid.Int64Range(0, 6).Draw(rt, "burst")
}

func (w *counterWalk) take(rt *rapid.T) {
	now := w.subject.Clock.Now().UnixMicro()
	var requests []store.Request
	var limits []int
	for i := range w.limits {
		if rapid.IntRange(0, 3).Draw(rt, "asked") > 0 {
			key := fmt.Sprintf("%s%d-%d", w.prefix, i, w.named[i])
			requests = append(requests, store.NewRequest(&w.limits[i], key, rapid.Int64Range(0, 4).Draw(rt, "cost")))
			limits = append(limits, i)
		}
	}
	for n := range requests {
		requests[n].Returns = requests[n].Returns || len(requests) > 1 // as where they are asked apart, and given back if others deny
	}
	out, err := store.Take(context.Background(), w.subject.Store, requests, true)
	if err != nil {
		rt.Fatalf("Take(%v): %v", requests, err)
	}
	var want []store.RuleOutcome
	var reserved []bool // and perhaps not given back to the last bit
	allowed := true
	for n, req := range requests {
		for _, r := range req.Rules {
			want = append(want, w.models[limits[n]].ask(now, req, r))
			reserved = append(reserved, len(requests) > 1 && req.Cost > 0 && w.models[limits[n]].marks(now, req))
			allowed = allowed && want[len(want)-1].RetryAfter == 0
		}
	}
	if allowed {
		want = want[:0]
		notes := make([]int64, len(requests))
		for n, req := range requests {
			m := w.models[limits[n]]
			if req.Cost > 0 {
				notes[n] = m.charge(now, req)
			}
			req.Cost = 0
			for _, r := range req.Rules {
				want = append(want, m.ask(now, req, r))
			}
		}
		w.receipts = append(w.receipts, counterReceipt{out.Receipt, now, requests, limits, notes, w.named})
	}
	if out.Allowed != allowed {
		rt.Fatalf("Take(%v) allowed = %v, want %v: %+v", requests, out.Allowed, allowed, want)
	}
	for i := range want {
		if out.Rules[i] != want[i] && (allowed || !reserved[i]) {
			rt.Fatalf("Take(%v) rule %d = %+v, want %+v", requests, i, out.Rules[i], want[i])
		}
	}
	if !allowed && len(requests) > 1 {
		w.reserved(now, requests, limits)
	}
}

// reserved gives up the keys of a denied call that a store may have charged and given back, as it does where one node
// does not hold them all, and that do not come back from it to the last bit.
func (w *counterWalk) reserved(now int64, requests []store.Request, limits []int) {
	for n, req := range requests {
		if i := limits[n]; req.Cost > 0 && w.models[i].marks(now, req) {
			w.giveUp(i)
		}
	}
}

func (w *counterWalk) giveUp(i int) {
	w.named[i]++
	w.models[i] = w.models[i].empty()
}

func (w *counterWalk) wait(rt *rapid.T) {
	step := rapid.SampledFrom([]time.Duration{
		time.Microsecond, 333333 * time.Microsecond, 142858 * time.Microsecond, time.Second, 3 * time.Second,
		-time.Microsecond, -500 * time.Millisecond, -time.Hour,
	}).Draw(rt, "step")
	if step < 0 {
		for i := range w.models {
			if w.models[i].over(w.latest) {
				w.giveUp(i)
			}
		}
	}
	w.subject.Clock.Move(step)
	w.latest = max(w.latest, w.subject.Clock.Now().UnixMicro())
}

func (w *counterWalk) back(rt *rapid.T) {
	if len(w.receipts) == 0 {
		return
	}
	r := &w.receipts[rapid.IntRange(0, len(w.receipts)-1).Draw(rt, "receipt")]
	for range 2 {
		if err := w.subject.Store.GiveBack(context.Background(), r.Receipt); err != nil {
			rt.Fatalf("GiveBack: %v", err)
		}
	}
	for n, req := range r.requests {
		if i := r.limits[n]; req.Cost > 0 && r.named[i] == w.named[i] {
			w.models[i].giveBack(w.subject.Clock.Now().UnixMicro(), r.at, r.notes[n], req)
		}
	}
	r.requests = nil
}
