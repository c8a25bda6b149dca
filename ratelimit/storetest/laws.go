package storetest

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// limitOf is a request of cost from rules, each a count within a window.
func (s Subject) limitOf(name string, cost int64, rs ...rules.Rule) store.Request {
	return store.Request{Key: s.Prefix + name, Rules: rs, Cost: cost}
}

// hourly is a rule that outlasts any test, so that the time does not matter.
func hourly(count int64) rules.Rule { return rules.Rule{Count: count, Window: time.Hour} }

// yearly is a rule that does so for windows of the clock, too.
func yearly(count int64) rules.Rule { return rules.Rule{Count: count, Window: 366 * 24 * time.Hour} }

func (s Subject) take(t *testing.T, requests ...store.Request) store.Outcome {
	t.Helper()
	out, err := store.Take(context.Background(), s.Store, requests, true)
	if err != nil {
		t.Fatalf("Take(%v): %v", requests, err)
	}
	return out
}

func (s Subject) giveBack(t *testing.T, out store.Outcome) {
	t.Helper()
	if err := s.Store.GiveBack(context.Background(), out.Receipt); err != nil {
		t.Fatalf("GiveBack(%v): %v", out.Receipt, err)
	}
}

// remaining asks what is left of a request's rules, and charges nothing.
func (s Subject) remaining(t *testing.T, req store.Request) []int64 {
	t.Helper()
	req.Cost = 0
	var left []int64
	for _, r := range s.take(t, req).Rules {
		left = append(left, r.Remaining)
	}
	return left
}

func testSameMicrosecond(t *testing.T, s Subject) {
	forEach(func(t *testing.T, s Subject, v variant) {
		const count = 100
		req, allowed := v.request(t, s, "same", 1, rules.Rule{Count: count, Window: 3 * time.Second}), int64(0)
		most := s.remaining(t, req)[0]
		for range most + 50 {
			if s.take(t, req).Allowed {
				allowed++
			}
		}
		if allowed != most || most < count {
			t.Errorf("%d calls in one microsecond allowed, want %d, as remained, and %d at least", allowed, most, count)
		}
	})(t, s)
}

// each calls f from callers goroutines, calls times in all.
func each(callers, calls int, f func(i int)) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(calls); i = next.Add(1) {
				f(int(i))
			}
		})
	}
	wg.Wait()
}

// testConcurrency asks from many callers: exactly what remains passes. A year is a window that no test lives to see end.
func testConcurrency(t *testing.T, s Subject) {
	forEach(func(t *testing.T, s Subject, v variant) {
		req := v.request(t, s, "concurrent", 1, yearly(100))
		most := s.remaining(t, req)[0]
		var allowed atomic.Int64
		each(64, 500, func(int) {
			out, err := store.Take(context.Background(), s.Store, []store.Request{req}, false)
			if err != nil {
				t.Errorf("Take: %v", err)
			} else if out.Allowed {
				allowed.Add(1)
			}
		})
		if allowed.Load() != most || most != 100 {
			t.Errorf("%d of 500 calls allowed, want exactly 100", allowed.Load())
		}
	})(t, s)
}

// Callers of several limits, each in another order: no limit admits more than its count, and in the end nothing is
// charged but what was allowed.
func testConcurrentLimits(t *testing.T, s Subject) {
	a, b, c := s.limitOf("a", 1, hourly(40)), s.limitOf("b", 2, hourly(100)), s.limitOf("c", 1, hourly(45))
	calls := [][]store.Request{{a, b}, {b, c}, {c, a}, {c, b, a}}
	var used [3]atomic.Int64
	each(16, 1000, func(i int) {
		requests := calls[i%len(calls)]
		out, err := store.Take(context.Background(), s.Store, requests, false)
		if err != nil {
			t.Errorf("Take: %v", err)
		}
		for _, req := range requests {
			if out.Allowed {
				used[slices.Index([]string{a.Key, b.Key, c.Key}, req.Key)].Add(req.Cost)
			}
		}
	})
	for i, req := range []store.Request{a, b, c} {
		if left, want := s.remaining(t, req)[0], req.Rules[0].Count-used[i].Load(); left != want || left < 0 {
			t.Errorf("limit %c: %d of %d admitted, %d remaining, want %d", 'a'+i, used[i].Load(), req.Rules[0].Count, left, want)
		}
	}
}

// ignoreTime leaves out of a comparison what changes as time passes.
var ignoreTime = cmpopts.IgnoreFields(store.RuleOutcome{}, "RetryAfter", "ResetAfter")

func testDenied(t *testing.T, s Subject) {
	rs := []rules.Rule{hourly(3), {Count: 10, Window: 24 * time.Hour}}
	s.take(t, s.limitOf("denied", 2, rs...))
	before := s.take(t, s.limitOf("denied", 0, rs...))
	for range 20 {
		if s.take(t, s.limitOf("denied", 2, rs...)).Allowed {
			t.Fatal("cost 2 allowed with 1 remaining")
		}
	}
	after := s.take(t, s.limitOf("denied", 0, rs...))
	if diff := cmp.Diff(before.Rules, after.Rules, ignoreTime); diff != "" {
		t.Errorf("20 denied calls have changed the state (-before +after):\n%s", diff)
	}
	for i := range after.Rules {
		if after.Rules[i].ResetAfter > before.Rules[i].ResetAfter {
			t.Errorf("rule %d: reset after %v, then %v after denied calls only", i, before.Rules[i].ResetAfter, after.Rules[i].ResetAfter)
		}
	}
	if !s.take(t, s.limitOf("denied", 1, rs...)).Allowed {
		t.Error("cost 1 denied with 1 remaining")
	}
}

func testAllOrNothing(t *testing.T, s Subject) {
	limits := []store.Request{s.limitOf("first", 1, hourly(5)), s.limitOf("second", 1, hourly(2), rules.Rule{Count: 9, Window: 2 * time.Hour}), s.limitOf("third", 2, hourly(50))}
	allowed := 0
	for i := range 12 {
		calls := slices.Clone(limits)
		if i%2 == 1 {
			slices.Reverse(calls)
		}
		if s.take(t, calls...).Allowed {
			allowed++
		}
	}
	if allowed != 2 {
		t.Errorf("%d calls allowed, want the 2 of the smallest count", allowed)
	}
	var left [][]int64
	for _, req := range limits {
		left = append(left, s.remaining(t, req))
	}
	if diff := cmp.Diff([][]int64{{3}, {0, 7}, {46}}, left); diff != "" {
		t.Errorf("remaining after 2 allowed and 10 denied calls (-want +got):\n%s", diff)
	}
}

func testGiveBack(t *testing.T, s Subject) {
	a, b := s.limitOf("a", 2, hourly(5)), s.limitOf("b", 1, hourly(5))
	first, second := s.take(t, a, b), s.take(t, a, b)
	for range 3 {
		s.giveBack(t, first)
	}
	if left := append(s.remaining(t, a), s.remaining(t, b)...); !slices.Equal(left, []int64{3, 4}) {
		t.Errorf("remaining after one of two calls is given back three times = %v, want [3 4]", left)
	}
	s.giveBack(t, second)
	if left := append(s.remaining(t, a), s.remaining(t, b)...); !slices.Equal(left, []int64{5, 5}) {
		t.Errorf("remaining after all is given back = %v, want [5 5]", left)
	}
}

func testZeroReceipt(t *testing.T, s Subject) {
	if err := s.Store.GiveBack(context.Background(), store.Receipt{}); err != nil {
		t.Errorf("GiveBack of the zero receipt = %v, want nil", err)
	}
}

func testPeek(t *testing.T, s Subject) {
	req := s.limitOf("peek", 0, hourly(1))
	for range 3 {
		if out := s.take(t, req); !out.Allowed || out.Rules[0].Remaining != 1 {
			t.Fatalf("Take of cost 0 = %+v, want allowed with 1 remaining", out)
		}
	}
	s.take(t, s.limitOf("peek", 1, hourly(1)))
	if out := s.take(t, req); !out.Allowed || out.Rules[0].Remaining != 0 {
		t.Errorf("Take of cost 0 from an empty limit = %+v, want allowed with 0 remaining", out)
	}
}

func testNever(t *testing.T, s Subject) {
	s.take(t, s.limitOf("never used", 1, hourly(5)))
	for _, cost := range []int64{6, 1 << 53, math.MaxInt64} {
		if out := s.take(t, s.limitOf("never used", cost, hourly(5))); out.Allowed || out.Rules[0].RetryAfter != store.Never || out.Rules[0].Remaining != 4 {
			t.Errorf("Take of %d where 4 of 5 remain = %+v, want denied for ever", cost, out)
		}
	}
	out := s.take(t, s.limitOf("never", 1<<62, hourly(5), rules.Rule{Count: 9, Window: 24 * time.Hour}))
	if out.Allowed || out.Rules[0].RetryAfter != store.Never || out.Rules[1].RetryAfter != store.Never {
		t.Errorf("Take of more than the count = %+v, want denied for ever", out)
	}
	if left := s.remaining(t, s.limitOf("never", 0, hourly(5))); left[0] != 5 {
		t.Errorf("%d remaining after a cost over the count, want 5", left[0])
	}
}

func testNoRequests(t *testing.T, s Subject) {
	if out := s.take(t); !out.Allowed || len(out.Rules) != 0 {
		t.Errorf("Take of nothing = %+v, want allowed", out)
	}
}

func testContext(t *testing.T, s Subject) {
	ctx, cancel := context.WithCancelCause(context.Background())
	cause := errors.New("the caller hung up")
	cancel(cause)
	req := s.limitOf("context", 1, hourly(5))
	if _, err := store.Take(ctx, s.Store, []store.Request{req}, false); !errors.Is(err, context.Canceled) || !errors.Is(err, cause) {
		t.Errorf("Take with a cancelled context = %v, want %v and its cause", err, context.Canceled)
	}
	if left := s.remaining(t, req); left[0] != 5 {
		t.Errorf("%d remaining after a call whose context was done, want 5", left[0])
	}
	out := s.take(t, req)
	if err := s.Store.GiveBack(ctx, out.Receipt); err != nil {
		t.Errorf("GiveBack of a call whose context is done = %v, want nil", err)
	}
	if left := s.remaining(t, req); left[0] != 5 {
		t.Errorf("%d remaining after a give-back with a done context, want 5", left[0])
	}
}

func testInvalid(t *testing.T, s Subject) {
	good := s.limitOf("good", 1, hourly(5))
	for name, bad := range map[string]store.Request{
		"negative cost":       s.limitOf("bad", -1, hourly(5)),
		"no rules":            s.limitOf("bad", 1),
		"no count":            s.limitOf("bad", 1, rules.Rule{Window: time.Hour}),
		"no window":           s.limitOf("bad", 1, rules.Rule{Count: 1}),
		"more than a year":    s.limitOf("bad", 1, rules.Rule{Count: 1, Window: store.MaxWindow + time.Microsecond}),
		"parts of a µs":       s.limitOf("bad", 1, rules.Rule{Count: 1, Window: time.Microsecond + 1}),
		"the same key":        good,
		"a ban after nothing": {Key: s.Prefix + "bad", Rules: good.Rules, Cost: 1, Ban: time.Hour},
		"after, and no ban":   {Key: s.Prefix + "bad", Rules: good.Rules, Cost: 1, After: 3},
		"unknown algorithm":   {Key: s.Prefix + "bad", Rules: good.Rules, Cost: 1, Algorithm: 255},
	} {
		_, err := store.Take(context.Background(), s.Store, []store.Request{good, bad}, false)
		var failed *store.Error
		if !errors.As(err, &failed) || failed.Class != store.Misconfigured {
			t.Errorf("%s: Take error = %v, want one of class %v", name, err, store.Misconfigured)
		} else if strings.Contains(err.Error(), good.Key) {
			t.Errorf("%s: the error %q has the key, which holds an id", name, err)
		}
	}
	if left := s.remaining(t, good); left[0] != 5 {
		t.Errorf("%d remaining after invalid calls, want 5", left[0])
	}
}
