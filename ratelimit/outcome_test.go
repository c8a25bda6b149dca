package ratelimit_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/rules"
)

type cancelKey struct{}

func TestPanicGoesOn(t *testing.T) {
	for _, charge := range []rules.Charge{rules.ChargeAlways, rules.ChargeError} {
		g := inMemory().guard(t, all(charge)...)
		func() {
			defer func() {
				if got := recover(); got != "boom" {
					t.Errorf("charge=%v: recover = %v, want boom", charge, got)
				}
			}()
			run(g, alice(), func(context.Context) error { panic("boom") })
		}()
	}
}

// A call that a later limit denies gives back what earlier ones granted; one that has waited for it has failed.
func TestDeniedByALock(t *testing.T) {
	for _, test := range []struct {
		name    string
		charge  rules.Charge
		wait    time.Duration
		charged bool
	}{
		{"at once", rules.ChargeAlways, 0, false},
		{"at once, charged for errors", rules.ChargeError, 0, false},
		{"after a wait", rules.ChargeAlways, 20 * time.Millisecond, true},
		{"after a wait, charged for errors", rules.ChargeError, 20 * time.Millisecond, true},
		{"after a wait, charged for successes", rules.ChargeSuccess, 20 * time.Millisecond, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			onEach(t, func(t *testing.T, s stores) {
				limits := all(test.charge)
				limits[0].Wait = test.wait
				l := s.limiter(t)
				g := l.Guard(create(limits...))
				other := l.Guard(create(rules.Limit{Kind: rules.Lock})) // the same lock, by itself
				err := run(other, t.Context(), func(context.Context) error {
					began := time.Now()
					err := run(g, alice(), nothing)
					if waited := time.Since(began); waited < test.wait {
						t.Errorf("denied after %v, want a wait of %v", waited, test.wait)
					}
					wantBusy(t, err, "Create/lock")
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
				err = run(g, alice(), nothing)
				if got := errors.Is(err, ratelimit.ErrExceeded); got != test.charged || !got && err != nil {
					t.Errorf("afterwards: %v, want the rate charged: %v", err, test.charged)
				}
			})
		})
	}
}

func TestChargeByOutcome(t *testing.T) {
	panics := func(context.Context) error { panic("boom") }
	onEach(t, func(t *testing.T, s stores) {
		call := 0
		for _, algo := range []rules.Algorithm{rules.SlidingLog, rules.CompactLog, rules.SlidingWindow, rules.FixedWindow, rules.TokenBucket, rules.GCRA} {
			for _, test := range []struct {
				charge rules.Charge
				do     func(context.Context) error
				want   bool
			}{
				{rules.ChargeAlways, nothing, true},
				{rules.ChargeAlways, fails, true},
				{rules.ChargeSuccess, nothing, true},
				{rules.ChargeSuccess, fails, false},
				{rules.ChargeSuccess, panics, false},
				{rules.ChargeError, nothing, false},
				{rules.ChargeError, fails, true},
				{rules.ChargeError, panics, true},
			} {
				limit := rules.Limit{Kind: rules.Key, By: "id", Algorithm: algo, Rules: per(1, time.Hour)}
				beside := limit
				limit.Charge = test.charge
				g := s.limiter(t).Guard(create(limit, beside))
				call++
				in := []ratelimit.Input{by(strconv.Itoa(call)), by(strconv.Itoa(call))}
				func() {
					defer func() { _ = recover() }()
					run(g, t.Context(), test.do, in...)
				}()
				d, _, err := g.Decide(t.Context(), in...)
				if err != nil {
					t.Fatal(err)
				}
				if charged := !d.Limits[0].Allowed; charged != test.want {
					t.Errorf("%v, call %d, charge=%v: charged %v, want %v", algo, call, test.charge, charged, test.want)
				}
				if d.Limits[1].Allowed {
					t.Errorf("%v, call %d, charge=%v: the limit beside it is not charged", algo, call, test.charge)
				}
			}
		}
	})
}

// TestChargeOfACallerWhoLeaves tests that a call whose context has ended is charged whatever its
// outcome: a client that goes away would choose the outcome else.
func TestChargeOfACallerWhoLeaves(t *testing.T) {
	onEach(t, func(t *testing.T, s stores) {
		for i, test := range []struct {
			charge rules.Charge
			do     func(context.Context) error
		}{
			{rules.ChargeSuccess, nothing},
			{rules.ChargeSuccess, context.Context.Err},
			{rules.ChargeSuccess, func(context.Context) error { panic("boom") }},
			{rules.ChargeError, nothing},
			{rules.ChargeError, context.Context.Err},
		} {
			g := s.limiter(t).Guard(create(rules.Limit{Kind: rules.Key, By: "id", Rules: per(1, time.Hour), Charge: test.charge}))
			id := by("leaver" + strconv.Itoa(i))
			ctx, cancel := context.WithCancel(t.Context())
			func() {
				defer func() { _ = recover() }()
				_ = run(g, ctx, func(ctx context.Context) error {
					cancel()
					return test.do(ctx)
				}, id)
			}()
			d, _, err := g.Decide(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			if d.Allowed {
				t.Errorf("charge=%v, %d: not charged, want it charged", test.charge, i)
			}
		}
	})
}

func TestGiveBackLetsGo(t *testing.T) {
	g := inMemory().guard(t, all(rules.ChargeAlways)...)
	_, permit, err := g.Hold(alice())
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := permit.GiveBack(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	permit.Done(nil)
	if err := run(g, alice(), nothing); err != nil {
		t.Errorf("after it was given back: %v", err)
	}
}

// failure is an interface that is not error, and has what an error has.
type failure interface{ Error() string }

func TestDoneOfAnotherErrorType(t *testing.T) {
	g := inMemory().guard(t, rules.Limit{Kind: rules.Global, Rules: per(1, time.Hour), Charge: rules.ChargeError})
	call := func(do func() failure) (err failure) {
		permit, err := g.Take(t.Context())
		if err != nil {
			return err
		}
		defer ratelimit.Done(permit, &err)
		return do()
	}
	if err := call(func() failure { return nil }); err != nil {
		t.Fatal(err)
	}
	func() {
		defer func() {
			if got := recover(); got != "boom" {
				t.Errorf("recover = %v, want boom", got)
			}
		}()
		call(func() failure { panic("boom") })
	}()
	if err := call(func() failure { return nil }); !errors.Is(err, ratelimit.ErrExceeded) {
		t.Errorf("after a panic = %v, want ErrExceeded", err)
	}
}

// A queue's delay may end with the context before it is known how the call ends.
func TestContextEndsInAQueueBeforeALock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d diary
		queue := rules.Limit{Kind: rules.Global, Algorithm: rules.LeakyBucket, Rules: per(1, time.Minute), Wait: time.Hour, Charge: rules.ChargeSuccess}
		g := d.of(inMemory()).guard(t, rules.Limit{Kind: rules.Lock}, queue)
		if err := run(g, t.Context(), nothing); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if err := run(g, ctx, nothing); !errors.Is(err, context.Canceled) {
			t.Errorf("Hold = %v, want canceled", err)
		}
		want := []string{"take", "acquire lock", "release lock", "take", "give back"}
		if diff := cmp.Diff(want, d.read()); diff != "" {
			t.Errorf("what the stores were asked (-want +got):\n%s", diff)
		}
	})
}
