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

// lawBan: a limit with a ban answers as one without does, but that denials close it for a while, and whatever closes and opens it. What one
// without says is asked of a twin, which only looks where the ban denies.
func lawBan(sc *scene) {
	without := sc.twin("without")
	ban := rapid.SampledFrom([]time.Duration{time.Millisecond, time.Second, 9 * time.Second}).Draw(sc.T, "ban")
	sc.limit.Ban, sc.limit.After = ban, rapid.Int64Range(1, 4).Draw(sc.T, "after")
	m := &modelDoor{limit: &sc.limit, clock: sc.subject.Clock}
	type held struct {
		own, other store.Outcome
		at         time.Time
	}
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
				before := without.peek(0)
				sc.giveBack(c.own)
				without.giveBack(c.other)
				m.forgive(c.at, before, without.peek(0))
			}
		}
		cost := sc.drawCost()
		ask := without.call
		if m.closed.After(sc.subject.Clock.Now()) {
			ask = without.peek
		}
		own := ask(cost)
		want := m.ask(own, cost)
		out := sc.call(cost)
		sc.agree("a limit with a ban", out, want)
		if out.Allowed && cost > 0 {
			calls = append(calls, held{out, own, sc.subject.Clock.Now()})
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
	denials []modelDenial
	closed  time.Time
}

// modelDenial is a denial, and which rules have denied.
type modelDenial struct {
	at    time.Time
	rules []int
}

func (m *modelDoor) open() { m.denials, m.closed = nil, time.Time{} }

// forgive forgets, of the denials since a call was charged that is given back, the first ones, and no more of any rule's than it has gained by that. It ends a ban for which
// too few are left.
func (m *modelDoor) forgive(charged time.Time, before, after store.Outcome) {
	if !m.closed.IsZero() && !m.closed.After(m.clock.Now()) {
		return
	}
	gains := make([]int64, len(before.Rules))
	for i, had := range before.Rules {
		gains[i] = after.Rules[i].Remaining - had.Remaining
		if gains[i] == 0 && after.Rules[i].ResetAfter < had.ResetAfter {
			gains[i] = 1 // a part of one
		}
	}
	n := len(m.denials)
	m.denials = slices.DeleteFunc(m.denials, func(d modelDenial) bool {
		if d.at.Before(charged) || slices.ContainsFunc(d.rules, func(i int) bool { return gains[i] < 1 }) {
			return false
		}
		for _, i := range d.rules {
			gains[i]--
		}
		return true
	})
	if left := len(m.denials); left < n && int64(left) < m.limit.After {
		m.closed = time.Time{}
	}
}

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

// ask makes of the answer of a limit without a ban that of one with.
func (m *modelDoor) ask(own store.Outcome, cost int64) store.Outcome {
	now := m.clock.Now()
	if !m.closed.After(now) && !own.Allowed && longestRetry(own) != store.Never {
		if !m.closed.IsZero() {
			m.open()
		}
		denial := modelDenial{at: now}
		for i, r := range own.Rules {
			if r.RetryAfter > 0 {
				denial.rules = append(denial.rules, i)
			}
		}
		m.denials = slices.DeleteFunc(append(m.denials, denial), func(d modelDenial) bool { return !d.at.After(now.Add(-m.longest())) })
		if int64(len(m.denials)) >= m.limit.After {
			m.closed = now.Add(m.limit.Ban)
		}
	}
	want := store.Outcome{Allowed: own.Allowed, Rules: slices.Clone(own.Rules)}
	if left := m.closed.Sub(now); left > 0 {
		want.Allowed = want.Allowed && cost == 0
		for i := range want.Rules {
			want.Rules[i].Close(left, cost)
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
	if out := s.take(t, peek); !out.Allowed || out.Rules[0].Banned < time.Hour || out.Rules[0].RetryAfter != 0 || out.Rules[0].Remaining != 0 {
		t.Errorf("Take of cost 0 of a banned limit = %+v, want it allowed, with nothing remaining", out)
	}
	full := s.limitOf("full", 1, hourly(1))
	s.take(t, full)
	if out, err := store.Take(ctx, s.Store, []store.Request{peek, full}, false); err != nil || out.Allowed || out.Rules[0] != (store.RuleOutcome{}) {
		t.Errorf("Take of cost 0 of a banned limit, denied by another and without detail = %+v, %v, want nothing said of the first", out, err)
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
		look := req
		look.Cost = 0
		if out := s.take(t, look); out.Rules[0].Banned != 0 {
			t.Errorf("a look after 2 denials, where %d are enough by now, says %+v, want no ban", after, out.Rules[0])
		}
		if out := s.take(t, req); out.Rules[0].Banned != req.Ban {
			t.Errorf("denied once more, where %d denials are enough = %+v, want a ban of %v", after, out.Rules[0], req.Ban)
		}
	}
}

// A call that gives its permits back excuses as many denials since its charge as it gives back permits, the first ones: they count towards no ban, and a ban ends for which too few
// are left. Denials from before the charge count on, and so does a ban by hand.
func testBanGivenBack(t *testing.T, s Subject) {
	forEach(func(t *testing.T, s Subject, v variant) {
		c := &banned{T: t, s: s, req: v.request(t, s, "given back", 1, yearly(3)), step: time.Millisecond}
		c.req.Ban, c.req.After = time.Hour, 3
		first, second, third := c.take(), c.take(), c.take()
		c.deny(2, false)
		c.giveBack(third, third, third) // of which the last two do nothing
		third = c.take()
		c.deny(1, false)
		c.deny(1, true) // with two from before
		c.giveBack(third)
		third = c.take()
		c.deny(1, true) // once more with two
		c.giveBack(first, second, third)
		c.reopened()
		c.take()
		second, third = c.take(), c.take()
		c.deny(2, false)
		if err := s.Store.Ban(context.Background(), []store.Request{c.req}, time.Hour); err != nil {
			t.Fatalf("Ban: %v", err)
		}
		c.giveBack(second, third)
		c.deny(1, true)
	})(t, s)
}

// A call excuses as many denials as it gives back permits.
func testBanGivenBackOfCost(t *testing.T, s Subject) {
	forEach(func(t *testing.T, s Subject, v variant) {
		for _, cost := range []int64{1, 2, 3} {
			c := &banned{T: t, s: s, req: v.request(t, s, fmt.Sprint("given back ", cost), cost, yearly(3))}
			c.req.Ban, c.req.After = time.Hour, 4
			held := c.take()
			c.req.Cost = 3
			c.deny(3, false)
			c.giveBack(held)
			held = c.take()
			c.deny(int(cost), false) // beside the 3-cost that are left
			c.deny(1, true)
			c.giveBack(held)
		}
	})(t, s)
}

// What a log has recorded may be given back twice, where nobody knows whether it was done: the second time it excuses no denial, those in between neither.
func testBanGivenBackTwice(t *testing.T, s Subject) {
	c := &banned{T: t, s: s, req: s.limitOf("given back twice", 1, yearly(1))}
	c.req.Ban, c.req.After = time.Hour, 2
	held := c.take()
	again := store.Receipt{Requests: held.Requests, ID: held.ID, Charges: make([]store.Charge, len(held.Charges))}
	for i := range held.Charges {
		again.Charges[i].At, again.Charges[i].Note = held.Charges[i].At, held.Charges[i].Note
	}
	c.giveBack(held)
	c.take()
	c.deny(1, false)
	c.giveBack(again)
	c.deny(1, true)
}

// Of the denials by one of several rules, a call excuses as many as it gives back permits, and none by a rule that the limit did not have when it was charged.
func testBanGivenBackOfOneRule(t *testing.T, s Subject) {
	short := rules.Rule{Count: 2, Window: time.Second}
	for name, charged := range map[string][]rules.Rule{"one of two": {short, hourly(9)}, "another": {hourly(9)}} {
		c := &banned{T: t, s: s, req: s.limitOf(name, 1, charged...)}
		c.req.Ban, c.req.After = time.Hour, 3
		held := c.take()
		c.req.Rules = []rules.Rule{short, hourly(9)}
		c.take()
		c.deny(2, false)
		c.giveBack(held)
		c.take()
		if len(charged) > 1 {
			c.deny(1, false)
		}
		c.deny(1, true)
	}
}

// Who is denied by a rule that a call is charged by no longer, or never was, is excused by none that gives it back.
func testBanGivenBackElsewhere(t *testing.T, s Subject) {
	second := func(count int64) rules.Rule { return rules.Rule{Count: count, Window: time.Second} }
	for _, test := range []struct {
		options string
		rules   []rules.Rule
		wait    time.Duration // between the call that is given back and the two that are denied beside
	}{
		{"algo=fixed-window", []rules.Rule{second(2)}, 999 * time.Millisecond},
		{"algo=sliding-log", []rules.Rule{second(2), hourly(9)}, time.Second},
		{"algo=compact-log", []rules.Rule{second(2), hourly(9)}, time.Second},
		{"algo=sliding-window", []rules.Rule{second(2), hourly(9)}, 1100 * time.Millisecond},
		{"algo=fixed-window", []rules.Rule{second(2), hourly(9)}, time.Second},
		{"algo=token-bucket", []rules.Rule{second(2)}, 500 * time.Millisecond},
		{"algo=gcra charge=error", []rules.Rule{second(2)}, 500 * time.Millisecond},
		{"algo=token-bucket refill=interval", []rules.Rule{second(2), hourly(9)}, time.Second},
	} {
		t.Run(test.options, func(t *testing.T) {
			if into := s.Clock.Now().UnixMicro() % time.Hour.Microseconds(); into != 0 { // into a window
				s.Clock.Move(time.Hour - time.Duration(into)*time.Microsecond)
			}
			s.Clock.Move(time.Millisecond)
			c := &banned{T: t, s: s, req: variantOf(test.options).request(t, s, fmt.Sprint("elsewhere ", test.options, len(test.rules)), 1, test.rules...)}
			c.req.Ban, c.req.After = time.Hour, 2
			held := c.take()
			s.Clock.Move(test.wait)
			c.take()
			c.take()
			c.deny(1, false)
			c.giveBack(held)
			c.deny(1, true)
		})
	}
}

// Denials from before a call is charged count on when it gives its permits back, and a ban for which enough of them are left stands.
func testBanGivenBackBefore(t *testing.T, s Subject) {
	c := &banned{T: t, s: s, req: s.limitOf("denied before", 2, yearly(3)), step: time.Millisecond}
	c.req.Ban, c.req.After = time.Hour, 3
	c.take()
	c.deny(2, false) // for want of two
	c.req.Cost = 1
	held := c.take()
	c.req.Cost = 2
	c.deny(1, true)
	c.giveBack(held)
	c.deny(1, true) // two are left, and this is the third
	c.req.Cost, c.req.After = 1, 1
	if err := s.Store.Ban(context.Background(), []store.Request{c.req}, 0); err != nil {
		t.Fatalf("Ban for 0s: %v", err)
	}
	held = c.take()
	c.deny(1, true)
	c.giveBack(held)
	c.take()
}

// A ban stands for which enough denials are left by what the call was charged under.
func testBanGivenBackEnoughLeft(t *testing.T, s Subject) {
	c := &banned{T: t, s: s, req: s.limitOf("enough are left", 2, yearly(3)), step: time.Millisecond}
	c.req.Ban, c.req.After = time.Hour, 3
	c.take()
	c.deny(1, false)
	c.req.Cost, c.req.After = 1, 2
	held := c.take()
	c.req.Cost, c.req.After = 2, 3
	c.deny(2, true)
	c.giveBack(held)
	c.req.After = 9
	c.deny(1, true)
}

// Who fails nothing is banned until the first of his calls in flight ends, however many others of his are denied meanwhile; and by nothing, where they are no more than those in flight.
func testBanOfWhoFailsNothing(t *testing.T, s Subject) {
	forEach(func(t *testing.T, s Subject, v variant) {
		c := &banned{T: t, s: s, req: v.request(t, s, "failing nothing", 1, yearly(5))}
		c.req.Ban, c.req.After = time.Hour, 7
		for range 9 {
			held := []store.Receipt{c.take(), c.take(), c.take(), c.take(), c.take()}
			c.deny(4, false)
			c.giveBack(held...)
			held = []store.Receipt{c.take(), c.take(), c.take(), c.take(), c.take()}
			c.deny(20, true) // while they run
			c.giveBack(held...)
		}
	})(t, s)
}

// Who has failed as often as the limit has it is banned, whatever he has done well besides.
func testBanOfWhoFails(t *testing.T, s Subject) {
	forEach(func(t *testing.T, s Subject, v variant) {
		c := &banned{T: t, s: s, req: v.request(t, s, "failing", 1, yearly(5)), step: time.Millisecond}
		c.req.Ban, c.req.After = time.Hour, 3
		for range 4 {
			c.take()
		}
		c.giveBack(c.take())
		c.take()
		c.deny(3, true)
	})(t, s)
}

// Permits that count no longer have caused no denial: given back then, they forgive none.
func testBanGivenBackLate(t *testing.T, s Subject) {
	for after, late := range map[time.Duration]bool{time.Second - time.Microsecond: false, time.Second: true} {
		c := &banned{T: t, s: s, req: s.limitOf("given back after "+after.String(), 1, rules.Rule{Count: 2, Window: time.Second})}
		c.req.Ban, c.req.After = time.Hour, 2
		first := c.take()
		s.Clock.Move(time.Second / 2)
		c.take()
		c.deny(1, false)
		s.Clock.Move(after - time.Second/2)
		c.giveBack(first)
		c.take() // in the room that it has left either way
		c.deny(1, late)
	}
}

// banned is who may be banned by a limit.
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

// deny calls some times, and wants all of it denied; for a ban from the last one on at the latest, or for none.
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

// reopened wants no ban, and makes all permits free, of which buckets keep back what they would have gained meanwhile.
func (c *banned) reopened() {
	c.Helper()
	look := c.req
	look.Cost = 0
	if out := c.s.take(c.T, look); out.Rules[0].Banned != 0 {
		c.Fatalf("a look says %+v, want no ban", out.Rules[0])
	}
	if err := c.s.Store.Reset(context.Background(), []store.Request{c.req}); err != nil {
		c.Fatalf("Reset: %v", err)
	}
}

func (c *banned) giveBack(receipts ...store.Receipt) {
	c.Helper()
	for _, r := range receipts {
		if err := c.s.Store.GiveBack(context.Background(), r); err != nil {
			c.Fatalf("GiveBack: %v", err)
		}
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
