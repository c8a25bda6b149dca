package ratelimit_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/lock"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// fate is what becomes of the askings of stores: nothing, while it is nil.
type fate struct{ of func(context.Context) error }

func (f *fate) befalls(ctx context.Context) error {
	if f.of == nil {
		return nil
	}
	return f.of(ctx)
}

func (f *fate) over(s stores) stores { return stores{fatedRates{s.rates, f}, fatedLocks{s.locks, f}} }

type fatedRates struct {
	store.Store
	*fate
}

func (s fatedRates) Take(ctx context.Context, requests []store.Request, detail bool, out *store.Outcome) error {
	if err := s.befalls(ctx); err != nil {
		return err
	}
	return s.Store.Take(ctx, requests, detail, out)
}

type fatedLocks struct {
	lock.Store
	*fate
}

func (s fatedLocks) Acquire(ctx context.Context, c lock.Claim) (lock.Answer, error) {
	if err := s.befalls(ctx); err != nil {
		return lock.Answer{}, err
	}
	return s.Store.Acquire(ctx, c)
}

// TestEndedCallsSayNothingOfTheStore holds that the log takes a store neither for down nor for back because of a caller who goes away while it
// is asked.
func TestEndedCallsSayNothingOfTheStore(t *testing.T) {
	for name, l := range map[string]rules.Limit{
		"rate":        {Kind: rules.Global, Rules: per(1000, time.Hour)},
		"concurrency": inFlight(1000),
		"lock":        {Kind: rules.Lock},
	} {
		for _, l.Mode = range []rules.Mode{rules.Enforce, rules.Shadow} {
			t.Run(name+" "+l.Mode.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var f fate
					var log bytes.Buffer
					l.OnFail = rules.FailOpen
					g := f.over(inMemory()).limiter(t, ratelimit.WithLogger(slog.New(slog.NewTextHandler(&log, nil)))).Guard(create(l))
					call := func(of func(context.Context) error) {
						f.of = of
						if err := run(g, alice(), nothing); err != nil {
							t.Error(err)
						}
					}
					leave := func() {
						ctx, cancel := context.WithCancel(alice())
						f.of = func(ctx context.Context) error { cancel(); return store.Ended(ctx) }
						if err := run(g, ctx, nothing); l.Mode == rules.Enforce && !errors.Is(err, context.Canceled) {
							t.Errorf("a call whose context ended = %v, want %v", err, context.Canceled)
						}
					}
					expect := func(when string, down, back int) {
						t.Helper()
						if d, b := strings.Count(log.String(), "cannot decide"), strings.Count(log.String(), "decides again"); d != down || b != back {
							t.Errorf("%s the log says %d times that it is down and %d that it is back, want %d and %d:\n%s", when, d, b, down, back, &log)
						}
					}
					call(nil)
					leave()
					expect("a caller having gone away,", 0, 0)
					call(func(context.Context) error { return errDown })
					expect("the store being down,", 1, 0)
					time.Sleep(2 * time.Second) // the bubble's clock
					leave()
					expect("a caller having gone away meanwhile,", 1, 0)
					call(nil)
					expect("the store being back,", 1, 1)
				})
			})
		}
	}
}

// TestLostOuterLockSaysNothingOfTheStore holds that a call which nests in a lock that is lost fails, whatever onfail says, with a
// context that did not end by that, too.
func TestLostOuterLockSaysNothingOfTheStore(t *testing.T) {
	for _, l := range []rules.Limit{{Kind: rules.Lock, OnFail: rules.FailOpen}, {Kind: rules.Lock}} {
		t.Run(l.OnFail.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				s := stores{inMemory().rates, losing{lock.NewMemory()}}
				g := s.limiter(t, ratelimit.WithLogger(slog.New(slog.NewTextHandler(&log, nil)))).Guard(create(l))
				_ = run(g, alice(), func(ctx context.Context) error {
					<-ctx.Done()
					err := run(g, context.WithoutCancel(ctx), nothing)
					if !errors.Is(err, ratelimit.ErrUnavailable) || !errors.Is(err, lock.ErrLost) {
						t.Errorf("a call within = %v, want %v and %v", err, ratelimit.ErrUnavailable, lock.ErrLost)
					}
					return nil
				})
				if log.Len() > 0 {
					t.Errorf("the log says\n%s, want nothing", &log)
				}
			})
		})
	}
}
