package storetest

import (
	"slices"
	"time"

	"github.com/rlgen/rlgen/ratelimit/store"
)

// lawRetryAfter: a denied cost is denied until its retry-after has passed, and passes then; each rule's own counts
// down to the µs meanwhile. No waiting helps where, and only where, a rule has no capacity for the cost.
func lawRetryAfter(sc *scene) {
	cost := max(1, sc.drawCost())
	out := sc.call(cost)
	for i, r := range sc.limit.Rules {
		if never := cost > sc.limit.Capacity(r); never != (out.Rules[i].RetryAfter == store.Never) {
			sc.Fatalf("%v: cost %d, rule %d: retry after %v, want never = %v", sc.limit, cost, i, out.Rules[i].RetryAfter, never)
		}
	}
	if out.Allowed != (longestRetry(out) == 0) {
		sc.Fatalf("%v: cost %d: %+v, want a retry after if denied, and none if not", sc.limit, cost, out)
	}
	var moments []time.Duration
	for _, r := range out.Rules {
		if r.RetryAfter != store.Never && r.RetryAfter > 0 {
			moments = append(moments, r.RetryAfter-time.Microsecond, r.RetryAfter)
		}
	}
	slices.Sort(moments)
	passed := time.Duration(0)
	for _, at := range slices.Compact(moments) {
		sc.subject.Clock.Move(at - passed)
		passed = at
		seen := sc.call(0)
		for i, r := range out.Rules {
			if passes := r.RetryAfter <= at; passes != (seen.Rules[i].Remaining >= cost) {
				sc.Fatalf("%v: cost %d, rule %d: retry after %v, and %d remain %v later", sc.limit, cost, i, r.RetryAfter, seen.Rules[i].Remaining, at)
			}
		}
		later := sc.call(cost)
		if later.Allowed != (longestRetry(out) == at) {
			sc.Fatalf("%v: cost %d, denied with a retry after %v, is allowed = %v after %v", sc.limit, cost, longestRetry(out), later.Allowed, at)
		}
		for i, r := range out.Rules {
			want := max(0, r.RetryAfter-at)
			if r.RetryAfter == store.Never {
				want = store.Never
			}
			if later.Rules[i].RetryAfter != want {
				sc.Fatalf("%v: cost %d, rule %d: retry after %v, and %v later %v, want %v", sc.limit, cost, i, r.RetryAfter, at, later.Rules[i].RetryAfter, want)
			}
		}
	}
}

// lawRemaining: what remains of a rule passes it now, and one more does not.
func lawRemaining(sc *scene) {
	for i, r := range sc.call(0).Rules {
		if most := sc.limit.Capacity(sc.limit.Rules[i]); r.Remaining < 0 || r.Remaining > most {
			sc.Fatalf("%v: rule %d: %d remaining, want 0 to %d", sc.limit, i, r.Remaining, most)
		}
		for _, cost := range []int64{r.Remaining, r.Remaining + 1} {
			if cost == 0 {
				continue
			}
			out := sc.call(cost)
			if passes := out.Rules[i].RetryAfter == 0; passes != (cost == r.Remaining) {
				sc.Fatalf("%v: rule %d: cost %d passes = %v, with %d remaining", sc.limit, i, cost, passes, r.Remaining)
			}
			if out.Allowed {
				sc.giveBack(out)
			}
		}
	}
}

// lawResetAfter: a rule has all of its count again after its reset-after, and not a µs before. What remains never
// shrinks as time passes.
func lawResetAfter(sc *scene) {
	first := sc.call(0)
	var moments []time.Duration
	for i, r := range first.Rules {
		if full := r.Remaining == sc.limit.Capacity(sc.limit.Rules[i]); full != (r.ResetAfter == 0) || r.ResetAfter < 0 {
			sc.Fatalf("%v: rule %d: %d remaining and a reset after %v, want 0s if, and only if, all remains", sc.limit, i, r.Remaining, r.ResetAfter)
		}
		if r.ResetAfter > 0 {
			moments = append(moments, r.ResetAfter-time.Microsecond, r.ResetAfter)
		}
	}
	slices.Sort(moments)
	passed, before := time.Duration(0), first
	for _, at := range slices.Compact(moments) {
		sc.subject.Clock.Move(at - passed)
		passed = at
		later := sc.call(0)
		for i, r := range first.Rules {
			if want := max(0, r.ResetAfter-at); later.Rules[i].ResetAfter != want {
				sc.Fatalf("%v: rule %d: reset after %v, and %v later %v, want %v", sc.limit, i, r.ResetAfter, at, later.Rules[i].ResetAfter, want)
			}
			if later.Rules[i].Remaining < before.Rules[i].Remaining {
				sc.Fatalf("%v: rule %d: %d remaining, and later %d", sc.limit, i, before.Rules[i].Remaining, later.Rules[i].Remaining)
			}
		}
		before = later
	}
}
