package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// lawBan: a limit with a ban answers as one without, except that denials and operators start bans. The
// answers of a limit without a ban come from a twin, which only peeks during a ban.
func lawBan(sc *scene) {
	without := sc.twin("without")
	ban := rapid.SampledFrom([]time.Duration{time.Millisecond, time.Second, 9 * time.Second}).Draw(sc.T, "ban")
	sc.limit.Ban, sc.limit.After = ban, rapid.Int64Range(1, 4).Draw(sc.T, "after")
	m := &modelDoor{limit: &sc.limit, clock: sc.subject.Clock}
	type held struct{ own, other store.Outcome }
	var calls []held // that may be given back
	for range rapid.IntRange(1, 30).Draw(sc.T, "steps") {
		switch rapid.IntRange(0, 24).Draw(sc.T, "step") {
		case 0:
			sc.reset()
			without.reset()
			m.open()
		case 1:
			d := rapid.SampledFrom([]time.Duration{0, time.Second, time.Hour}).Draw(sc.T, "ban by hand")
			sc.ban(d)
			m.close(d)
		case 2:
			sc.subject.Clock.Move(-rapid.SampledFrom([]time.Duration{time.Microsecond, time.Second}).Draw(sc.T, "set back"))
		case 3, 4, 5, 6, 7:
			if n := len(calls); n > 0 {
				c := calls[n-1]
				calls = calls[:n-1]
				sc.giveBack(c.own)
				without.giveBack(c.other)
			}
		}
		cost := sc.drawCost()
		ask := without.call
		if m.closed.After(sc.subject.Clock.Now()) {
			ask = without.peek
		}
		own := ask(cost)
		want := m.ask(own)
		out := sc.call(cost)
		sc.agree("a limit with a ban", out, want)
		if out.Allowed && cost > 0 {
			calls = append(calls, held{out, own})
		}
		sc.wait()
	}
}

func (sc *scene) ban(d time.Duration) {
	sc.Helper()
	if err := sc.subject.Store.Ban(context.Background(), []store.Request{sc.request(1)}, d); err != nil {
		sc.Fatalf("Ban: %v", err)
	}
}

// modelDoor is a ban as its law is written.
type modelDoor struct {
	limit   *rules.Limit
	clock   *Clock
	denials []time.Time
	closed  time.Time
}

func (m *modelDoor) open() { m.denials, m.closed = nil, time.Time{} }

func (m *modelDoor) longest() (longest time.Duration) {
	for _, r := range m.limit.Rules {
		longest = max(longest, r.Window)
	}
	return longest
}

func (m *modelDoor) close(d time.Duration) {
	m.open()
	if d > 0 {
		m.closed = m.clock.Now().Add(d)
	}
}

// ask returns the answer of a limit with a ban, given the answer of one without.
func (m *modelDoor) ask(own store.Outcome) store.Outcome {
	now := m.clock.Now()
	if !m.closed.After(now) && !own.Allowed && longestRetry(own) != store.Never {
		counts := func(at time.Time) bool { return now.Sub(at).Abs() < m.longest() }
		m.closed = time.Time{}
		m.denials = append(slices.DeleteFunc(m.denials, func(at time.Time) bool { return !counts(at) }), now)
		if int64(len(m.denials)) >= m.limit.After {
			m.close(m.limit.Ban)
		}
	}
	want := store.Outcome{Allowed: own.Allowed, Rules: slices.Clone(own.Rules)}
	if left := m.closed.Sub(now); left > 0 {
		want.Allowed = false
		for i := range want.Rules {
			want.Rules[i].Close(left)
		}
	}
	return want
}

// testBanUnderConcurrency: of many callers, as many are denied without a ban as come before it, and all further ones with it.
func testBanUnderConcurrency(t *testing.T, s Subject) {
	forEach(func(t *testing.T, s Subject, v variant) {
		const count, after = 20, 5
		req := v.request(t, s, "banned", 1, yearly(count))
		req.Ban, req.After = time.Hour, after
		var allowed, denied, banned atomic.Int64
		each(16, 100, func(int) {
			out, err := store.Take(context.Background(), s.Store, []store.Request{req}, false)
			switch {
			case err != nil:
				t.Errorf("Take: %v", err)
			case out.Allowed:
				allowed.Add(1)
			case out.Rules[0].Banned > 0:
				banned.Add(1)
			default:
				denied.Add(1)
			}
		})
		if allowed.Load() != count || denied.Load() != after-1 || banned.Load() != 100-count-after+1 {
			t.Errorf("%d of 100 calls allowed, %d denied and %d banned, want %d, %d and the others", allowed.Load(), denied.Load(), banned.Load(), count, after-1)
		}
	})(t, s)
}

// A call that one limit denies for a ban is charged to no other, and the denial counts against no other's ban; lifted, all is what it was.
func testBanAmongOthers(t *testing.T, s Subject) {
	ctx := context.Background()
	closed, other := s.limitOf("closed", 1, hourly(5)), s.limitOf("other", 1, hourly(9))
	closed.Ban, closed.After = time.Hour, 3
	other.Ban, other.After = time.Hour, 1
	s.take(t, closed, other)
	if err := s.Store.Ban(ctx, []store.Request{closed}, 2*time.Hour); err != nil {
		t.Fatalf("Ban: %v", err)
	}
	for range 3 {
		out := s.take(t, other, closed)
		if out.Allowed || out.Rules[0].Banned != 0 || out.Rules[0].RetryAfter != 0 || out.Rules[0].Remaining != 8 {
			t.Errorf("Take with a ban on the second limit = %+v, want it denied by that alone", out)
		}
		if b := out.Rules[1]; b.Banned < time.Hour || b.RetryAfter != b.Banned || b.Remaining != 0 || b.ResetAfter < b.Banned {
			t.Errorf("the banned limit says %+v, want nothing remaining for two hours", b)
		}
	}
	peek := closed
	peek.Cost = 0
	if out := s.take(t, peek); out.Allowed || out.Rules[0].Banned < time.Hour || out.Rules[0].Remaining != 0 {
		t.Errorf("Take of cost 0 of a banned limit = %+v, want it denied, with nothing remaining", out)
	}
	if err := s.Store.Ban(ctx, []store.Request{closed}, 0); err != nil {
		t.Fatalf("Ban for 0s: %v", err)
	}
	if left := append(s.remaining(t, closed), s.remaining(t, other)...); !slices.Equal(left, []int64{4, 8}) {
		t.Errorf("remaining once the ban is lifted = %v, want [4 8]", left)
	}
}

// A denial counts towards a ban for the window, and not at its very end.
func testBanWithinWindow(t *testing.T, s Subject) {
	for between, want := range map[time.Duration]time.Duration{time.Second - time.Microsecond: time.Hour, time.Second: 0} {
		req := s.limitOf("denied twice within "+between.String(), 1, rules.Rule{Count: 1, Window: time.Second})
		req.Ban, req.After = time.Hour, 2
		s.take(t, req)
		if out := s.take(t, req); out.Allowed || out.Rules[0].Banned != 0 {
			t.Errorf("denied once: %+v, want no ban", out)
		}
		s.Clock.Move(between)
		s.take(t, req) // passes at the end of the window
		if out := s.take(t, req); out.Allowed || out.Rules[0].Banned != want {
			t.Errorf("denied again %v later: %+v, want a ban of %v", between, out, want)
		}
	}
}

// A ban that is lifted is over for good, for a clock too that is set back.
func testBanLifted(t *testing.T, s Subject) {
	req := s.limitOf("lifted", 1, yearly(5))
	req.Ban, req.After = time.Hour, 2
	for _, d := range []time.Duration{time.Hour, 0} {
		if err := s.Store.Ban(context.Background(), []store.Request{req}, d); err != nil {
			t.Fatalf("Ban for %v: %v", d, err)
		}
	}
	s.Clock.Move(-time.Minute)
	if out := s.take(t, req); !out.Allowed || out.Rules[0].Banned != 0 {
		t.Errorf("Take a minute before a ban was lifted = %+v, want it allowed", out)
	}
}

// Who was denied before fewer denials are enough for a ban is banned by the next one, and not before.
func testBanAfterFewer(t *testing.T, s Subject) {
	for _, after := range []int64{1, 2} {
		req := s.limitOf(fmt.Sprint("fewer", after), 1, hourly(1))
		req.Ban, req.After = time.Hour, 3
		s.take(t, req)
		for range 2 {
			s.take(t, req)
		}
		req.After = after
		free := req
		free.Cost = 0
		if out := s.take(t, free); out.Rules[0].Banned != 0 {
			t.Errorf("a look after 2 denials, where %d are enough by now, says %+v, want no ban", after, out.Rules[0])
		}
		if out := s.take(t, req); out.Rules[0].Banned != req.Ban {
			t.Errorf("denied once more, where %d denials are enough = %+v, want a ban of %v", after, out.Rules[0], req.Ban)
		}
	}
}

// Permits that are given back cancel no denial and end no ban.
func testBanAfterGiveBack(t *testing.T, s Subject) {
	forEach(func(t *testing.T, s Subject, v variant) {
		c := &banned{T: t, s: s, req: v.request(t, s, "given back", 1, yearly(3)), step: time.Millisecond}
		c.req.Ban, c.req.After = time.Hour, 3
		c.take()
		c.take()
		last := c.take()
		c.deny(2, false)
		c.giveBack(last)
		last = c.take()
		c.deny(1, true)
		c.giveBack(last)
		c.deny(1, true)
	})(t, s)
}

// A banned key is denied whatever the call costs, and a call without cost does not count as a denial.
func testBanAtAnyCost(t *testing.T, s Subject) {
	forEach(func(t *testing.T, s Subject, v variant) {
		c := &banned{T: t, s: s, req: v.request(t, s, "without cost", 1, yearly(1))}
		c.req.Ban, c.req.After = time.Hour, 2
		c.take()
		c.deny(1, false)
		free := c.req
		free.Cost = 0
		for range 3 {
			if out := s.take(t, free); !out.Allowed || out.Rules[0].Banned != 0 {
				t.Fatalf("Take of cost 0 after one denial = %+v, want it allowed", out)
			}
		}
		c.deny(1, true)
		if out := s.take(t, free); out.Allowed || out.Rules[0].Banned == 0 || out.Rules[0].RetryAfter == 0 {
			t.Errorf("Take of cost 0 of a banned key = %+v, want it denied by the ban", out)
		}
	})(t, s)
}

// banned is a request whose key may be banned.
type banned struct {
	*testing.T
	s    Subject
	req  store.Request
	step time.Duration // from one call to the next
}

func (c *banned) take() store.Receipt {
	c.Helper()
	out := c.s.take(c.T, c.req)
	if !out.Allowed {
		c.Fatalf("Take = %+v, want it allowed", out)
	}
	c.s.Clock.Move(c.step)
	return out.Receipt
}

// deny calls some times. All calls must be denied. If banned is set, the last must be denied by a ban,
// otherwise none.
func (c *banned) deny(times int, banned bool) {
	c.Helper()
	for n := range times {
		out := c.s.take(c.T, c.req)
		if is := out.Rules[0].Banned > 0; out.Allowed || is && !banned || banned && !is && n == times-1 {
			c.Fatalf("denial %d of %d = %+v, want it denied, and banned at the end: %v", n+1, times, out, banned)
		}
		c.s.Clock.Move(c.step)
	}
}

func (c *banned) giveBack(receipt store.Receipt) {
	c.Helper()
	if err := c.s.Store.GiveBack(context.Background(), receipt); err != nil {
		c.Fatalf("GiveBack: %v", err)
	}
}

func testBanRefuses(t *testing.T, s Subject) {
	with := s.limitOf("with", 1, hourly(5))
	with.Ban, with.After = time.Hour, 3
	without := s.limitOf("without", 1, hourly(5))
	for name, err := range map[string]error{
		"a limit without a ban": s.Store.Ban(context.Background(), []store.Request{with, without}, time.Hour),
		"a negative time":       s.Store.Ban(context.Background(), []store.Request{with}, -time.Hour),
		"more than a year":      s.Store.Ban(context.Background(), []store.Request{with}, rules.MaxBan+time.Microsecond),
	} {
		var failed *store.Error
		if !errors.As(err, &failed) || failed.Class != store.Misconfigured {
			t.Errorf("Ban of %s = %v, want an error of class %v", name, err, store.Misconfigured)
		}
	}
	if !s.take(t, with, without).Allowed {
		t.Error("Take after bans that were refused is denied")
	}
}
