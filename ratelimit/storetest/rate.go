package storetest

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// charged is a cost that was let through at a time, µs.
type charged struct{ at, cost int64 }

// lawRate: however the calls are timed, no interval sees more than the variant's formula says, of any rule. The calls try to:
// they take all that they are told remains, come at the end of a retry-after, and a µs before it.
func lawRate(sc *scene) {
	var log []charged
	for range rapid.IntRange(1, 30).Draw(sc.T, "calls") {
		cost := sc.drawCost()
		if rapid.Bool().Draw(sc.T, "all") {
			cost = sc.leftNow()
		}
		if sc.call(cost).Allowed && cost > 0 {
			log = append(log, charged{sc.subject.Clock.Now().UnixMicro(), cost})
		}
		sc.wait()
	}
	for _, r := range sc.limit.Rules {
		for i := range log {
			sum := int64(0)
			for _, c := range log[i:] {
				sum += c.cost
				if span := c.at - log[i].at; sum > sc.variant.admits(&sc.limit, r, span) {
					sc.Fatalf("%v: %d passed within %dµs, want at most %d: %v", sc.limit, sum, span, sc.variant.admits(&sc.limit, r, span), log)
				}
			}
		}
	}
}

// leftNow is what remains of every rule.
func (sc *scene) leftNow() int64 {
	left := sc.call(0).Rules
	least := left[0].Remaining
	for _, r := range left {
		least = min(least, r.Remaining)
	}
	return least
}

// testRateIsReached: the formula is no larger than what passes at the best of times: the first interval of each length
// in which calls come whenever one may pass, a microsecond before a window of the clock ends.
func testRateIsReached(t *testing.T, s Subject) {
	forEach(func(t *testing.T, s Subject, v variant) {
		r := rules.Rule{Count: 10, Window: time.Second}
		l := v.must(t, r)
		for n, span := range []time.Duration{0, 2 * time.Microsecond, time.Second, 3 * time.Second} {
			if v.late > 0 && span >= r.Window {
				break
			}
			s.Clock.Move(24*time.Hour - s.Clock.Now().Sub(s.Clock.Now().Truncate(time.Second)) - time.Microsecond)
			// What the window before has seen does not count against the first of calls that begin a microsecond
			// before the next, but a window that begins with its first call has to begin earlier.
			key := string(rune('a' + n))
			warm := s.Clock.Now()
			req := v.request(t, s, "reached"+key, 1, r)
			if v.begins {
				s.take(t, req)
				s.Clock.Move(time.Second - time.Microsecond)
				warm = s.Clock.Now()
			}
			passed := int64(0)
			for {
				out := s.take(t, req)
				if out.Allowed {
					passed++
					continue
				}
				next := s.Clock.Now().Add(longestRetry(out))
				if next.Sub(warm) > span {
					break
				}
				s.Clock.Move(longestRetry(out))
			}
			want := v.admits(&l, r, span.Microseconds())
			if v.begins {
				want-- // the call that began the window
			}
			if passed != want {
				t.Errorf("%v: %d passed within %v, want %d, which is to be reached", l, passed, span, want)
			}
		}
	})(t, s)
}

// lawBackward: a clock that is set back never makes anything pass that would not have passed before, nor does its way
// forward again.
func lawBackward(sc *scene) {
	before := sc.call(0)
	back := rapid.SampledFrom([]time.Duration{
		time.Microsecond, 500 * time.Millisecond, time.Second, 3 * time.Second, time.Hour,
	}).Draw(sc.T, "back")
	sc.subject.Clock.Move(-back)
	check := func(when string, most []store.RuleOutcome) {
		for i, r := range sc.call(0).Rules {
			if r.Remaining > most[i].Remaining {
				sc.Fatalf("%v: rule %d: %d remaining %s, want at most %d as before", sc.limit, i, r.Remaining, when, most[i].Remaining)
			}
		}
	}
	check("once the clock is set back", before.Rules)
	cost := max(1, sc.drawCost())
	if out := sc.call(cost); out.Allowed {
		for i, r := range before.Rules {
			if cost > r.Remaining {
				sc.Fatalf("%v: rule %d: cost %d passes once the clock is set back by %v, with %d remaining before", sc.limit, i, cost, back, r.Remaining)
			}
		}
		check("after a call", out.Rules)
	}
	sc.subject.Clock.Move(back)
	check("once the clock is where it was", before.Rules)
}

// testDrift: polls at any rhythm, most of them denied, lose nothing. Where calls never leave a bucket full, it has let
// through what it held and gained; in windows, each has its count.
func testDrift(t *testing.T, s Subject) {
	forEach(func(t *testing.T, s Subject, v variant) {
		for _, poll := range []struct{ window, rhythm time.Duration }{
			{7 * time.Second, 900 * time.Millisecond},
			{7 * time.Second, 333333 * time.Microsecond},
			{70 * time.Millisecond, 1001 * time.Microsecond},
		} {
			rhythm, r := poll.rhythm, rules.Rule{Count: 7, Window: poll.window}
			req := v.request(t, s, rhythm.String(), 1, r)
			s.Clock.Move(24 * time.Hour)
			start, passed, polls := s.Clock.Now(), int64(0), int64(time.Duration(repeats(2, 5))*r.Window/rhythm)
			for range polls {
				for s.take(t, req).Allowed {
					passed++
				}
				s.Clock.Move(rhythm)
			}
			l := v.must(t, r)
			span := s.Clock.Now().Sub(start) - rhythm
			most := v.admits(&l, r, span.Microseconds())
			slowest := r.Window
			if v.late > 0 {
				slowest += r.Window / v.late
			}
			least := int64((span - rhythm) * 7 / slowest) // the rate, and what the last poll has missed
			if passed > most || passed < least {
				t.Errorf("%v polled every %v for %v: %d passed, want %d to %d", l, rhythm, span, passed, least, most)
			}
		}
	})(t, s)
}
