package storetest

import (
	"cmp"
	"context"
	"fmt"
	"math/big"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// queueModel is the queue as its law is written, in fractions: when it is free, and when those in it go on.
type queueModel struct {
	free  *big.Rat // µs
	slots []queueSlot
}

type queueSlot struct {
	id    int
	start *big.Rat
}

// at is max(free, now). A queue that has drained has no slots.
func (m *queueModel) at(now int64) *big.Rat {
	at := ratOf(now, 1)
	if m.free == nil || m.free.Cmp(at) <= 0 {
		m.slots = nil
		return at
	}
	return m.free
}

func (m *queueModel) ask(now int64, req store.Request) store.RuleOutcome {
	late := ceil(new(big.Rat).Sub(m.at(now), ratOf(now, 1)))
	wait, most := time.Duration(late)*time.Microsecond, req.Wait
	out := store.RuleOutcome{ResetAfter: wait}
	if wait <= most {
		out.Remaining = req.Rules[0].Count
	}
	switch {
	case req.Cost == 0:
	case req.Cost > req.Rules[0].Count:
		out.RetryAfter = store.Never
	case wait > most:
		out.RetryAfter = wait - most
	default:
		out.Delay = wait
	}
	return out
}

func (m *queueModel) charge(now int64, req store.Request, id int) {
	start := m.at(now)
	m.slots = append(m.slots, queueSlot{id, start})
	m.free = new(big.Rat).Add(start, new(big.Rat).Mul(ratOf(req.Cost, 1), interval(req.Rules[0])))
}

// giveBack takes back the last slot, and no other.
func (m *queueModel) giveBack(now int64, id int) {
	m.at(now)
	if n := len(m.slots); n > 0 && m.slots[n-1].id == id {
		m.free, m.slots = m.slots[n-1].start, m.slots[:n-1]
	}
}

// over says whether a store may have forgotten the queue at a time.
func (m *queueModel) over(latest int64) bool { return m.free != nil && ceil(m.free) <= latest }

// testQueue compares the store with the model on random calls of two queues and a log beside them, of any cost and
// wait, in any step of time, some of them given back.
func testQueue(t *testing.T, s Subject) {
	cases := 0
	s.check(t, 0, func(rt *rapid.T) {
		cases++
		s.Clock.Move(24 * time.Hour)
		w := queueWalk{subject: s, prefix: fmt.Sprintf("%squeue%d:", s.Prefix, cases), latest: s.Clock.Now().UnixMicro(), left: 12}
		for i := range w.rules {
			w.rules[i] = rules.Rule{
				Count:  rapid.SampledFrom([]int64{1, 2, 3, 7, 1000}).Draw(rt, "count"),
				Window: rapid.SampledFrom([]time.Duration{time.Millisecond, time.Second, 7 * time.Second}).Draw(rt, "window"),
			}
		}
		rt.Repeat(map[string]func(*rapid.T){"take": w.take, "wait": w.wait, "back": w.back})
	})
}

// queueLog is the count of the log beside the queues, in a day.
const queueLog = 12

type queueWalk struct {
	subject  Subject
	prefix   string
	latest   int64 // µs
	rules    [2]rules.Rule
	models   [2]queueModel
	named    [2]int // how often the key was given up for another
	left     int64  // of the log
	receipts []queueReceipt
}

type queueReceipt struct {
	store.Receipt
	id     int
	queues []int
	named  [2]int
	log    int64
}

// requests draws a call.
func (w *queueWalk) requests(rt *rapid.T) (requests []store.Request, queues []int) {
	for i, r := range w.rules {
		if rapid.IntRange(0, 3).Draw(rt, "asked") == 0 {
			continue
		}
		queues = append(queues, i)
		requests = append(requests, store.Request{
			Key: fmt.Sprintf("%s%d-%d", w.prefix, i, w.named[i]), Algorithm: rules.LeakyBucket, Rules: []rules.Rule{r}, Queue: true,
			Wait: rapid.SampledFrom([]time.Duration{0, 300 * time.Microsecond, time.Second, 5 * time.Second}).Draw(rt, "wait"),
			Cost: rapid.Int64Range(0, 4).Draw(rt, "cost"),
		})
	}
	if rapid.IntRange(0, 4).Draw(rt, "log") == 0 {
		requests = append(requests, store.Request{
			Key: w.prefix + "log", Rules: []rules.Rule{{Count: queueLog, Window: 24 * time.Hour}}, Cost: rapid.Int64Range(0, 4).Draw(rt, "cost"),
		})
	}
	return requests, queues
}

// ask is what the models answer.
func (w *queueWalk) ask(now int64, requests []store.Request, queues []int) (out store.Outcome) {
	out.Allowed = true
	for n, i := range queues {
		out.Rules = append(out.Rules, w.models[i].ask(now, requests[n]))
	}
	if len(requests) > len(queues) {
		answer := store.RuleOutcome{Remaining: w.left}
		if requests[len(queues)].Cost > w.left {
			answer.RetryAfter = 1
		}
		out.Rules = append(out.Rules, answer)
	}
	for _, r := range out.Rules {
		out.Allowed = out.Allowed && r.RetryAfter == 0
	}
	return out
}

func (w *queueWalk) take(rt *rapid.T) {
	now := w.subject.Clock.Now().UnixMicro()
	requests, queues := w.requests(rt)
	if len(requests) == 0 {
		return
	}
	out, err := store.Take(context.Background(), w.subject.Store, requests, true)
	if err != nil {
		rt.Fatalf("Take(%v): %v", requests, err)
	}
	want := w.ask(now, requests, queues)
	if out.Allowed != want.Allowed {
		rt.Fatalf("Take(%v) allowed = %v, want %v: %+v", requests, out.Allowed, want.Allowed, want.Rules)
	}
	w.charge(now, requests, queues, out)
	after := w.ask(now, requests, queues)
	for n := range out.Rules {
		got, expect := out.Rules[n], after.Rules[n]
		expect.Delay, expect.RetryAfter = 0, want.Rules[n].RetryAfter
		if want.Allowed {
			expect.Delay = want.Rules[n].Delay
		}
		if n == len(queues) { // the log's times are another test's
			got.ResetAfter, got.RetryAfter, expect.RetryAfter = 0, 0, 0
		}
		if got != expect {
			rt.Fatalf("Take(%v) rule %d = %+v, want %+v", requests, n, got, expect)
		}
	}
}

// charge charges the models what the store has.
func (w *queueWalk) charge(now int64, requests []store.Request, queues []int, out store.Outcome) {
	if !out.Allowed {
		return
	}
	r := queueReceipt{Receipt: out.Receipt, id: len(w.receipts), named: w.named}
	for n, i := range queues {
		if requests[n].Cost > 0 {
			w.models[i].charge(now, requests[n], r.id)
			r.queues = append(r.queues, i)
		}
	}
	if len(requests) > len(queues) {
		r.log = requests[len(queues)].Cost
		w.left -= r.log
	}
	w.receipts = append(w.receipts, r)
}

func (w *queueWalk) wait(rt *rapid.T) {
	step := rapid.SampledFrom([]time.Duration{
		time.Microsecond, 333333 * time.Microsecond, time.Second, 3 * time.Second, time.Minute, -time.Microsecond, -500 * time.Millisecond,
	}).Draw(rt, "step")
	for i := range w.models {
		if step < 0 && w.models[i].over(w.latest) {
			w.named[i]++
			w.models[i] = queueModel{}
		}
	}
	w.subject.Clock.Move(step)
	w.latest = max(w.latest, w.subject.Clock.Now().UnixMicro())
}

func (w *queueWalk) back(rt *rapid.T) {
	if len(w.receipts) == 0 {
		return
	}
	last := len(w.receipts) - 1
	r := &w.receipts[last-rapid.IntRange(0, min(3, last)).Draw(rt, "receipt")]
	for range 2 {
		if err := w.subject.Store.GiveBack(context.Background(), r.Receipt); err != nil {
			rt.Fatalf("GiveBack: %v", err)
		}
	}
	for _, i := range r.queues {
		if r.named[i] == w.named[i] {
			w.models[i].giveBack(w.subject.Clock.Now().UnixMicro(), r.id)
		}
	}
	w.left += r.log
	r.queues, r.log = nil, 0
}

// release is a call that was told when to go on, µs, and for how much.
type release struct {
	at, cost int64
	back     bool
}

// testQueueSpacing holds that calls go on as far apart as they cost, whatever was given back, and that what is denied passes at
// its retry-after and not 1 µs before.
func testQueueSpacing(t *testing.T, s Subject) {
	cases := 0
	s.check(t, 0, func(rt *rapid.T) {
		cases++
		req := store.Request{
			Key: fmt.Sprintf("%sspacing%d", s.Prefix, cases), Algorithm: rules.LeakyBucket, Queue: true,
			Rules: []rules.Rule{{
				Count:  rapid.Int64Range(1, 9).Draw(rt, "count"),
				Window: time.Duration(rapid.Int64Range(1000, 2_000_000).Draw(rt, "window")) * time.Microsecond,
			}},
			Wait: time.Duration(rapid.Int64Range(0, 3_000_000).Draw(rt, "wait")) * time.Microsecond,
		}
		var releases []release
		var receipts []store.Receipt
		for range rapid.IntRange(1, 25).Draw(rt, "calls") {
			s.Clock.Move(time.Duration(rapid.SampledFrom([]int64{0, 0, 1, 1000, 300_000}).Draw(rt, "step")) * time.Microsecond)
			req.Cost = rapid.Int64Range(1, req.Rules[0].Count).Draw(rt, "cost")
			out := s.queued(rt, req)
			if !out.Allowed {
				s.Clock.Move(out.Rules[0].RetryAfter - time.Microsecond)
				if early := s.queued(rt, req); early.Allowed || early.Rules[0].RetryAfter != time.Microsecond {
					rt.Fatalf("1µs before its retry-after of %v: %+v, want denied for 1µs", out.Rules[0].RetryAfter, early)
				}
				s.Clock.Move(time.Microsecond)
				if out = s.queued(rt, req); !out.Allowed || out.Rules[0].Delay != req.Wait {
					rt.Fatalf("at its retry-after: %+v, want allowed with a delay of %v", out, req.Wait)
				}
			}
			receipts = append(receipts, out.Receipt)
			releases = append(releases, release{at: s.Clock.Now().UnixMicro() + out.Rules[0].Delay.Microseconds(), cost: req.Cost})
			if rapid.IntRange(0, 3).Draw(rt, "back") == 0 {
				i := rapid.IntRange(0, len(receipts)-1).Draw(rt, "which")
				if err := s.Store.GiveBack(context.Background(), receipts[i]); err != nil {
					rt.Fatal(err)
				}
				releases[i].back = true
			}
		}
		checkSpacing(rt, req.Rules[0], releases)
	})
}

func (s Subject) queued(rt *rapid.T, req store.Request) store.Outcome {
	out, err := store.Take(context.Background(), s.Store, []store.Request{req}, false)
	if err != nil {
		rt.Fatalf("Take(%v): %v", req, err)
	}
	return out
}

// checkSpacing fails unless each call that was not given back goes on when those before it have drained, to the µs in
// which that is.
func checkSpacing(rt *rapid.T, r rules.Rule, releases []release) {
	releases = slices.DeleteFunc(releases, func(r release) bool { return r.back })
	slices.SortFunc(releases, func(a, b release) int { return cmp.Compare(a.at, b.at) })
	for first := range releases {
		cost := int64(0)
		for i := first + 1; i < len(releases); i++ {
			cost += releases[i-1].cost
			if apart, want := releases[i].at-releases[first].at, cost*r.Window.Microseconds()/r.Count; apart < want {
				rt.Fatalf("releases %d and %d of %v are %dµs apart, want %dµs or more: %v", first, i, r, apart, want, releases)
			}
		}
	}
}

// testQueueUnderConcurrency has many callers at once: as many pass as may wait, and no two go on within an hour.
func testQueueUnderConcurrency(t *testing.T, s Subject) {
	req := store.Request{
		Key: s.Prefix + "concurrent queue", Algorithm: rules.LeakyBucket, Rules: []rules.Rule{{Count: 1, Window: time.Hour}},
		Queue: true, Wait: 24 * time.Hour, Cost: 1,
	}
	var mu sync.Mutex
	slots := map[int64]int{} // by the hour from now
	each(32, 400, func(int) {
		out, err := store.Take(context.Background(), s.Store, []store.Request{req}, false)
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			t.Errorf("Take: %v", err)
		} else if out.Allowed {
			slots[int64((out.Rules[0].Delay+30*time.Minute)/time.Hour)]++
		}
	})
	for hour := range int64(25) {
		if slots[hour] != 1 {
			t.Errorf("%d calls go on in %d hours, want 1", slots[hour], hour)
		}
	}
	if len(slots) != 25 {
		t.Errorf("calls go on in %d hours, want 25", len(slots))
	}
}

// queueScenes runs law on drawn queues that have been called.
func queueScenes(law func(sc *scene)) func(t *testing.T, s Subject) {
	return func(t *testing.T, s Subject) {
		cases := 0
		s.check(t, 0, func(rt *rapid.T) {
			cases++
			s.Clock.Move(24 * time.Hour)
			sc := &scene{T: rt, subject: s, key: fmt.Sprintf("%squeue:%d", s.Prefix, cases), limit: rules.Limit{
				Kind: rules.Global, Algorithm: rules.LeakyBucket, Wait: rapid.SampledFrom(drawnWindows).Draw(rt, "wait"),
				Rules: []rules.Rule{{Count: rapid.Int64Range(1, 7).Draw(rt, "count"), Window: rapid.SampledFrom(drawnWindows).Draw(rt, "window")}},
			}}
			for range rapid.IntRange(0, 12).Draw(rt, "past") {
				sc.call(sc.drawCost())
				sc.wait()
			}
			law(sc)
		})
	}
}

// lawQueuePeek: a look says whether the call that follows it is let in, how long the line is behind which it waits, and, where it is denied, all
// that it is told; and it changes nothing.
func lawQueuePeek(sc *scene) {
	unseen := sc.twin("unseen")
	sc.reset()
	for range rapid.IntRange(1, 12).Draw(sc.T, "calls") {
		cost := sc.drawCost()
		seen := sc.peek(cost)
		sc.agree("a second look", sc.peek(cost), seen)
		out := sc.call(cost)
		sc.agree("a call behind a look", out, unseen.call(cost))
		if seen.Allowed != out.Allowed {
			sc.Fatalf("%v: Peek at %d says allowed %v, and Take %v", sc.limit, cost, seen.Allowed, out.Allowed)
		}
		if !out.Allowed {
			sc.agree("a look at what is denied", seen, out)
		} else if line := seen.Rules[0].ResetAfter; cost > 0 && line != out.Rules[0].Delay {
			sc.Fatalf("%v: Peek says that the line is gone in %v, and Take waits for %v", sc.limit, line, out.Rules[0].Delay)
		}
		sc.wait()
	}
}
