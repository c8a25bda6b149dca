package ratelimit_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/lock"
	"github.com/rlgen/rlgen/ratelimit/memstore"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// told is what a decision says: the limits that have room with a +, the others with a -, shadows in brackets.
func told(d *ratelimit.Decision) string {
	var all []string
	for _, l := range d.Limits {
		text := "-"
		if l.Allowed {
			text = "+"
		}
		text += d.Policy.Name(l.Index)
		if l.Mode == rules.Shadow {
			text = "[" + text + "]"
		}
		all = append(all, text)
	}
	return strings.Join(all, " ")
}

// decided has what each of some calls of alice is told.
func decided(t *testing.T, guard *ratelimit.Guard, calls int) []string {
	t.Helper()
	var all []string
	for range calls {
		d, _, err := guard.Decide(alice())
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, told(&d))
	}
	return all
}

// A candidate beside the live limit counts under its own key, denies nobody, and sees the calls that the live limit denies, too.
func TestShadowBesideALiveLimit(t *testing.T) {
	guard := limiter(t, memstore.New()).Guard(create(limits(t, "user 3,1h", "user 2,1h mode=shadow", "global 5,1h mode=shadow name=all")...))
	want := []string{
		"+Create [+Create/user/shadow] [+all]",
		"+Create [+Create/user/shadow] [+all]",
		"+Create [-Create/user/shadow] [+all]",
		"-Create [-Create/user/shadow] [+all]",
	}
	if diff := cmp.Diff(want, decided(t, guard, 4)); diff != "" {
		t.Errorf("decisions (-want +got):\n%s", diff)
	}
}

// What the live limits deny is charged to a shadow; the shadow's denial keeps no live limit from being charged.
func TestShadowAndLiveAreChargedApart(t *testing.T) {
	guard := limiter(t, memstore.New()).Guard(create(limits(t, "user 1,1h", "user 3,1h mode=shadow")...))
	want := []string{"+Create [+Create/user/shadow]", "-Create [+Create/user/shadow]", "-Create [+Create/user/shadow]", "-Create [-Create/user/shadow]"}
	if diff := cmp.Diff(want, decided(t, guard, 4)); diff != "" {
		t.Errorf("decisions (-want +got):\n%s", diff)
	}
	guard = limiter(t, memstore.New()).Guard(create(limits(t, "user 3,1h", "user 1,1h mode=shadow")...))
	if got := passes(t, guard, alice()); got != 3 {
		t.Errorf("%d calls passed beside a shadow that denies, want 3", got)
	}
}

// A denial is that of the live limit, however long the shadow would deny.
func TestShadowIsInNoError(t *testing.T) {
	guard := limiter(t, memstore.New()).Guard(create(limits(t, "user 1,1m", "user 1,1h mode=shadow")...))
	passes(t, guard, alice())
	_, err := guard.Take(alice())
	var exceeded *ratelimit.ExceededError
	if !errors.As(err, &exceeded) || exceeded.Limit != "Create" || exceeded.RetryAfter > time.Minute {
		t.Errorf("Take = %v, want a denial of limit Create for a minute at most", err)
	}
	d, _, _ := guard.Decide(alice())
	if d.RetryAfter > time.Minute {
		t.Errorf("RetryAfter = %v, want a minute at most", d.RetryAfter)
	}
}

// A caller without an identity, and a cost that can never be met, are nothing to a shadow.
func TestShadowRefusesNobody(t *testing.T) {
	guard := limiter(t, memstore.New()).Guard(create(limits(t, "user 2,1h mode=shadow cost=n", "ip 1,1h mode=shadow cost=n")...))
	for _, cost := range []int64{-1, 0, 1, 5} {
		var in [2]ratelimit.Input
		in[0].Cost(cost)
		in[1].Cost(cost)
		if _, err := guard.Take(context.Background(), in[:]...); err != nil {
			t.Errorf("Take of nobody at cost %d = %v, want none", cost, err)
		}
		if _, err := guard.Take(alice(), in[:]...); err != nil {
			t.Errorf("Take of alice at cost %d = %v, want none", cost, err)
		}
	}
}

// With WithMode no limit of the program denies, whatever it is.
func TestWithModeShadow(t *testing.T) {
	r := &recorder{}
	l := limiter(t, memstore.New(), ratelimit.WithMode(rules.Shadow), ratelimit.WithObserver(r), ratelimit.WithLocks(lock.NewMemory()))
	guard := l.Guard(create(limits(t, "user 1,1h plan=free", "global 1,5s algo=leaky-bucket wait=10s", "concurrency 1", "lock")...))
	free := ratelimit.WithPlan(alice(), "free")
	for i, ctx := range []context.Context{free, free, context.Background()} {
		if _, _, err := guard.Hold(ctx); err != nil {
			t.Fatalf("call %d: %v, want none", i, err)
		}
	}
	want := []string{
		"[+Create/user/free] [+Create/global] [+Create/concurrency] [+Create/lock]",
		"[-Create/user/free] [+Create/global]",
		"[+Create/global] [-Create/concurrency]",
	}
	for i, d := range r.decisions {
		if i < len(want) && told(&d) != want[i] {
			t.Errorf("decision %d is %s, want %s", i, told(&d), want[i])
		}
	}
}

// A shadow with charge counts the calls that end so, of those that were made.
// What a shadow denies under the key of the live limit bans nobody, who would find the door closed once the limit denies again. A candidate, which has a key of
// its own, says whom it would ban.
func TestShadowsBan(t *testing.T) {
	policy := create(limits(t, "user 2,1h ban=2h after=1")...)
	for name, shadow := range map[string]struct {
		mode     rules.Mode
		override string
	}{
		"mode of all": {rules.Shadow, "2,1h"},
		"override":    {rules.Enforce, "2,1h mode=shadow"},
	} {
		t.Run(name, func(t *testing.T) {
			s := memstore.New()
			now := func(text string, opts ...ratelimit.Option) *ratelimit.Guard {
				l := limiter(t, s, opts...)
				guard := l.Guard(policy)
				if err := l.Override(t.Context(), []rules.Override{{Name: "Create", Text: text}}); err != nil {
					t.Fatal(err)
				}
				return guard
			}
			if got := decided(t, now(shadow.override, ratelimit.WithMode(shadow.mode)), 5); got[4] != "[-Create]" {
				t.Fatalf("a shadow says %q of the fifth call, want that it has no room", got[4])
			}
			if _, err := now("9,1h").Take(alice()); err != nil {
				t.Errorf("the first call that the limit may deny again: %v, want it allowed: 2 of 9 are used", err)
			}
		})
	}
	candidate := limiter(t, memstore.New()).Guard(create(limits(t, "user 2,1h ban=2h after=1 mode=shadow")...))
	decided(t, candidate, 3)
	if d, _, err := candidate.Decide(alice()); err != nil || d.Limits[0].Banned == 0 {
		t.Errorf("Decide = %+v, %v, want that the candidate would have banned the caller", d, err)
	}
}

func TestShadowWithCharge(t *testing.T) {
	guard := limiter(t, memstore.New()).Guard(create(limits(t, "user 2,1h mode=shadow charge=error")...))
	fails, works := errors.New("wrong password"), error(nil)
	want := []string{"[+Create/user/shadow]", "[+Create/user/shadow]", "[+Create/user/shadow]", "[-Create/user/shadow]"}
	for i, outcome := range []*error{&works, &fails, &fails, &fails} {
		d, permit, err := guard.Decide(alice())
		if err != nil || told(&d) != want[i] {
			t.Errorf("decision %d is %s, %v, want %s", i, told(&d), err, want[i])
		}
		permit.Done(outcome)
	}
}

// A permit that is given back is given back to shadows, too.
func TestShadowIsGivenBack(t *testing.T) {
	guard := limiter(t, memstore.New()).Guard(create(limits(t, "user 9,1h", "user 1,1h mode=shadow")...))
	for range 3 {
		d, permit, err := guard.Decide(alice())
		if err != nil || told(&d) != "+Create [+Create/user/shadow]" {
			t.Fatalf("decision is %s, %v, want room in both", told(&d), err)
		}
		if err := permit.GiveBack(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
}

// A shadow's hold is let go of when the call ends.
func TestShadowOfWhatIsHeld(t *testing.T) {
	l := limiter(t, memstore.New(), ratelimit.WithLocks(lock.NewMemory()))
	r := &recorder{}
	guard := l.Guard(create(limits(t, "concurrency 1 mode=shadow")...))
	ctx := ratelimit.Watch(alice(), r)
	for range 2 {
		_, first, err := guard.Hold(ctx)
		if err != nil {
			t.Fatal(err)
		}
		_, second, err := guard.Hold(ctx)
		if err != nil {
			t.Fatal(err)
		}
		first.Done(nil)
		second.Done(nil)
	}
	for i, d := range r.decisions {
		want := []string{"[+Create/concurrency/shadow]", "[-Create/concurrency/shadow]"}[i%2]
		if told(&d) != want {
			t.Errorf("decision %d is %s, want %s", i, told(&d), want)
		}
	}
}

// A shadow's hold is not asked by calls that another limit denies, which hold nothing and let go of nothing.
func TestShadowHoldsNothingForDeniedCalls(t *testing.T) {
	l := limiter(t, memstore.New(), ratelimit.WithLocks(lock.NewMemory()))
	r := &recorder{}
	guard := l.Guard(create(limits(t, "user 1,1h", "concurrency 1 mode=shadow")...))
	ctx := ratelimit.Watch(alice(), r)
	for range 3 {
		if _, permit, err := guard.Hold(ctx); err == nil {
			permit.Done(nil)
		}
	}
	for i, want := range []string{"+Create [+Create/concurrency/shadow]", "-Create", "-Create"} {
		if got := told(&r.decisions[i]); got != want {
			t.Errorf("decision %d is %s, want %s", i, got, want)
		}
	}
}

// A shadow of a lock denies none that the lock would not: calls within a call nest, those beside it do not, and it ends none of their contexts.
func TestShadowLocksNest(t *testing.T) {
	l := limiter(t, memstore.New(), ratelimit.WithLocks(lock.NewMemory()))
	outer, inner := l.Guard(create(limits(t, "lock mode=shadow")...)), l.Guard(create(limits(t, "lock mode=shadow", "lock bucket=b mode=shadow")...))
	r := &recorder{}
	ctx := ratelimit.Watch(alice(), r)
	const free, busy = "[+Create/lock/shadow]", "[-Create/lock/shadow]"
	var within context.Context
	err := run(outer, ctx, func(held context.Context) error {
		within = held
		if lock.Token(held) != 0 {
			t.Error("the method's context has the token of what nobody holds")
		}
		return errors.Join(run(outer, held, func(held context.Context) error { return run(inner, held, nothing) }), run(outer, ctx, nothing))
	})
	if err != nil {
		t.Error(err)
	}
	if err := within.Err(); err != nil {
		t.Errorf("the context of a method ends with a shadow's hold: %v", err)
	}
	if err := run(outer, within, nothing); err != nil {
		t.Error(err)
	}
	want := []string{free, free, "[+Create/lock/shadow] [+Create/lock2/shadow]", busy, free}
	for i, d := range r.decisions {
		if told(&d) != want[i] {
			t.Errorf("decision %d is %s, want %s", i, told(&d), want[i])
		}
	}
}

// broken is a store that decides nothing of keys with a word in them.
type broken struct {
	store.Store
	word string
	err  error
}

func (b broken) Take(ctx context.Context, requests []store.Request, detail bool, out *store.Outcome) error {
	if strings.Contains(requests[0].Key, b.word) {
		return b.err
	}
	return b.Store.Take(ctx, requests, detail, out)
}

// A store that fails a shadow is logged, and nothing to the call.
func TestShadowOfABrokenStore(t *testing.T) {
	for _, class := range []store.Class{store.Unavailable, store.Misconfigured} {
		t.Run(class.String(), func(t *testing.T) {
			var log bytes.Buffer
			b := broken{memstore.New(), "shadow", &store.Error{Class: class, Err: errors.New("no")}}
			l := limiter(t, b, ratelimit.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
			guard := l.Guard(create(limits(t, "user 2,1h onfail=closed", "user 1,1h mode=shadow onfail=closed")...))
			d, _, err := guard.Decide(alice())
			if err != nil || told(&d) != "+Create" || d.Degraded != nil {
				t.Errorf("decision is %s, degraded by %v, %v; want that of the live limit alone", told(&d), d.Degraded, err)
			}
			if log.Len() == 0 {
				t.Error("the log is empty, want a line")
			}
		})
	}
}

// The log tells of what a shadow would deny, and that it would.
func TestDenialsOfShadowsAreLogged(t *testing.T) {
	var log bytes.Buffer
	o := ratelimit.LogDenials(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == "time" || a.Key == "retry_after" {
			return slog.Attr{}
		}
		return a
	}})))
	guard := limiter(t, memstore.New(), ratelimit.WithObserver(o)).Guard(create(limits(t, "user 9,1h", "user 1,1h mode=shadow")...))
	for range 3 {
		if _, err := guard.Take(alice()); err != nil {
			t.Fatal(err)
		}
	}
	const want = `level=INFO msg="rate limit would deny a call" type=shop.Orders method=Create limit=Create/user/shadow mode=shadow reason="allows 1,1h" suppressed=0` + "\n"
	if log.String() != want {
		t.Errorf("logged\n%swant\n%s", log.String(), want)
	}
}
