package storetest

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

func (sc *scene) grant(n int64) {
	sc.Helper()
	if err := sc.subject.Store.Grant(context.Background(), []store.Request{sc.request(n)}); err != nil {
		sc.Fatalf("Grant: %v", err)
	}
}

func (sc *scene) peek(cost int64) store.Outcome {
	sc.Helper()
	var out store.Outcome
	if err := sc.subject.Store.Peek(context.Background(), []store.Request{sc.request(cost)}, &out); err != nil {
		sc.Fatalf("Peek: %v", err)
	}
	return out
}

// largest is the most that can be granted at once.
func (sc *scene) largest() int64 {
	var most int64
	for _, r := range sc.limit.Rules {
		most = max(most, sc.limit.Capacity(r))
	}
	return most
}

// lawGrant: each rule has as much more as is granted, and at most all that it ever has, and another key what it had.
func lawGrant(sc *scene) {
	other, same := sc.twin("other"), sc.twin("same")
	for range rapid.IntRange(0, 4).Draw(sc.T, "others") {
		cost := sc.drawCost()
		sc.agree("twins", other.call(cost), same.call(cost))
	}
	for range rapid.IntRange(1, 3).Draw(sc.T, "grants") {
		before, n := sc.peek(1), rapid.Int64Range(1, sc.largest()).Draw(sc.T, "grant")
		sc.grant(n)
		after := sc.peek(1)
		for i, r := range before.Rules {
			if got, want := after.Rules[i].Remaining, min(r.Remaining+n, sc.limit.Capacity(sc.limit.Rules[i])); got != want {
				sc.Fatalf("%v: rule %d: %d remaining once %d are granted to %d, want %d", sc.limit, i, got, n, r.Remaining, want)
			}
		}
		sc.call(sc.drawCost())
		sc.wait()
	}
	sc.agree("another key", other.call(0), same.call(0))
}

// lawGrantLast: to grant what a call has just been charged is to give it back.
func lawGrantLast(sc *scene) {
	cost := rapid.Int64Range(1, 3).Draw(sc.T, "cost")
	given := sc.twin("given")
	for range rapid.IntRange(0, 6).Draw(sc.T, "calls") {
		next := sc.drawCost()
		sc.agree("twins", sc.call(next), given.call(next))
		sc.wait()
	}
	for range rapid.IntRange(1, 3).Draw(sc.T, "times") {
		out := given.call(cost)
		sc.agree("twins", sc.call(cost), out)
		if !out.Allowed {
			break
		}
		given.giveBack(out)
		sc.grant(cost)
		for range rapid.IntRange(0, 3).Draw(sc.T, "calls behind") {
			next := sc.drawCost()
			sc.agree("granted in place of given back", sc.call(next), given.call(next))
			sc.wait()
		}
	}
}

// lawPeek: a look says what the call that follows it is told, and changes nothing.
func lawPeek(sc *scene) {
	unseen := sc.twin("unseen")
	for range rapid.IntRange(1, 12).Draw(sc.T, "calls") {
		cost := sc.drawCost()
		seen := sc.peek(cost)
		sc.agree("a second look", sc.peek(cost), seen)
		out := sc.call(cost)
		sc.agree("a call behind a look", out, unseen.call(cost))
		if seen.Allowed != out.Allowed {
			sc.Fatalf("%v: Peek at %d says allowed %v, and Take %v", sc.limit, cost, seen.Allowed, out.Allowed)
		}
		for i, r := range out.Rules {
			want := r
			if out.Allowed {
				want.Remaining += cost
				want.ResetAfter = seen.Rules[i].ResetAfter
			}
			if seen.Rules[i] != want {
				sc.Fatalf("%v: rule %d: Peek at %d says %+v, want %+v", sc.limit, i, cost, seen.Rules[i], want)
			}
		}
		sc.wait()
	}
}

// testGrantUnderConcurrency grants one by one what many callers wait for: as many pass.
func testGrantUnderConcurrency(t *testing.T, s Subject) {
	forEach(func(t *testing.T, s Subject, v variant) {
		const count, granted = 30, 20
		req := v.request(t, s, "grant", count, yearly(count))
		s.take(t, req)
		req.Cost = 1
		var allowed atomic.Int64
		each(8, 100, func(i int) {
			if i%5 == 0 {
				if err := s.Store.Grant(context.Background(), []store.Request{req}); err != nil {
					t.Errorf("Grant: %v", err)
				}
			}
			if out, err := store.Take(context.Background(), s.Store, []store.Request{req}, false); err != nil {
				t.Errorf("Take: %v", err)
			} else if out.Allowed {
				allowed.Add(1)
			}
		})
		if left := s.remaining(t, req)[0]; allowed.Load() != granted-left {
			t.Errorf("%d calls allowed, and %d remaining, once %d are granted to a limit that was used up, want %d", allowed.Load(), left, granted, granted-left)
		}
	})(t, s)
}

// What has come back by itself in one rule is not granted once more, and a clock that is set back finds it there.
func testGrantOfWhatIsBack(t *testing.T, s Subject) {
	forEach(func(t *testing.T, s Subject, v variant) {
		req := v.request(t, s, "grant of what is back", 1, rules.Rule{Count: 5, Window: time.Second}, yearly(50))
		s.take(t, req)
		s.Clock.Move(3 * time.Second)
		if err := s.Store.Grant(context.Background(), []store.Request{req}); err != nil {
			t.Fatalf("Grant: %v", err)
		}
		s.Clock.Move(-time.Second)
		if left := s.remaining(t, req); !slices.Equal(left, []int64{5, 50}) {
			t.Errorf("remaining a second before the grant = %v, want [5 50]", left)
		}
	})(t, s)
}

// Several keys are granted and looked at at once, wherever they are, each what its request says.
func testGrantOfSeveral(t *testing.T, s Subject) {
	requests := []store.Request{s.limitOf("grant a", 3, hourly(3)), s.limitOf("grant b", 5, hourly(5)), s.limitOf("grant c", 9, hourly(9))}
	s.take(t, requests...)
	for i := range requests {
		requests[i].Cost = int64(i + 1)
	}
	if err := s.Store.Grant(context.Background(), requests); err != nil {
		t.Fatalf("Grant: %v", err)
	}
	var out store.Outcome
	if err := s.Store.Peek(context.Background(), requests, &out); err != nil || !out.Allowed || len(out.Rules) != len(requests) {
		t.Fatalf("Peek = %+v, %v, want an answer of each, and all allowed", out, err)
	}
	for i, r := range out.Rules {
		if r.Remaining != int64(i+1) || r.RetryAfter != 0 {
			t.Errorf("limit %d: %+v after a grant of %d, want as much remaining", i, r, i+1)
		}
	}
	for i := range requests {
		requests[i].Cost++
	}
	if err := s.Store.Peek(context.Background(), requests, &out); err != nil || out.Allowed || out.Rules[0].RetryAfter == 0 {
		t.Errorf("Peek at one more = %+v, %v, want it denied", out, err)
	}
}

// A look is told of a ban, and brings none; nor does a grant lift one.
func testPeekAtBans(t *testing.T, s Subject) {
	ctx, req := context.Background(), s.limitOf("peek at bans", 3, hourly(3))
	req.Ban, req.After = time.Hour, 1
	s.take(t, req)
	look := func() (out store.Outcome) {
		t.Helper()
		if err := s.Store.Peek(ctx, []store.Request{req}, &out); err != nil {
			t.Fatalf("Peek: %v", err)
		}
		return out
	}
	for range 3 {
		if out := look(); out.Allowed || out.Rules[0].Banned > 0 || out.Rules[0].RetryAfter == 0 {
			t.Errorf("Peek at a limit that is used up = %+v, want it denied and no ban", out)
		}
	}
	s.take(t, req) // brings the ban
	if err := s.Store.Grant(ctx, []store.Request{req}); err != nil {
		t.Fatalf("Grant: %v", err)
	}
	if out := look(); out.Allowed || out.Rules[0].Banned == 0 || out.Rules[0].Remaining != 0 {
		t.Errorf("Peek at a ban = %+v, want it denied for the ban, and nothing remaining", out)
	}
	if err := s.Store.Ban(ctx, []store.Request{req}, 0); err != nil {
		t.Fatalf("Ban: %v", err)
	}
	if out := look(); !out.Allowed || out.Rules[0].Remaining != 3 {
		t.Errorf("Peek once the ban is lifted = %+v, want all that was granted", out)
	}
}

func testGrantRefuses(t *testing.T, s Subject) {
	req := s.limitOf("not granted", 2, hourly(5))
	s.take(t, req)
	with := func(cost int64) store.Request { r := req; r.Cost = cost; return r }
	queue := with(1)
	queue.Key, queue.Algorithm, queue.Queue, queue.Wait = s.Prefix+"queue", rules.LeakyBucket, true, time.Second
	for name, requests := range map[string][]store.Request{
		"nothing": {with(0)}, "less": {with(-1)}, "more than there ever is": {with(6)}, "one key twice": {with(1), with(1)}, "a queue": {queue},
	} {
		var failed *store.Error
		if err := s.Store.Grant(context.Background(), requests); !errors.As(err, &failed) || failed.Class != store.Misconfigured {
			t.Errorf("Grant of %s = %v, want an error of class %v", name, err, store.Misconfigured)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var out store.Outcome
	if err := s.Store.Grant(ctx, []store.Request{with(1)}); !errors.Is(err, context.Canceled) {
		t.Errorf("Grant with a cancelled context = %v, want %v", err, context.Canceled)
	}
	if err := s.Store.Peek(ctx, []store.Request{with(1)}, &out); !errors.Is(err, context.Canceled) {
		t.Errorf("Peek with a cancelled context = %v, want %v", err, context.Canceled)
	}
	if left := s.remaining(t, req); left[0] != 3 {
		t.Errorf("%d remaining after grants that were refused, want 3", left[0])
	}
}
