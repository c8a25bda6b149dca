package storetest

import (
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// stay is what was let through when so much time had passed, and may be given back.
type stay struct {
	charged
	out      store.Outcome
	setBacks int // of the clock, before
}

// lawSetBackRate: while the clock is set back now and then, calls are let through and some given back, no interval sees more of what is not given
// back than the variant's formula says, of any rule. Intervals are of the time that passes, which is never set back. Beyond the formula may be:
// of all but the sliding log, which knows its admissions by name, what was given back after the clock was set back behind its charge, for how much of
// that has come back by itself, or is another's, nobody knows then; and of windows of the clock, one more each time that the clock is set back, where the
// count of the one before is forgotten.
func lawSetBackRate(sc *scene) {
	var stays []stay
	var passed, unsure int64 // µs; cost
	setBacks := 0
	for range rapid.IntRange(1, 40).Draw(sc.T, "steps") {
		switch rapid.SampledFrom([]string{"take", "take", "take", "take", "give back", "set back"}).Draw(sc.T, "step") {
		case "take":
			cost := sc.drawCost()
			if rapid.Bool().Draw(sc.T, "all") {
				cost = sc.leftNow()
			}
			if out := sc.call(cost); out.Allowed && cost > 0 {
				stays = append(stays, stay{charged{passed, cost}, out, setBacks})
			}
		case "give back":
			if len(stays) > 0 {
				i := rapid.IntRange(0, len(stays)-1).Draw(sc.T, "which")
				sc.giveBack(stays[i].out)
				if sc.limit.Algorithm != rules.SlidingLog && stays[i].setBacks < setBacks {
					unsure += stays[i].cost
				}
				stays = slices.Delete(stays, i, i+1)
			}
		case "set back":
			sc.subject.Clock.Move(-rapid.SampledFrom([]time.Duration{
				time.Microsecond, 333333 * time.Microsecond, time.Second, 2 * time.Second, 5 * time.Second,
			}).Draw(sc.T, "back"))
			setBacks++
			continue
		}
		step := sc.drawStep()
		sc.subject.Clock.Move(step)
		passed += step.Microseconds()
	}
	for _, r := range sc.limit.Rules {
		beyond := unsure
		if sc.limit.Algorithm == rules.FixedWindow {
			beyond += r.Count * int64(setBacks)
		}
		sc.checkStays(r, stays, beyond)
	}
}

// checkStays fails if an interval sees more than the formula says of a rule, and so much beyond it.
func (sc *scene) checkStays(r rules.Rule, stays []stay, beyond int64) {
	sc.Helper()
	for i := range stays {
		sum := int64(0)
		for _, s := range stays[i:] {
			sum += s.cost
			if most := sc.variant.admits(&sc.limit, r, s.at-stays[i].at); sum > most+beyond {
				sc.Fatalf("%v: %d passed within %dµs, want at most %d, and %d beyond: %+v", sc.limit, sum, s.at-stays[i].at, most, beyond, stays)
			}
		}
	}
}
