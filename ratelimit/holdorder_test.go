package ratelimit_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/rules"
)

func TestOrderOfHolds(t *testing.T) {
	had := []string{"take", "acquire room", "acquire lock"}
	let := []string{"release lock", "release room"}
	for _, test := range []struct {
		name   string
		charge rules.Charge
		do     func(context.Context) error
		want   []string
	}{
		{"success", rules.ChargeAlways, nothing, let},
		{"error", rules.ChargeAlways, fails, let},
		{"panic", rules.ChargeAlways, func(context.Context) error { panic("boom") }, let},
		{"context ends", rules.ChargeAlways, func(ctx context.Context) error {
			ctx.Value(cancelKey{}).(context.CancelFunc)()
			return ctx.Err()
		}, let},
		{"success, charged for errors", rules.ChargeError, nothing, append(slices.Clone(let), "give back")},
		{"panic, charged for successes", rules.ChargeSuccess, func(context.Context) error { panic("boom") }, append(slices.Clone(let), "give back")},
	} {
		t.Run(test.name, func(t *testing.T) {
			var d diary
			g := d.of(inMemory()).guard(t, all(test.charge)...)
			ctx, cancel := context.WithCancel(alice())
			defer cancel()
			ctx = context.WithValue(ctx, cancelKey{}, cancel)
			func() {
				defer func() { _ = recover() }()
				run(g, ctx, test.do)
			}()
			if diff := cmp.Diff(append(slices.Clone(had), test.want...), d.read()); diff != "" {
				t.Errorf("what the stores were asked (-want +got):\n%s", diff)
			}
		})
	}
}

// TestLocksInAnyOrder lets calls of two methods, whose lines come in opposite orders, lock the same two names: none waits for one that waits for it.
func TestLocksInAnyOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		order := rules.Limit{Kind: rules.Lock, By: "order", Bucket: "order", Wait: time.Minute}
		account := rules.Limit{Kind: rules.Lock, By: "account", Bucket: "account", Wait: time.Minute}
		l := inMemory().limiter(t)
		charge, refund := l.Guard(create(order, account)), l.Guard(create(account, order))
		var calls sync.WaitGroup
		call := func(g *ratelimit.Guard, ids ...ratelimit.Input) {
			calls.Go(func() {
				err := run(g, t.Context(), func(context.Context) error {
					time.Sleep(time.Millisecond) // the bubble's clock
					return nil
				}, ids...)
				if err != nil {
					t.Errorf("a call = %v, want nil", err)
				}
			})
		}
		began := time.Now()
		for range 5 {
			call(charge, by("42"), by("alice"))
			call(refund, by("alice"), by("42"))
		}
		calls.Wait()
		if took := time.Since(began); took > time.Second {
			t.Errorf("took %v, want the time of the calls", took)
		}
	})
}

// TestWidestLockLast holds that a call which waits for its id keeps nobody from the lock of all callers.
func TestWidestLockLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := rules.Limit{Kind: rules.Lock, Name: "all", Bucket: "all"}
		one := rules.Limit{Kind: rules.Lock, By: "id", Wait: time.Minute}
		l := inMemory().limiter(t)
		both, id, everybody := l.Guard(create(all, one)), l.Guard(create(one)), l.Guard(create(all))
		var waits sync.WaitGroup
		err := run(id, t.Context(), func(context.Context) error {
			waits.Go(func() {
				if err := run(both, t.Context(), nothing, ratelimit.Input{}, by("42")); err != nil {
					t.Errorf("the call that waits = %v, want nil", err)
				}
			})
			synctest.Wait()
			return run(everybody, t.Context(), nothing)
		}, by("42"))
		if err != nil {
			t.Errorf("a call of all meanwhile = %v, want nil", err)
		}
		waits.Wait()
	})
}

// TestNestedCallsInFlight holds that a call within another of the same method, which lets one be in flight, is in the lock at once and is denied a place
// after its wait, and that both let go of all.
func TestNestedCallsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := inFlight(1)
		one.Wait = 3 * time.Second
		l := inMemory().limiter(t)
		g, locked := l.Guard(create(one, rules.Limit{Kind: rules.Lock, Wait: time.Minute})), l.Guard(create(rules.Limit{Kind: rules.Lock}))
		err := run(g, alice(), func(ctx context.Context) error {
			began := time.Now()
			wantBusy(t, run(g, ctx, nothing), "Create/concurrency")
			if took := time.Since(began); took != one.Wait {
				t.Errorf("denied after %v, want %v", took, one.Wait)
			}
			return run(locked, ctx, nothing)
		})
		if err != nil {
			t.Errorf("the lock alone = %v, want it to nest", err)
		}
		if err := run(g, alice(), nothing); err != nil {
			t.Errorf("afterwards: %v", err)
		}
	})
}
