package storetest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

func (sc *scene) reset() {
	sc.Helper()
	if err := sc.subject.Store.Reset(context.Background(), []store.Request{sc.request(1)}); err != nil {
		sc.Fatalf("Reset: %v", err)
	}
}

// lawReset: a key that has been reset, once or twice, is one that has never been called. Other keys are what they were.
func lawReset(sc *scene) {
	fresh, other, same := sc.twin("fresh"), sc.twin("other"), sc.twin("same")
	for range rapid.IntRange(0, 4).Draw(sc.T, "others") {
		cost := sc.drawCost()
		sc.agree("twins", other.call(cost), same.call(cost))
	}
	for range rapid.IntRange(1, 2).Draw(sc.T, "times") {
		sc.reset()
	}
	sc.agree("another key", other.call(0), same.call(0))
	for range rapid.IntRange(1, 8).Draw(sc.T, "calls") {
		cost := sc.drawCost()
		sc.agree("after a reset, as if never called", sc.call(cost), fresh.call(cost))
		sc.wait()
	}
}

// lawResetGiveBack: what was charged before a reset and is given back after it is nothing to a log, and elsewhere at most the cost of
// the call that it was charged for.
func lawResetGiveBack(sc *scene) {
	without := sc.twin("without")
	cost := rapid.Int64Range(1, 3).Draw(sc.T, "cost")
	out := sc.call(cost)
	if !out.Allowed {
		return
	}
	sc.reset()
	if sc.limit.Algorithm == rules.CompactLog {
		sc.subject.Clock.Move(time.Microsecond) // what is charged in the same one is the same to it
	}
	for range rapid.IntRange(0, 4).Draw(sc.T, "calls") {
		sc.wait()
		next := sc.drawCost()
		sc.agree("after a reset, as if never called", sc.call(next), without.call(next))
	}
	for range rapid.IntRange(1, 2).Draw(sc.T, "times") {
		sc.giveBack(out)
	}
	got, want := sc.call(0), without.call(0)
	if sc.limit.Algorithm.Logs() {
		sc.agree("what was reset given back to a log, as if not", got, want)
	}
	for i, r := range want.Rules {
		most := min(r.Remaining+cost, sc.limit.Capacity(sc.limit.Rules[i]))
		if left := got.Rules[i].Remaining; left < r.Remaining || left > most {
			sc.Fatalf("%v: rule %d: %d remaining once %d is given back that was reset, want %d to %d", sc.limit, i, left, cost, r.Remaining, most)
		}
	}
}

// testResetUnderConcurrency resets a key while many call: no more than the count passes before it, and no more after it, whenever that
// is.
func testResetUnderConcurrency(t *testing.T, s Subject) {
	forEach(func(t *testing.T, s Subject, v variant) {
		const count = 30
		req := v.request(t, s, "reset", 1, yearly(count))
		allowed := make([]int64, 101)
		each(8, 100, func(i int) {
			if i == 50 {
				if err := s.Store.Reset(context.Background(), []store.Request{req}); err != nil {
					t.Errorf("Reset: %v", err)
				}
			}
			if out, err := store.Take(context.Background(), s.Store, []store.Request{req}, false); err != nil {
				t.Errorf("Take: %v", err)
			} else if out.Allowed {
				allowed[i]++
			}
		})
		total := int64(0)
		for _, n := range allowed {
			total += n
		}
		left := s.remaining(t, req)[0]
		if before := total - (count - left); before < 0 || before > count {
			t.Errorf("%d of 100 calls allowed around a reset in their midst, and %d remaining: %d before it, want 0 to %d", total, left, before, count)
		}
	})(t, s)
}

// Several keys are reset at once, wherever they are, and none beside them.
func testResetOfSeveral(t *testing.T, s Subject) {
	requests := []store.Request{s.limitOf("a", 1, hourly(3)), s.limitOf("b", 2, hourly(5)), s.limitOf("c", 1, hourly(9))}
	beside := s.limitOf("d", 4, hourly(9))
	s.take(t, append(slices.Clone(requests), beside)...)
	if err := s.Store.Reset(context.Background(), requests); err != nil {
		t.Fatalf("Reset: %v", err)
	}
	var left []int64
	for _, req := range append(requests, beside) {
		left = append(left, s.remaining(t, req)...)
	}
	if want := []int64{3, 5, 9, 5}; !slices.Equal(left, want) {
		t.Errorf("remaining after a reset of all but the last = %v, want %v", left, want)
	}
	if err := s.Store.Reset(context.Background(), nil); err != nil {
		t.Errorf("Reset of nothing = %v, want nil", err)
	}
}

func testResetRefuses(t *testing.T, s Subject) {
	req := s.limitOf("refused", 2, hourly(5))
	s.take(t, req)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Store.Reset(ctx, []store.Request{req}); !errors.Is(err, context.Canceled) {
		t.Errorf("Reset with a cancelled context = %v, want %v", err, context.Canceled)
	}
	var failed *store.Error
	if err := s.Store.Reset(context.Background(), []store.Request{req, req}); !errors.As(err, &failed) || failed.Class != store.Misconfigured {
		t.Errorf("Reset of one key twice = %v, want an error of class %v", err, store.Misconfigured)
	}
	if left := s.remaining(t, req); left[0] != 3 {
		t.Errorf("%d remaining after resets that were refused, want 3", left[0])
	}
}
