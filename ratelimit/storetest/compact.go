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

// testCompactTraces replays what explains the sliding log on the compact log: every answer is the same.
func testCompactTraces(t *testing.T, s Subject) {
	replayFiles(t, s, "sliding-log_*.txt", func(tr trace) trace { return tr.with(rules.CompactLog) })
}

// with is the trace with an algorithm in place of each of its limits'.
func (tr trace) with(a rules.Algorithm) trace {
	steps := make([]step, len(tr.steps))
	for i, s := range tr.steps {
		if s.limits != nil {
			s.limits = append([]limit(nil), s.limits...)
			for j := range s.limits {
				s.limits[j].Algorithm = a
			}
		}
		steps[i] = s
	}
	tr.steps = steps
	return tr
}

// testCompactLog makes every call of a random walk of both logs, which answer alike: any cost, logs that are short and
// logs that are long, rules that change, permits given back once or again, and time in any step, back too.
func testCompactLog(t *testing.T, s Subject) {
	cases := 0
	s.check(t, 0, func(rt *rapid.T) {
		cases++
		s.Clock.Move(24 * time.Hour)
		w := compactWalk{subject: s, asked: map[time.Time]bool{}, prefix: fmt.Sprintf("%scompact%d", s.Prefix, cases)}
		for i := range w.rules {
			w.rules[i] = w.draw(rt, i)
		}
		rt.Repeat(map[string]func(*rapid.T){
			"take":  w.take,
			"again": w.take,
			"wait":  w.wait,
			"back":  w.back,
			"rules": w.change,
		})
	})
}

// compactWalk is one random sequence of calls of three limits: one of few permits, one of hundreds, one of thousands.
type compactWalk struct {
	subject  Subject
	prefix   string
	rules    [3][]rules.Rule
	ends     [3]time.Time // when nothing counts any more
	named    [3]int       // how often the keys were given up for others
	latest   time.Time
	asked    map[time.Time]bool // what is charged twice at an instant, the clock having been set back, is the same to a compact log
	receipts [][2]store.Receipt
}

// scales are the largest counts of the limits.
var scales = [3]int64{6, 400, 3000}

func (w *compactWalk) draw(rt *rapid.T, i int) []rules.Rule {
	drawn := make([]rules.Rule, rapid.IntRange(1, 3).Draw(rt, "rules"))
	for j := range drawn {
		drawn[j] = rules.Rule{
			Count:  rapid.Int64Range(1, scales[i]).Draw(rt, "count"),
			Window: time.Duration(rapid.IntRange(1, 4).Draw(rt, "window")) * time.Second,
		}
	}
	return drawn
}

// requests are those of a call by one of the logs. A store that decides keys apart decides those of one limit by both
// logs in one place.
func (w *compactWalk) requests(limits []int, costs [3]int64, a rules.Algorithm) []store.Request {
	requests := make([]store.Request, len(limits))
	for n, i := range limits {
		requests[n] = store.Request{
			Key: fmt.Sprintf("{%s-%d-%d}%v", w.prefix, i, w.named[i], a), Algorithm: a, Rules: w.rules[i], Cost: costs[i],
		}
	}
	return requests
}

func (w *compactWalk) take(rt *rapid.T) {
	var limits []int
	var costs [3]int64
	for i := range w.rules {
		if rapid.IntRange(0, 2).Draw(rt, "asked") > 0 {
			limits = append(limits, i)
			costs[i] = rapid.OneOf(rapid.Int64Range(0, 3), rapid.Int64Range(0, scales[i]/2)).Draw(rt, "cost")
		}
	}
	detail := rapid.Bool().Draw(rt, "detail")
	var outcomes [2]store.Outcome
	for n, a := range []rules.Algorithm{rules.SlidingLog, rules.CompactLog} {
		out, err := store.Take(context.Background(), w.subject.Store, w.requests(limits, costs, a), detail)
		if err != nil {
			rt.Fatalf("Take by %v: %v", a, err)
		}
		outcomes[n] = out
	}
	if diff := differ(outcomes[0], outcomes[1]); diff != "" {
		rt.Fatalf("Take(%v): %s", w.requests(limits, costs, rules.CompactLog), diff)
	}
	if outcomes[0].Allowed {
		w.charge(limits, costs)
		w.receipts = append(w.receipts, [2]store.Receipt{outcomes[0].Receipt, outcomes[1].Receipt})
	}
}

// differ says in what the answers of the two logs differ, "" if in nothing.
func differ(sliding, compact store.Outcome) string {
	if sliding.Allowed != compact.Allowed {
		return fmt.Sprintf("compact-log allowed = %v, want as sliding-log %v: %+v, want %+v", compact.Allowed, sliding.Allowed, compact.Rules, sliding.Rules)
	}
	for i := range sliding.Rules {
		if sliding.Rules[i] != compact.Rules[i] {
			return fmt.Sprintf("rule %d by compact-log = %+v, want as by sliding-log %+v", i, compact.Rules[i], sliding.Rules[i])
		}
	}
	return ""
}

// charge takes note of how long the logs count what they have charged.
func (w *compactWalk) charge(limits []int, costs [3]int64) {
	for _, i := range limits {
		if costs[i] > 0 {
			w.ends[i] = later(w.ends[i], w.subject.Clock.Now().Add(longest(w.rules[i])))
		}
	}
}

func longest(rs []rules.Rule) time.Duration {
	var window time.Duration
	for _, r := range rs {
		window = max(window, r.Window)
	}
	return window
}

// wait moves the clock. Where it is set back, keys are given up that a store may have forgotten, and need not.
func (w *compactWalk) wait(rt *rapid.T) {
	w.latest = later(w.latest, w.subject.Clock.Now())
	step := rapid.SampledFrom([]time.Duration{
		time.Microsecond, 50 * time.Millisecond, 250 * time.Millisecond, time.Second - time.Microsecond, time.Second, 3 * time.Second,
		-time.Microsecond, -500 * time.Millisecond, -7 * time.Second,
	}).Draw(rt, "step")
	for i := range w.ends {
		if step < 0 && !w.ends[i].After(w.latest) {
			w.named[i]++
		}
	}
	w.asked[w.subject.Clock.Now()] = true
	w.subject.Clock.Move(step)
	for w.asked[w.subject.Clock.Now()] {
		w.subject.Clock.Move(time.Microsecond)
	}
}

func (w *compactWalk) back(rt *rapid.T) {
	if len(w.receipts) == 0 {
		return
	}
	for _, r := range w.receipts[rapid.IntRange(0, len(w.receipts)-1).Draw(rt, "receipt")] {
		if err := w.subject.Store.GiveBack(context.Background(), r); err != nil {
			rt.Fatalf("GiveBack: %v", err)
		}
	}
}

func (w *compactWalk) change(rt *rapid.T) {
	if rapid.IntRange(0, 4).Draw(rt, "change") == 0 {
		i := rapid.IntRange(0, 2).Draw(rt, "limit")
		w.rules[i] = w.draw(rt, i)
	}
}

// testCompactUnderConcurrency asks from many callers: exactly the count passes, of a log that is short and of one that is
// long, and all that is given back is there again.
func testCompactUnderConcurrency(t *testing.T, s Subject) {
	for _, count := range []int64{50, 700} {
		req := s.limitOf(fmt.Sprint("compact concurrent", count), 1, hourly(count))
		req.Algorithm = rules.CompactLog
		allowed := make(chan store.Receipt, 1000)
		each(32, 1000, func(int) {
			out, err := store.Take(context.Background(), s.Store, []store.Request{req}, false)
			if err != nil {
				t.Errorf("Take: %v", err)
			} else if out.Allowed {
				allowed <- out.Receipt
			}
		})
		if n := int64(len(allowed)); n != count {
			t.Errorf("%d of 1,000 calls allowed, want exactly %d", n, count)
		}
		close(allowed)
		each(32, int(count), func(int) {
			if err := s.Store.GiveBack(context.Background(), <-allowed); err != nil {
				t.Errorf("GiveBack: %v", err)
			}
		})
		if left := s.remaining(t, req)[0]; left != count {
			t.Errorf("%d remaining after all is given back, want %d", left, count)
		}
	}
}
