package storetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// intervalModel is the token bucket that is refilled at intervals as its law is written, for each window.
type intervalModel map[time.Duration]intervalTokens

// intervalTokens is a bucket that lacks tokens at the time of its last gain.
type intervalTokens struct {
	lacks int64
	last  int64 // µs, moved by whole windows only
	start int64 // µs, when it was last full
	count int64
}

// at is the bucket of a rule at now, after n gains: those that a clock which is set back has not seen are negative.
func (m intervalModel) at(now int64, r rules.Rule) intervalTokens {
	window := r.Window.Microseconds()
	full := intervalTokens{last: now, start: now, count: r.Count}
	b, ok := m[r.Window]
	if !ok {
		return full
	}
	n := (now - b.last) / window
	if (now-b.last)%window < 0 {
		n--
	}
	b.last += n * window
	if b.lacks -= n * b.count; b.lacks <= 0 {
		return full
	}
	if b.count != r.Count { // as many gains away from being full as it was
		b.lacks = (b.lacks + b.count - 1) / b.count * r.Count
		b.count = r.Count
	}
	return b
}

func (m intervalModel) ask(now int64, req store.Request, r rules.Rule) (out store.RuleOutcome) {
	b, most, window := m.at(now, r), req.Capacity(r), r.Window.Microseconds()
	until := func(lacks int64) time.Duration { // at which no more are lacking
		steps := int64(0)
		for b.lacks-steps*b.count > lacks {
			steps++
		}
		if steps == 0 {
			return 0
		}
		return time.Duration(b.last+steps*window-now) * time.Microsecond
	}
	out.Remaining, out.ResetAfter = max(0, most-b.lacks), until(0)
	switch {
	case req.Cost > most:
		out.RetryAfter = store.Never
	case req.Cost > 0:
		out.RetryAfter = until(most - req.Cost)
	}
	return out
}

func (m intervalModel) charge(now int64, req store.Request) {
	for _, r := range req.Rules {
		b := m.at(now, r)
		b.lacks += req.Cost
		m[r.Window] = b
	}
}

// giveBack takes back of a cost charged at at what has not come back in a gain since.
func (m intervalModel) giveBack(now, at int64, req store.Request) {
	for _, r := range req.Rules {
		b, window := m.at(now, r), r.Window.Microseconds()
		if b.lacks == 0 || at < b.start {
			continue
		}
		left := req.Cost
		for t := b.start; t <= now; t += window {
			if t > at {
				left -= r.Count
			}
		}
		b.lacks -= max(0, left)
		if m[r.Window] = b; b.lacks <= 0 {
			delete(m, r.Window)
		}
	}
}

// over says whether a store may have forgotten something at a time.
func (m intervalModel) over(latest int64) bool {
	for window, b := range m {
		gains := (b.lacks + b.count - 1) / b.count
		if b.last+gains*window.Microseconds() <= latest {
			return true
		}
	}
	return false
}

// changed says whether a rule of req has another count than its bucket was written in.
func (m intervalModel) changed(req store.Request) bool {
	for _, r := range req.Rules {
		if b, ok := m[r.Window]; ok && b.count != r.Count {
			return true
		}
	}
	return false
}

// testIntervals compares the store with the model on random calls: any cost, rules that change, permits given back, time
// in any step and back, and beside it a log that denies now and then.
func testIntervals(t *testing.T, s Subject) {
	cases := 0
	s.check(t, 0, func(rt *rapid.T) {
		cases++
		s.Clock.Move(24 * time.Hour)
		w := intervalWalk{subject: s, prefix: fmt.Sprintf("%sintervals%d:", s.Prefix, cases), model: intervalModel{}}
		w.limit = rules.Limit{Algorithm: rules.TokenBucket, Refill: rules.RefillInterval}
		w.change(rt)
		rt.Repeat(map[string]func(*rapid.T){
			"take":  w.take,
			"again": w.take,
			"wait":  w.wait,
			"back":  w.back,
			"rules": func(rt *rapid.T) {
				if rapid.IntRange(0, 3).Draw(rt, "change") == 0 {
					w.change(rt)
				}
			},
		})
	})
}

type intervalWalk struct {
	subject  Subject
	prefix   string
	latest   int64 // µs
	limit    rules.Limit
	model    intervalModel
	named    int // how often the key was given up for another
	receipts []intervalReceipt
}

type intervalReceipt struct {
	store.Receipt
	at    int64
	req   store.Request
	named int
}

func (w *intervalWalk) change(rt *rapid.T) {
	w.limit.Rules = nil
	for _, window := range rapid.SliceOfNDistinct(rapid.SampledFrom([]time.Duration{time.Second, 2 * time.Second, 7 * time.Second}), 1, 2, rapid.ID).Draw(rt, "windows") {
		w.limit.Rules = append(w.limit.Rules, rules.Rule{Count: rapid.SampledFrom([]int64{1, 2, 3, 7}).Draw(rt, "count"), Window: window})
	}
	w.limit.Burst = rapid.Int64Range(0, 9).Draw(rt, "burst")
}

func (w *intervalWalk) take(rt *rapid.T) {
	now := w.subject.Clock.Now().UnixMicro()
	req := store.NewRequest(&w.limit, fmt.Sprintf("%s%d", w.prefix, w.named), rapid.Int64Range(0, 5).Draw(rt, "cost"))
	requests := []store.Request{req}
	// What a cluster reserves of it for a call that the log denies comes back to the token, but where the count changes.
	if rapid.Bool().Draw(rt, "beside") && !w.model.changed(req) {
		requests = append(requests, store.Request{Key: w.prefix + "beside", Rules: []rules.Rule{{Count: 3, Window: time.Second}}, Cost: 1})
	}
	out, err := store.Take(context.Background(), w.subject.Store, requests, true)
	if err != nil {
		rt.Fatalf("Take(%v): %v", requests, err)
	}
	want, allowed := w.answers(now, req)
	if beside := out.Rules[len(want):]; len(beside) > 0 && allowed {
		allowed = beside[0].RetryAfter == 0
	}
	if out.Allowed != allowed {
		rt.Fatalf("Take(%v) allowed = %v, want %v: %+v", requests, out.Allowed, allowed, want)
	}
	if allowed {
		if req.Cost > 0 {
			w.model.charge(now, req)
		}
		w.receipts = append(w.receipts, intervalReceipt{out.Receipt, now, req, w.named})
		peek := req
		peek.Cost = 0
		want, _ = w.answers(now, peek)
	}
	for i := range want {
		if out.Rules[i] != want[i] {
			rt.Fatalf("Take(%v) rule %d = %+v, want %+v", requests, i, out.Rules[i], want[i])
		}
	}
}

// answers are the model's, and whether they allow the call.
func (w *intervalWalk) answers(now int64, req store.Request) (want []store.RuleOutcome, allowed bool) {
	allowed = true
	for _, r := range req.Rules {
		want = append(want, w.model.ask(now, req, r))
		allowed = allowed && want[len(want)-1].RetryAfter == 0
	}
	return want, allowed
}

// wait moves the clock. Where it is set back, a key is given up that the store may have forgotten, and need not.
func (w *intervalWalk) wait(rt *rapid.T) {
	step := rapid.SampledFrom([]time.Duration{
		time.Microsecond, time.Second - time.Microsecond, 333333 * time.Microsecond, time.Second, 3 * time.Second,
		-time.Microsecond, -500 * time.Millisecond, -time.Minute,
	}).Draw(rt, "step")
	w.latest = max(w.latest, w.subject.Clock.Now().UnixMicro())
	if step < 0 && w.model.over(w.latest) {
		w.named++
		w.model = intervalModel{}
	}
	w.subject.Clock.Move(step)
}

func (w *intervalWalk) back(rt *rapid.T) {
	if len(w.receipts) == 0 {
		return
	}
	r := &w.receipts[rapid.IntRange(0, len(w.receipts)-1).Draw(rt, "receipt")]
	for range 2 {
		if err := w.subject.Store.GiveBack(context.Background(), r.Receipt); err != nil {
			rt.Fatalf("GiveBack: %v", err)
		}
	}
	if r.req.Cost > 0 && r.named == w.named {
		w.model.giveBack(w.subject.Clock.Now().UnixMicro(), r.at, r.req)
	}
	r.req.Cost = 0
}
