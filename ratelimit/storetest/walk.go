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

// testModel compares the store with the model on random calls: any cost, several limits, time in any step and
// sometimes set back, rules that change, and permits that are given back, once or again.
func testModel(t *testing.T, s Subject) {
	cases := 0
	s.check(t, 0, func(rt *rapid.T) {
		cases++
		s.Clock.Move(24 * time.Hour)
		w := walk{
			subject: s,
			prefix:  fmt.Sprintf("%smodel%d:", s.Prefix, cases),
			model:   newModel(),
			rules:   [3][]rules.Rule{drawRules(rt), drawRules(rt), drawRules(rt)},
		}
		rt.Repeat(map[string]func(*rapid.T){
			"take":  w.take,
			"wait":  w.wait,
			"back":  w.back,
			"rules": w.change,
			"reset": w.reset,
		})
	})
}

// walk is one random sequence of calls.
type walk struct {
	subject  Subject
	prefix   string
	model    *model
	rules    [3][]rules.Rule // of the keys
	receipts []store.Receipt
}

func drawRules(rt *rapid.T) []rules.Rule {
	drawn := make([]rules.Rule, rapid.IntRange(1, 3).Draw(rt, "rules"))
	for i := range drawn {
		drawn[i] = rules.Rule{
			Count:  rapid.Int64Range(1, 6).Draw(rt, "count"),
			Window: time.Duration(rapid.IntRange(1, 4).Draw(rt, "window")) * time.Second,
		}
	}
	return drawn
}

func (w *walk) take(rt *rapid.T) {
	var requests []store.Request
	for i := range w.rules {
		if rapid.IntRange(0, 2).Draw(rt, "asked") > 0 {
			requests = append(requests, store.Request{
				Key:   fmt.Sprintf("%s%d", w.prefix, i),
				Rules: w.rules[i],
				Cost:  rapid.Int64Range(0, 4).Draw(rt, "cost"),
			})
		}
	}
	if len(requests) == 0 {
		return
	}
	detail := rapid.Bool().Draw(rt, "detail")
	now := w.subject.Clock.Now()
	out, err := store.Take(context.Background(), w.subject.Store, requests, detail)
	if err != nil {
		rt.Fatalf("Take: %v", err)
	}
	w.compare(rt, now, requests, out, detail)
	if out.Allowed {
		w.receipts = append(w.receipts, out.Receipt)
	}
}

// compare checks out against the model, and charges the model what the store has charged.
func (w *walk) compare(rt *rapid.T, now time.Time, requests []store.Request, out store.Outcome, detail bool) {
	w.model.latest = later(w.model.latest, now)
	mustAllow, mayAllow := true, true
	var all, sure []store.RuleOutcome
	for _, req := range requests {
		a, s := w.model.ask(now, req)
		all, sure = append(all, a...), append(sure, s...)
		for i := range a {
			mustAllow = mustAllow && a[i].RetryAfter == 0
			mayAllow = mayAllow && s[i].RetryAfter == 0
		}
	}
	if out.Allowed && !mayAllow || !out.Allowed && mustAllow {
		rt.Fatalf("Take(%v) allowed = %v, want %v: %+v", requests, out.Allowed, !out.Allowed, all)
	}
	for _, req := range requests {
		w.model.see(req)
	}
	if out.Allowed {
		for _, req := range requests {
			w.model.charge(now, req, len(w.receipts))
		}
		all, sure = w.answers(now, requests)
	}
	for i, got := range out.Rules {
		if !out.Allowed && !within(got.RetryAfter, sure[i].RetryAfter, all[i].RetryAfter) || out.Allowed && got.RetryAfter != 0 {
			rt.Fatalf("Take(%v) rule %d: retry after %v, want %v to %v",
				requests, i, got.RetryAfter, sure[i].RetryAfter, all[i].RetryAfter)
		}
		if detail && !within(got.Remaining, all[i].Remaining, sure[i].Remaining) {
			rt.Fatalf("Take(%v) rule %d: remaining %d, want %d to %d",
				requests, i, got.Remaining, all[i].Remaining, sure[i].Remaining)
		}
		if detail && !within(got.ResetAfter, sure[i].ResetAfter, all[i].ResetAfter) {
			rt.Fatalf("Take(%v) rule %d: reset after %v, want %v to %v",
				requests, i, got.ResetAfter, sure[i].ResetAfter, all[i].ResetAfter)
		}
	}
}

// answers are the model's, of requests that ask for nothing.
func (w *walk) answers(now time.Time, requests []store.Request) (all, sure []store.RuleOutcome) {
	for _, req := range requests {
		req.Cost = 0
		a, s := w.model.ask(now, req)
		all, sure = append(all, a...), append(sure, s...)
	}
	return all, sure
}

func within[T int64 | time.Duration](got, low, high T) bool { return low <= got && got <= high }

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func (w *walk) wait(rt *rapid.T) {
	step := rapid.SampledFrom([]time.Duration{
		time.Microsecond, 250 * time.Millisecond, time.Second - time.Microsecond, time.Second, 3 * time.Second,
		-time.Microsecond, -500 * time.Millisecond,
	}).Draw(rt, "step")
	w.subject.Clock.Move(step)
	w.model.latest = later(w.model.latest, w.subject.Clock.Now())
}

func (w *walk) back(rt *rapid.T) {
	if len(w.receipts) == 0 {
		return
	}
	id := rapid.IntRange(0, len(w.receipts)-1).Draw(rt, "receipt")
	if err := w.subject.Store.GiveBack(context.Background(), w.receipts[id]); err != nil {
		rt.Fatalf("GiveBack: %v", err)
	}
	w.model.giveBack(id)
}

func (w *walk) change(rt *rapid.T) {
	if rapid.IntRange(0, 4).Draw(rt, "change") == 0 {
		w.rules[rapid.IntRange(0, 2).Draw(rt, "limit")] = drawRules(rt)
	}
}

func (w *walk) reset(rt *rapid.T) {
	if rapid.IntRange(0, 2).Draw(rt, "reset") > 0 {
		return
	}
	i := rapid.IntRange(0, 2).Draw(rt, "limit")
	req := store.Request{Key: fmt.Sprintf("%s%d", w.prefix, i), Rules: w.rules[i]}
	if err := w.subject.Store.Reset(context.Background(), []store.Request{req}); err != nil {
		rt.Fatalf("Reset: %v", err)
	}
	delete(w.model.logs, req.Key)
}
