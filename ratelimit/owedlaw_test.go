package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/memstore"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// fault is how a store fails: a store that executes nothing, one that may have executed and has not, or one that has.
type fault int

const (
	fine fault = iota
	unavailable
	unheard
	unanswered
)

// faulty is one instance's way to the store that all share.
type faulty struct {
	store.Store
	fault fault
}

func (s *faulty) Take(ctx context.Context, requests []store.Request, detail bool, out *store.Outcome) error {
	switch s.fault {
	case unavailable:
		return &store.Error{Class: store.Unavailable, Err: errors.New("away")}
	case unanswered:
		if err := s.Store.Take(ctx, requests, detail, out); err != nil {
			return err
		}
		fallthrough
	case unheard:
		return &store.Error{Class: store.Indeterminate, Err: errors.New("no answer")}
	}
	return s.Store.Take(ctx, requests, detail, out)
}

// passed is a call that was let through.
type passed struct {
	at       time.Duration
	instance int
	cost     int64
}

// within is the most that was let through in any window of a length, both ends in it but one.
func within(all []passed, window time.Duration) (most int64) {
	for i, last := range all {
		n := int64(0)
		for _, p := range all[:i+1] {
			if p.at > last.at-window {
				n += p.cost
			}
		}
		most = max(most, n)
	}
	return most
}

// turn is what happens next: time passes, the store fails for some instances or is back, or one of them makes calls.
type turn struct {
	sleep  time.Duration
	fault  fault
	of     []bool // instances that have it, where sleep and calls are 0
	caller int
	calls  int
}

func drawSteps(t *rapid.T, instances int) (all []turn) {
	for range rapid.IntRange(1, 80).Draw(t, "steps") {
		var s turn
		switch rapid.IntRange(0, 3).Draw(t, "step") {
		case 0:
			s.sleep = time.Duration(rapid.SampledFrom([]int{1, 100, 500, 1000, 2500, 10_000}).Draw(t, "ms")) * time.Millisecond
		case 1:
			s.fault = fault(rapid.IntRange(0, 3).Draw(t, "fault"))
			for range instances {
				s.of = append(s.of, rapid.Bool().Draw(t, "of"))
			}
		default:
			s.caller, s.calls = rapid.IntRange(0, instances-1).Draw(t, "caller"), rapid.IntRange(1, 8).Draw(t, "calls")
		}
		all = append(all, s)
	}
	return all
}

// TestNothingIsGrantedTwice holds the bound of what instances let through in any window, before, while and after their store fails for some or all of them, in whatever
// way and however often: the count, and a share of each instance but one. One instance alone lets through the count.
func TestNothingIsGrantedTwice(t *testing.T) {
	for _, algorithm := range []rules.Algorithm{rules.SlidingLog, rules.CompactLog, rules.SlidingWindow} {
		for _, instances := range []int{1, 2, 3} {
			t.Run(fmt.Sprintf("%v of %d", algorithm, instances), func(t *testing.T) {
				rapid.Check(t, func(rt *rapid.T) {
					steps := drawSteps(rt, instances)
					var err error
					synctest.Test(t, func(*testing.T) { err = grantOnce(algorithm, instances, steps) })
					if err != nil {
						rt.Fatal(err)
					}
				})
			})
		}
	}
}

func grantOnce(algorithm rules.Algorithm, instances int, steps []turn) error {
	of := rules.Limit{Kind: rules.User, Algorithm: algorithm, Rules: []rules.Rule{{Count: 6, Window: time.Second}, {Count: 12, Window: 10 * time.Second}}}
	shared := memstore.New()
	var stores []*faulty
	var guards []*ratelimit.Guard
	for range instances {
		s := &faulty{Store: shared}
		stores = append(stores, s)
		l, err := ratelimit.New(s, silent, ratelimit.WithInstances(instances))
		if err != nil {
			return err
		}
		defer l.Close(context.Background())
		guards = append(guards, l.Guard(create(of)))
	}
	began := time.Now()
	var all []passed
	for _, s := range steps {
		time.Sleep(s.sleep)
		for i, has := range s.of {
			if has {
				stores[i].fault = s.fault
			}
		}
		for range s.calls {
			_, err := guards[s.caller].Take(alice())
			if err == nil {
				all = append(all, passed{time.Since(began), s.caller, 1})
			} else if !errors.Is(err, ratelimit.ErrExceeded) {
				return err
			}
		}
	}
	for _, r := range of.Rules {
		bound := r.Count + int64(instances-1)*(r.Count/int64(instances))
		if n := within(all, r.Window); n > bound {
			return fmt.Errorf("%d calls passed in %v, want at most %d: %v", n, r.Window, bound, all)
		}
	}
	for _, s := range stores {
		s.fault = fine
	}
	time.Sleep(12 * time.Second)
	for range 6 {
		if _, err := guards[0].Take(alice()); err != nil {
			return fmt.Errorf("a call is denied a window after the last one, want it to pass: %w", err)
		}
	}
	return nil
}
