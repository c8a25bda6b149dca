package storetest

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// inFlight is a call that may yet give back what it was charged.
type inFlight struct {
	out store.Outcome
	charged
}

// soon are steps in which some of what was charged comes back by itself, and some does not.
var soon = []time.Duration{0, 0, time.Microsecond, 7 * time.Millisecond, 20 * time.Millisecond, 142858 * time.Microsecond, 333333 * time.Microsecond, time.Second}

// lawKept: whatever is given back, in any order, of calls that overlap, those that are not given back keep the rate, of any rule, in any interval.
func lawKept(sc *scene) {
	var flying []inFlight
	var kept []charged
	for range rapid.IntRange(1, 60).Draw(sc.T, "steps") {
		if n := len(flying); n > 0 && rapid.IntRange(0, 2).Draw(sc.T, "ends") == 0 {
			i := rapid.IntRange(0, n-1).Draw(sc.T, "which")
			f := flying[i]
			flying = append(flying[:i], flying[i+1:]...)
			if rapid.IntRange(0, 3).Draw(sc.T, "is kept") > 0 {
				sc.giveBack(f.out)
			} else {
				kept = append(kept, f.charged)
			}
		} else {
			cost := max(1, sc.drawCost())
			if rapid.IntRange(0, 3).Draw(sc.T, "all") == 0 {
				cost = max(1, sc.leftNow())
			}
			if out := sc.call(cost); out.Allowed {
				flying = append(flying, inFlight{out, charged{sc.subject.Clock.Now().UnixMicro(), cost}})
			}
		}
		sc.subject.Clock.Move(rapid.SampledFrom(soon).Draw(sc.T, "step"))
	}
	for _, f := range flying {
		kept = append(kept, f.charged)
	}
	for _, r := range sc.limit.Rules {
		for _, first := range kept {
			for _, last := range kept {
				sum, span := int64(0), last.at-first.at
				for _, c := range kept {
					if c.at >= first.at && c.at <= last.at {
						sum += c.cost
					}
				}
				if most := sc.variant.admits(&sc.limit, r, max(0, span)); sum > most {
					sc.Fatalf("%v: %d were kept within %dµs, want at most %d: %v", sc.limit, sum, span, most, kept)
				}
			}
		}
	}
}

// lawInFlight: calls that are all given back are never denied while those in flight fit, if they end in the order in which they
// began, or in the other; if they end in any order, while those in flight fit twice. Then all remains that there ever is.
func lawInFlight(sc *scene) {
	if sc.variant.forgets && !sc.variant.returns {
		return
	}
	order := rapid.SampledFrom([]string{"first in, first out", "last in, first out", "any"}).Draw(sc.T, "order")
	most, inRounds := sc.smallest(), false
	if order == "any" {
		most, inRounds = most/2, sc.variant.forgets
	}
	var flying []inFlight
	total, ending := int64(0), false
	end := func() {
		i := 0
		switch order {
		case "last in, first out":
			i = len(flying) - 1
		case "any":
			i = rapid.IntRange(0, len(flying)-1).Draw(sc.T, "which")
		}
		sc.giveBack(flying[i].out)
		total -= flying[i].cost
		flying = append(flying[:i], flying[i+1:]...)
	}
	for range rapid.IntRange(1, 60).Draw(sc.T, "steps") {
		cost := rapid.Int64Range(1, 2).Draw(sc.T, "cost")
		ends := total+cost > most || rapid.Bool().Draw(sc.T, "ends")
		if ending = len(flying) > 0 && (ends || ending && inRounds); ending {
			end()
		} else if total+cost <= most {
			out := sc.call(cost)
			if !out.Allowed {
				sc.Fatalf("%v: a call of cost %d is denied beside %d in flight, %s: %+v", sc.limit, cost, total, order, out)
			}
			flying = append(flying, inFlight{out, charged{0, cost}})
			total += cost
		}
		sc.subject.Clock.Move(rapid.SampledFrom(soon).Draw(sc.T, "step"))
	}
	for len(flying) > 0 {
		end()
	}
	if left := sc.leftNow(); order != "any" && left != sc.smallest() {
		sc.Fatalf("%v: %d remain once all is given back, %s, want %d", sc.limit, left, order, sc.smallest())
	}
}

// testOnlySuccesses: a limit that is charged by errors alone denies none of calls that all succeed, however many, some of them at once.
func testOnlySuccesses(t *testing.T, s Subject) {
	forEach(func(t *testing.T, s Subject, v variant) {
		if v.forgets && !v.returns {
			return // what overlaps is forgotten
		}
		for _, test := range []struct {
			name       string
			rule       rules.Rule
			atOnce     int
			step, last time.Duration
		}{
			{"busy", rules.Rule{Count: 20, Window: 2 * time.Second}, 6, 0, 100 * time.Millisecond},
			{"rare", rules.Rule{Count: 5, Window: 15 * time.Minute}, 3, 10 * time.Millisecond, 100 * time.Millisecond},
		} {
			req := v.request(t, s, test.name, 1, test.rule)
			s.Clock.Move(24 * time.Hour)
			for round := range repeats(15, 60) {
				var calls []store.Outcome
				for range test.atOnce {
					calls = append(calls, s.take(t, req))
					s.Clock.Move(test.step)
				}
				s.Clock.Move(test.last)
				for i, out := range calls {
					if !out.Allowed {
						t.Fatalf("%s, round %d: call %d of %d at once is denied: %+v", test.name, round, i, test.atOnce, out)
					}
					s.giveBack(t, out)
					s.Clock.Move(test.step)
				}
			}
		}
	})(t, s)
}

// testGiveBackAcrossCounts: of what was charged by one count, before another version of a service has charged by another, no more is given back than has not
// had the time to come back.
func testGiveBackAcrossCounts(t *testing.T, s Subject) {
	for _, algorithm := range buckets {
		by := func(count, cost int64) store.Request {
			return store.Request{
				Key: s.Prefix + "counts" + algorithm.String(), Algorithm: algorithm, Rules: []rules.Rule{{Count: count, Window: time.Second}}, Burst: 20, Cost: cost, Returns: true,
			}
		}
		first := s.take(t, by(10, 1))
		s.Clock.Move(50 * time.Millisecond)
		s.take(t, by(1, 5))
		s.Clock.Move(100 * time.Millisecond)
		s.giveBack(t, first)
		if out, want := s.take(t, by(1, 0)), 4950*time.Millisecond; out.Rules[0].ResetAfter != want {
			t.Errorf("%v: all is there in %v once a call is given back that has come back by itself, want %v", algorithm, out.Rules[0].ResetAfter, want)
		}
	}
}
