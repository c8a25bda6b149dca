package storetest

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// scene is one drawn limit of a variant in a store, under a key of its own.
type scene struct {
	*rapid.T
	subject Subject
	variant variant
	limit   rules.Limit
	key     string
	retry   time.Duration // of the last call, if it was denied for a time
}

// scenes runs law on drawn limits of a variant.
func scenes(law func(sc *scene)) func(t *testing.T, s Subject) {
	return forEach(func(t *testing.T, s Subject, v variant) {
		cases := 0
		s.check(t, v.checks(), func(rt *rapid.T) {
			cases++
			s.Clock.Move(24 * time.Hour)
			law(&scene{T: rt, subject: s, variant: v, limit: v.draw(rt), key: fmt.Sprintf("%s%s:%d", s.Prefix, v.options, cases)})
		})
	})
}

// checks is the most cases of a law for the variant: fewer of buckets by another name, and 0, for as many as the flag says,
// if it is set.
func (v variant) checks() int {
	if checks := flag.Lookup("rapid.checks"); checks.Value.String() != checks.DefValue {
		return 0
	}
	if v.sameAs != "" && v.burst {
		return 12
	}
	return 30
}

// check checks prop as [rapid.Check] does, on at most so many cases if most is not 0. It changes no flag, so that tests
// can run in parallel.
func (s Subject) check(t *testing.T, most int, prop func(*rapid.T)) {
	t.Helper()
	if s.Cases > 0 && (most == 0 || most > s.Cases) {
		most = s.Cases
	}
	cases, failed := 0, false
	rapid.Check(t, func(rt *rapid.T) {
		if cases++; most > 0 && cases > most && !failed { // a case that fails is repeated in order to shrink it
			return
		}
		ended := false
		defer func() { failed = failed || !ended || rt.Failed() }()
		prop(rt)
		ended = true
	})
}

// pasts runs law on drawn limits of a variant that have been called, moments ago and longer.
func pasts(law func(sc *scene)) func(t *testing.T, s Subject) {
	return scenes(func(sc *scene) {
		for range rapid.IntRange(0, 12).Draw(sc.T, "past") {
			sc.call(sc.drawCost())
			sc.wait()
		}
		law(sc)
	})
}

func (sc *scene) request(cost int64) store.Request {
	return store.NewRequest(&sc.limit, sc.key, cost)
}

func (sc *scene) take(requests ...store.Request) store.Outcome {
	sc.Helper()
	out, err := store.Take(context.Background(), sc.subject.Store, requests, true)
	if err != nil {
		sc.Fatalf("Take(%v): %v", requests, err)
	}
	return out
}

// call asks the scene's limit for cost.
func (sc *scene) call(cost int64) store.Outcome {
	sc.Helper()
	out := sc.take(sc.request(cost))
	sc.retry = 0
	if r := longestRetry(out); r != store.Never {
		sc.retry = r
	}
	return out
}

func (sc *scene) giveBack(out store.Outcome) {
	sc.Helper()
	if err := sc.subject.Store.GiveBack(context.Background(), out.Receipt); err != nil {
		sc.Fatalf("GiveBack: %v", err)
	}
}

// twin is a scene of the same limit under another key.
func (sc *scene) twin(name string) *scene {
	other := *sc
	other.key += name
	return &other
}

func (sc *scene) drawCost() int64 {
	return rapid.SampledFrom([]int64{1, 1, 1, 2, 0, 2, 3, 4}).Draw(sc.T, "cost")
}

// smallest is the largest cost that every rule may allow.
func (sc *scene) smallest() int64 {
	least := sc.limit.Capacity(sc.limit.Rules[0])
	for _, r := range sc.limit.Rules {
		least = min(least, sc.limit.Capacity(r))
	}
	return least
}

// drawStep draws how long nothing happens: often until something may pass again, or a µs less.
func (sc *scene) drawStep() time.Duration {
	step := rapid.SampledFrom([]time.Duration{
		-2, -1, 0, time.Microsecond, 7 * time.Millisecond, 142858 * time.Microsecond, 333333 * time.Microsecond,
		time.Second - time.Microsecond, time.Second, 2 * time.Second, 5 * time.Second,
	}).Draw(sc.T, "step")
	switch step {
	case -2:
		return sc.retry
	case -1:
		return max(0, sc.retry-time.Microsecond)
	}
	return step
}

func (sc *scene) wait() { sc.subject.Clock.Move(sc.drawStep()) }

func longestRetry(out store.Outcome) (longest time.Duration) {
	for _, r := range out.Rules {
		longest = max(longest, r.RetryAfter)
	}
	return longest
}

// agree fails unless two calls have the same answer.
func (sc *scene) agree(what string, got, want store.Outcome) {
	sc.Helper()
	if got.Allowed != want.Allowed || !slices.Equal(got.Rules, want.Rules) {
		sc.Fatalf("%v: %s (-want +got):\n%s", sc.limit, what, cmp.Diff([]any{want.Allowed, want.Rules}, []any{got.Allowed, got.Rules}))
	}
}
