package storetest

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// aheads are the times by which the tests take permits ahead, all of them shorter than the windows.
var aheads = []time.Duration{0, time.Microsecond, 12345 * time.Microsecond, 40 * time.Millisecond, 60 * time.Millisecond}

// aheadScenes runs law on drawn limits of the variants whose permits may be taken ahead.
func aheadScenes(law func(sc *scene)) func(t *testing.T, s Subject) {
	return scenes(func(sc *scene) {
		if sc.limit.Algorithm != rules.FixedWindow && sc.limit.Refill != rules.RefillInterval {
			law(sc)
		}
	})
}

// takeAhead asks the scene's limit for cost, to be used within ahead.
func (sc *scene) takeAhead(cost int64, ahead time.Duration) store.Outcome {
	sc.Helper()
	req := sc.request(cost)
	req.Ahead = ahead
	out := sc.take(req)
	sc.retry = 0
	if r := longestRetry(out); r != store.Never {
		sc.retry = r
	}
	return out
}

// stock is what was taken at a time, to be used until another, µs: some at once, some later, some given back.
type stock struct {
	out          store.Outcome
	until        int64
	left, unused int64 // to be used yet, or given back; and given back
}

// lawAhead: permits that are taken ahead and used whenever they may be, beside others that are taken at once, never let more through than the variant's
// formula says, of any rule, in any interval; nor if those that are not used are given back, in part or all.
func lawAhead(sc *scene) {
	var stocks []*stock
	var log []charged
	use := func(s *stock, n int64) {
		for range n {
			log = append(log, charged{sc.subject.Clock.Now().UnixMicro(), 1})
		}
		s.left -= n
	}
	// settle uses, at its last moment, what is left of stocks whose time will have passed in d.
	settle := func(d time.Duration) {
		now := sc.subject.Clock.Now().UnixMicro()
		for _, s := range stocks {
			if s.left > 0 && s.until < now+d.Microseconds() {
				for range s.left {
					log = append(log, charged{s.until, 1})
				}
				s.left = 0
			}
		}
	}
	for range rapid.IntRange(1, 30).Draw(sc.T, "steps") {
		switch rapid.SampledFrom([]string{"take", "take", "take", "use", "give back"}).Draw(sc.T, "step") {
		case "take":
			cost, ahead := sc.drawCost(), rapid.SampledFrom(aheads).Draw(sc.T, "ahead")
			if rapid.Bool().Draw(sc.T, "all") {
				cost = sc.leftNow()
			}
			if out := sc.takeAhead(cost, ahead); out.Allowed && cost > 0 {
				s := &stock{out: out, until: sc.subject.Clock.Now().Add(ahead).UnixMicro(), left: cost}
				stocks = append(stocks, s)
				if ahead == 0 {
					use(s, rapid.Int64Range(0, cost).Draw(sc.T, "used at once"))
				}
			}
		case "use":
			for _, s := range stocks {
				use(s, rapid.Int64Range(0, s.left).Draw(sc.T, "used"))
			}
		case "give back":
			if len(stocks) > 0 {
				s := stocks[rapid.IntRange(0, len(stocks)-1).Draw(sc.T, "which")]
				if unused := rapid.Int64Range(0, s.left).Draw(sc.T, "unused"); unused > 0 && s.unused == 0 {
					s.left, s.unused = s.left-unused, unused
					sc.giveBack(store.Outcome{Receipt: s.out.Receipt.Some(0, unused)})
				}
			}
		}
		step := max(0, sc.drawStep())
		if rapid.Bool().Draw(sc.T, "soon") {
			step = rapid.SampledFrom(aheads).Draw(sc.T, "soon step")
		}
		settle(step)
		sc.subject.Clock.Move(step)
	}
	settle(time.Hour)
	slices.SortFunc(log, func(a, b charged) int { return int(a.at - b.at) })
	for _, r := range sc.limit.Rules {
		for i := range log {
			for j := i; j < len(log); j++ {
				span := log[j].at - log[i].at
				if n, most := int64(j-i+1), sc.variant.admits(&sc.limit, r, span); n > most {
					sc.Fatalf("%v: %d were used within %dµs, want at most %d: %v", sc.limit, n, span, most, log)
				}
			}
		}
	}
}

// lawAheadIsAsked: whether there is room for what is taken ahead is asked as of now, and so is what else is said of it: the answers are those
// of a call that takes nothing ahead, until something has been taken ahead.
func lawAheadIsAsked(sc *scene) {
	for range rapid.IntRange(0, 8).Draw(sc.T, "past") {
		sc.takeAhead(sc.drawCost(), rapid.SampledFrom(aheads).Draw(sc.T, "ahead"))
		sc.wait()
	}
	for _, cost := range []int64{0, sc.leftNow() + 1, sc.smallest(), sc.smallest() + 1} {
		plain := sc.takeAhead(cost, 0)
		if plain.Allowed {
			sc.giveBack(plain)
			continue
		}
		ahead := sc.takeAhead(cost, rapid.SampledFrom(aheads).Draw(sc.T, "ahead"))
		if diff := cmp.Diff(plain.Rules, ahead.Rules); diff != "" {
			sc.Fatalf("%v: cost %d is denied otherwise when it is taken ahead (-at once +ahead):\n%s", sc.limit, cost, diff)
		}
	}
}

// lawAheadRetry: what is told of the time until a call passes and until all is free is true to the microsecond where permits were taken ahead.
func lawAheadRetry(sc *scene) {
	for range rapid.IntRange(1, 8).Draw(sc.T, "past") {
		sc.takeAhead(sc.drawCost(), rapid.SampledFrom(aheads).Draw(sc.T, "ahead"))
		sc.subject.Clock.Move(rapid.SampledFrom(aheads).Draw(sc.T, "step"))
	}
	left := sc.leftNow()
	if left < sc.smallest() {
		out := sc.call(left + 1)
		if out.Allowed {
			sc.Fatalf("%v: cost %d is allowed where %d remain", sc.limit, left+1, left)
		}
		sc.subject.Clock.Move(longestRetry(out) - time.Microsecond)
		if again := sc.call(left + 1); again.Allowed || longestRetry(again) != time.Microsecond {
			sc.Fatalf("%v: cost %d is answered %+v 1µs before its retry-after, want it denied for 1µs", sc.limit, left+1, again)
		}
		sc.subject.Clock.Move(time.Microsecond)
		if again := sc.call(left + 1); !again.Allowed {
			sc.Fatalf("%v: cost %d is answered %+v after its retry-after, want it allowed", sc.limit, left+1, again)
		}
	}
	var reset time.Duration
	for _, r := range sc.call(0).Rules {
		reset = max(reset, r.ResetAfter)
	}
	sc.subject.Clock.Move(reset)
	if left := sc.leftNow(); left != sc.smallest() {
		sc.Fatalf("%v: %d remain after the reset, want %d", sc.limit, left, sc.smallest())
	}
}

// lawAheadBackward: a clock that is set back makes nothing pass, with permits taken ahead as without.
func lawAheadBackward(sc *scene) {
	for range rapid.IntRange(1, 8).Draw(sc.T, "past") {
		sc.takeAhead(sc.drawCost(), rapid.SampledFrom(aheads).Draw(sc.T, "ahead"))
		sc.subject.Clock.Move(rapid.SampledFrom(aheads).Draw(sc.T, "step"))
	}
	lawBackward(sc)
}

// lawAheadGivenBack: of a log and of sub-windows, what is taken ahead and given back was never there.
func lawAheadGivenBack(sc *scene) {
	if sc.variant.forgets {
		return
	}
	sc.call(sc.drawCost())
	sc.takeAhead(1, 0)
	before := sc.call(0)
	cost := sc.leftNow()
	out := sc.takeAhead(cost, rapid.SampledFrom(aheads).Draw(sc.T, "ahead"))
	if cost == 0 || !out.Allowed {
		return
	}
	part := rapid.Int64Range(1, cost).Draw(sc.T, "part")
	first := rapid.Int64Range(0, part).Draw(sc.T, "first part")
	if first > 0 {
		sc.giveBack(store.Outcome{Receipt: out.Receipt.Some(0, first)})
	}
	if first < part {
		sc.giveBack(store.Outcome{Receipt: out.Receipt.Some(first, part-first)})
	}
	if left := sc.leftNow(); left != part {
		sc.Fatalf("%v: %d remain after %d of %d are given back, want as many", sc.limit, left, part, cost)
	}
	if part == cost {
		sc.agree("after all is given back", sc.call(0), before)
	}
}

// testAheadOfBuckets: what is taken ahead is missing as if it were taken at its time, to the microsecond, and what was charged before
// gives back no more than it would have by then.
func testAheadOfBuckets(t *testing.T, s Subject) {
	for _, algorithm := range buckets {
		take := func(name string, count, cost int64, ahead, reset time.Duration) store.Outcome {
			t.Helper()
			out := s.take(t, store.Request{
				Key: s.Prefix + name + algorithm.String(), Algorithm: algorithm, Rules: []rules.Rule{{Count: count, Window: time.Second}}, Cost: cost, Ahead: ahead,
			})
			if !out.Allowed || out.Rules[0].ResetAfter != reset {
				t.Errorf("%v: Take of %d of %d in 1s, %v ahead = %+v, want it allowed, and all there in %v", algorithm, cost, count, ahead, out, reset)
			}
			return out
		}
		take("fraction", 3, 1, 0, micros(333334))
		take("fraction", 3, 1, micros(333334), micros(2*333334)) // of the first, nothing is missing by then

		first := take("back", 10, 7, 0, 700*time.Millisecond)
		take("back", 10, 1, 500*time.Millisecond, 800*time.Millisecond)
		take("back", 10, 1, 300*time.Millisecond, 900*time.Millisecond)
		s.giveBack(t, first)
		take("back", 10, 0, 0, 700*time.Millisecond) // 5 of the 7 have come back by the latest of these times
	}
}

// testAheadOfSubwindows: what is taken ahead leaves all that counts now as it is, in sub-windows too that are older than a window by then.
func testAheadOfSubwindows(t *testing.T, s Subject) {
	req := store.Request{
		Key: s.Prefix + "ahead", Algorithm: rules.SlidingWindow, Segments: 3, Rules: []rules.Rule{{Count: 20, Window: 3 * time.Second}}, Cost: 1,
	}
	s.Clock.Move(time.Minute - time.Duration(s.Clock.Now().UnixNano())%time.Minute)
	left := int64(20)
	for second, ahead := range []time.Duration{0, 0, 0, 3 * time.Second} {
		req.Ahead = ahead
		for range second + 1 {
			left--
			if out := s.take(t, req); !out.Allowed || out.Rules[0].Remaining != left {
				t.Errorf("in second %d, %v ahead: %+v, want %d remaining", second, ahead, out, left)
			}
		}
		s.Clock.Move(time.Second)
	}
	req.Ahead = 0
	for second, left := range []int64{20 - 9, 20 - 7, 20 - 4, 20 - 4, 20 - 4, 20 - 4, 20} {
		if got := s.remaining(t, req)[0]; got != left {
			t.Errorf("%d seconds after a sub-window was taken ahead, %d remain, want %d", second+1, got, left)
		}
		s.Clock.Move(time.Second)
	}
}

// testInvalidAhead holds that stores refuse what would let too much through.
func testInvalidAhead(t *testing.T, s Subject) {
	rs := []rules.Rule{{Count: 5, Window: time.Second}}
	for _, req := range []store.Request{
		{Rules: rs, Ahead: -1},
		{Rules: rs, Ahead: time.Microsecond + 1},
		{Rules: rs, Ahead: time.Second + time.Microsecond},
		{Rules: []rules.Rule{hourly(5)}, Ahead: store.MaxAhead + time.Microsecond},
		{Rules: rs, Ahead: time.Millisecond, Algorithm: rules.FixedWindow},
		{Rules: rs, Ahead: time.Millisecond, Algorithm: rules.TokenBucket, Refill: rules.RefillInterval},
		{Rules: rs, Ahead: time.Millisecond, Algorithm: rules.LeakyBucket, Queue: true},
	} {
		req.Key, req.Cost = s.Prefix+"ahead", 1
		var failed *store.Error
		_, err := store.Take(t.Context(), s.Store, []store.Request{req}, false)
		if !errors.As(err, &failed) || failed.Class != store.Misconfigured {
			t.Errorf("Take(%+v) = %v, want an error of class %v", req, err, store.Misconfigured)
		}
	}
}
