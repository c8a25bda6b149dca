package storetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// fixedModel is the fixed window as its law is written: for each length, the window that was begun last.
type fixedModel map[time.Duration]*fixedCount

type fixedCount struct {
	begins, ends int64   // µs
	costs        []int64 // admitted in it
}

func (m fixedModel) empty() naive { return fixedModel{} }

// at returns the window of a rule at now, nil if none has begun.
func (m fixedModel) at(now int64, r rules.Rule) *fixedCount {
	if c := m[r.Window]; c != nil && now < c.ends {
		return c
	}
	return nil
}

func (m fixedModel) ask(now int64, req store.Request, r rules.Rule) store.RuleOutcome {
	out := store.RuleOutcome{Remaining: r.Count}
	if c := m.at(now, r); c != nil {
		for _, cost := range c.costs {
			out.Remaining -= cost
		}
		out.Remaining = max(0, out.Remaining)
		out.ResetAfter = micros(c.ends - now)
	}
	switch {
	case req.Cost > r.Count:
		out.RetryAfter = store.Never
	case req.Cost > out.Remaining:
		out.RetryAfter = out.ResetAfter
	}
	return out
}

func (m fixedModel) charge(now int64, req store.Request) (note int64) {
	for _, r := range req.Rules {
		c := m.at(now, r)
		if c == nil {
			c = &fixedCount{begins: now}
			if req.Start == rules.StartClock {
				c.begins = now / r.Window.Microseconds() * r.Window.Microseconds()
			}
			c.ends = c.begins + r.Window.Microseconds()
			m[r.Window] = c
		}
		c.costs = append(c.costs, req.Cost)
	}
	return 0
}

// giveBack takes back what was charged in the window of now. What a clock that was set back has charged before the window's
// beginning stays.
func (m fixedModel) giveBack(now, at, _ int64, req store.Request) {
	for _, r := range req.Rules {
		c := m.at(now, r)
		if c == nil || at < c.begins || c.ends <= at {
			continue
		}
		for i, cost := range c.costs {
			if cost == req.Cost {
				c.costs = append(c.costs[:i:i], c.costs[i+1:]...)
				break
			}
		}
		if len(c.costs) == 0 {
			delete(m, r.Window)
		}
	}
}

func (m fixedModel) over(latest int64) bool {
	for _, c := range m {
		if c.ends <= latest {
			return true
		}
	}
	return false
}

func (m fixedModel) marks(now int64, req store.Request) bool {
	for _, r := range req.Rules {
		if c := m.at(now, r); c != nil && now < c.begins {
			return true
		}
	}
	return false
}

// slidingModel is the sliding window as its law is written: for each length of window and number of sub-windows, what was
// admitted in each sub-window since 1970, by its number.
type slidingModel map[subdivision]map[int64]int64

type subdivision struct {
	window   time.Duration
	segments int64
}

func (m slidingModel) empty() naive { return slidingModel{} }

func divide(req store.Request, r rules.Rule) subdivision {
	d := subdivision{r.Window, req.Segments}
	if d.segments == 0 {
		d.segments = rules.DefaultSegments
	}
	return d
}

// length is that of a sub-window, µs.
func (d subdivision) length() int64 { return ceil(ratOf(d.window.Microseconds(), d.segments)) }

// newest is the number of the newest sub-window that has something, of none the smallest number.
func newest(counts map[int64]int64) int64 {
	last := int64(-1 << 62)
	for number := range counts {
		last = max(last, number)
	}
	return last
}

func (m slidingModel) ask(now int64, req store.Request, r rules.Rule) store.RuleOutcome {
	d := divide(req, r)
	used := func(at int64) (sum int64) { // what counts at a time
		for number, units := range m[d] {
			if number >= at/d.length()-d.segments {
				sum += units
			}
		}
		return sum
	}
	out := store.RuleOutcome{Remaining: max(0, r.Count-used(now))}
	wait := func(enough int64) time.Duration { // until no more than enough counts
		at := now
		for used(at) > enough {
			at = (at/d.length() + 1) * d.length()
		}
		return micros(at - now)
	}
	if used(now) > 0 {
		out.ResetAfter = wait(0)
	}
	switch {
	case req.Cost > r.Count:
		out.RetryAfter = store.Never
	case req.Cost > 0:
		out.RetryAfter = wait(r.Count - req.Cost)
	}
	return out
}

func (m slidingModel) charge(now int64, req store.Request) (note int64) {
	for _, r := range req.Rules {
		d := divide(req, r)
		if m[d] == nil {
			m[d] = map[int64]int64{}
		}
		m[d][max(now/d.length(), newest(m[d])-d.segments)] += req.Cost
	}
	return 0
}

func (m slidingModel) giveBack(now, at, _ int64, req store.Request) {
	for _, r := range req.Rules {
		d := divide(req, r)
		number := at / d.length()
		if number < now/d.length()-d.segments || number < newest(m[d])-d.segments || newest(m[d]) < number {
			continue
		}
		if m[d][number] = max(0, m[d][number]-req.Cost); m[d][number] == 0 {
			delete(m[d], number)
		}
	}
}

func (m slidingModel) over(latest int64) bool {
	for d, counts := range m {
		for number := range counts {
			if number < latest/d.length()-d.segments {
				return true
			}
		}
	}
	return false
}

func (m slidingModel) marks(now int64, req store.Request) bool {
	for _, r := range req.Rules {
		if d := divide(req, r); now/d.length() < newest(m[d])-d.segments {
			return true
		}
	}
	return false
}

func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

// testWindows compares the store with the models on random calls of two limits, of which one may be a bucket.
func testWindows(t *testing.T, s Subject) {
	cases := 0
	s.check(t, 0, func(rt *rapid.T) {
		cases++
		s.Clock.Move(24 * time.Hour)
		w := newCounterWalk(s, fmt.Sprintf("windows%d:", cases))
		w.run(rt, beginWindow, changeWindow)
	})
}

// beginWindow draws an algorithm.
func beginWindow(rt *rapid.T, l *rules.Limit) naive {
	switch rapid.IntRange(0, 4).Draw(rt, "algo") {
	case 0:
		l.Algorithm = rules.GCRA
		return gcraModel{}
	case 1, 2:
		l.Algorithm = rules.FixedWindow
		return fixedModel{}
	}
	l.Algorithm = rules.SlidingWindow
	return slidingModel{}
}

// changeWindow draws rules and options of a limit's algorithm.
func changeWindow(rt *rapid.T, l *rules.Limit) {
	counts := []int64{1, 2, 3, 5, 8}
	switch l.Algorithm {
	case rules.GCRA:
		drawBucket(rt, l)
	case rules.FixedWindow:
		l.Rules = drawRulesOf(rt, counts)
		l.Start = rapid.SampledFrom([]rules.Start{rules.StartClock, rules.StartFirst}).Draw(rt, "start")
	case rules.SlidingWindow:
		l.Rules = drawRulesOf(rt, counts)
		l.Segments = rapid.SampledFrom([]int64{0, 1, 2, 3, 7, 100}).Draw(rt, "segments")
	}
}

// testNeverMore holds that a sliding window lets no more than its count through in any window, whatever the calls, and a
// fixed window no more than twice of it: calls that come in bursts at and around the boundaries of sub-windows, at the
// moments when something has just left.
func testNeverMore(t *testing.T, s Subject) {
	cases := 0
	s.check(t, 0, func(rt *rapid.T) {
		cases++
		s.Clock.Move(24 * time.Hour)
		l := rules.Limit{Algorithm: rules.SlidingWindow, Segments: rapid.SampledFrom([]int64{0, 1, 2, 3, 7}).Draw(rt, "segments")}
		times := int64(1)
		if rapid.IntRange(0, 3).Draw(rt, "fixed") == 0 {
			l = rules.Limit{Algorithm: rules.FixedWindow, Start: rules.Start(rapid.IntRange(0, 1).Draw(rt, "start"))}
			times = 2
		}
		r := rules.Rule{Count: rapid.Int64Range(1, 9).Draw(rt, "count"), Window: time.Duration(rapid.Int64Range(1000, 2000).Draw(rt, "window")) * time.Microsecond}
		l.Rules = []rules.Rule{r}
		window := r.Window.Microseconds()
		_, length := rules.Subwindows(r.Window, l.Segments)
		admitted := map[int64]int64{} // by µs
		for range rapid.IntRange(1, 40).Draw(rt, "calls") {
			now := s.Clock.Now().UnixMicro()
			edge := length.Microseconds() - now%length.Microseconds() // to the next boundary
			step := rapid.SampledFrom([]int64{0, 1, edge - 1, edge, edge + 1, window - 1, window}).Draw(rt, "step")
			s.Clock.Move(micros(step))
			req := store.NewRequest(&l, fmt.Sprintf("%snever%d", s.Prefix, cases), rapid.Int64Range(1, r.Count).Draw(rt, "cost"))
			out, err := store.Take(context.Background(), s.Store, []store.Request{req}, false)
			if err != nil {
				rt.Fatalf("Take(%v): %v", req, err)
			}
			if !out.Allowed && rapid.Bool().Draw(rt, "wait") {
				s.Clock.Move(out.Rules[0].RetryAfter)
			} else if out.Allowed {
				admitted[s.Clock.Now().UnixMicro()] += req.Cost
			}
			for from := range admitted {
				sum := int64(0)
				for at, cost := range admitted {
					if from <= at && at < from+window {
						sum += cost
					}
				}
				if sum > times*r.Count {
					rt.Fatalf("%v lets %d through in the window from %d, want at most %d: %v", l, sum, from, times*r.Count, admitted)
				}
			}
		}
	})
}

// testWindowsUnderConcurrency asks at one time, from many callers: exactly the count passes.
func testWindowsUnderConcurrency(t *testing.T, s Subject) {
	for _, l := range []rules.Limit{
		{Algorithm: rules.FixedWindow, Start: rules.StartFirst},
		{Algorithm: rules.SlidingWindow, Segments: 1},
		{Algorithm: rules.SlidingWindow, Segments: 100},
	} {
		l.Rules = []rules.Rule{{Count: 50, Window: 366 * 24 * time.Hour}}
		req := store.NewRequest(&l, fmt.Sprintf("%sconcurrent%v%d", s.Prefix, l.Algorithm, l.Segments), 1)
		allowed := make(chan store.Receipt, 300)
		each(32, 300, func(int) {
			out, err := store.Take(context.Background(), s.Store, []store.Request{req}, false)
			if err != nil {
				t.Errorf("Take: %v", err)
			} else if out.Allowed {
				allowed <- out.Receipt
			}
		})
		if n := len(allowed); n != 50 {
			t.Errorf("%v: %d of 300 calls allowed, want exactly 50", l, n)
		}
	}
}

// testInvalidWindows asks what no store decides.
func testInvalidWindows(t *testing.T, s Subject) {
	second := []rules.Rule{{Count: 1, Window: time.Second}}
	for name, bad := range map[string]store.Request{
		"segments over the most": {Algorithm: rules.SlidingWindow, Rules: second, Segments: rules.MaxSegments + 1},
		"negative segments":      {Algorithm: rules.SlidingWindow, Rules: second, Segments: -1},
		"unknown start":          {Algorithm: rules.FixedWindow, Rules: second, Start: rules.StartFirst + 1},
		"a window twice":         {Algorithm: rules.FixedWindow, Rules: append(second, rules.Rule{Count: 2, Window: time.Second})},
		"too large a count":      {Algorithm: rules.FixedWindow, Rules: []rules.Rule{{Count: 1 << 53, Window: time.Second}}},
		"too large a log":        {Algorithm: rules.SlidingLog, Rules: []rules.Rule{{Count: math.MaxInt64 - 1, Window: time.Second}}},
		"too large a packed log": {Algorithm: rules.CompactLog, Rules: []rules.Rule{{Count: rules.MaxCount + 1, Window: time.Second}}},
	} {
		bad.Key, bad.Cost = s.Prefix+"bad", 1
		_, err := store.Take(context.Background(), s.Store, []store.Request{bad}, false)
		var failed *store.Error
		if !errors.As(err, &failed) || failed.Class != store.Misconfigured {
			t.Errorf("%s: Take error = %v, want one of class %v", name, err, store.Misconfigured)
		}
	}
	for _, segments := range []int64{1, rules.MaxSegments} {
		req := store.Request{Key: fmt.Sprint(s.Prefix, "good", segments), Algorithm: rules.SlidingWindow, Rules: second, Segments: segments, Cost: 1}
		if !s.take(t, req).Allowed {
			t.Errorf("Take of %d segments is denied, want it allowed", segments)
		}
	}
}
