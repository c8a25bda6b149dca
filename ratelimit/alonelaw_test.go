package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
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
	fault atomic.Int64
}

func (s *faulty) Take(ctx context.Context, requests []store.Request, detail bool, out *store.Outcome) error {
	switch fault(s.fault.Load()) {
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
func within(all []passed, r rules.Rule) (most int64) {
	for i, last := range all {
		n := int64(0)
		for _, p := range all[:i+1] {
			if p.at > last.at-r.Window {
				n += p.cost
			}
		}
		most = max(most, n)
	}
	return most
}

// aligned is the most that was let through in any of the windows that follow one another.
func aligned(all []passed, r rules.Rule) (most int64) {
	in := make(map[time.Duration]int64)
	for _, p := range all {
		in[p.at/r.Window] += p.cost
		most = max(most, in[p.at/r.Window])
	}
	return most
}

// beyond is the most that was let through in any time beyond what a bucket gains in it.
func beyond(gains func(rules.Rule, time.Duration) int64) func([]passed, rules.Rule) int64 {
	return func(all []passed, r rules.Rule) (most int64) {
		for i, last := range all {
			n := int64(0)
			for j := i; j >= 0; j-- {
				n += all[j].cost
				most = max(most, n-gains(r, last.at-all[j].at))
			}
		}
		return most
	}
}

// smooth is what a bucket gains in the store, and while that cannot decide in an instance as well.
func smooth(r rules.Rule, d time.Duration) int64 { return 2 * int64(d) * r.Count / int64(r.Window) }

func byInterval(r rules.Rule, d time.Duration) int64 { return 2 * (int64(d/r.Window) + 1) * r.Count }

// turn is what happens next: time passes, the store fails for some instances or is back, or one of them makes calls.
type turn struct {
	sleep  time.Duration
	fault  fault
	of     []bool // instances that have it, where sleep and calls are 0
	caller int
	calls  int
	cost   int64
}

func drawTurns(t *rapid.T, instances int, mostCost int64) (all []turn) {
	for range rapid.IntRange(1, 80).Draw(t, "turns") {
		var s turn
		switch rapid.IntRange(0, 3).Draw(t, "turn") {
		case 0:
			s.sleep = time.Duration(rapid.SampledFrom([]int{1, 100, 500, 1000, 2500, 10_000}).Draw(t, "ms")) * time.Millisecond
		case 1:
			s.fault = fault(rapid.IntRange(0, 3).Draw(t, "fault"))
			for range instances {
				s.of = append(s.of, rapid.Bool().Draw(t, "of"))
			}
		default:
			s.caller, s.calls = rapid.IntRange(0, instances-1).Draw(t, "caller"), rapid.IntRange(1, 8).Draw(t, "calls")
			s.cost = rapid.Int64Range(1, mostCost).Draw(t, "cost")
		}
		all = append(all, s)
	}
	return all
}

// TestBoundOfOutages tests how many calls n instances allow in one window while their store fails for
// some or all of them, in any way and any number of times: L by the store, and at most max(1, L/n) by each
// instance.
func TestBoundOfOutages(t *testing.T) {
	for _, test := range []struct {
		limit rules.Limit
		most  func([]passed, rules.Rule) int64 // that is no more than the count
	}{
		{rules.Limit{}, within},
		{rules.Limit{Algorithm: rules.CompactLog}, within},
		{rules.Limit{Algorithm: rules.SlidingWindow}, within},
		{rules.Limit{Algorithm: rules.FixedWindow}, aligned},
		{rules.Limit{Algorithm: rules.TokenBucket}, beyond(smooth)},
		{rules.Limit{Algorithm: rules.LeakyBucket}, beyond(smooth)},
		{rules.Limit{Algorithm: rules.GCRA}, beyond(smooth)},
		{rules.Limit{Algorithm: rules.TokenBucket, Refill: rules.RefillInterval}, beyond(byInterval)},
	} {
		test.limit.Kind, test.limit.Cost, test.limit.Rules = rules.User, "n", []rules.Rule{{Count: 6, Window: time.Second}, {Count: 12, Window: 10 * time.Second}}
		for _, instances := range []int{1, 2, 3} {
			t.Run(fmt.Sprintf("%v/%d instances", &test.limit, instances), func(t *testing.T) {
				rapid.Check(t, func(rt *rapid.T) {
					turns := drawTurns(rt, instances, int64(6/instances))
					var err error
					synctest.Test(t, func(*testing.T) { err = callThroughOutages(&test.limit, test.most, instances, turns) })
					if err != nil {
						rt.Fatal(err)
					}
				})
			})
		}
	}
}

// costing is the input of a call that takes so many permits.
func costing(permits int64) (in ratelimit.Input) {
	in.Cost(permits)
	return in
}

func callThroughOutages(of *rules.Limit, most func([]passed, rules.Rule) int64, instances int, turns []turn) error {
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
		guards = append(guards, l.Guard(create(*of)))
	}
	began := time.Now()
	var all []passed
	for _, s := range turns {
		time.Sleep(s.sleep)
		for i, has := range s.of {
			if has {
				stores[i].fault.Store(int64(s.fault))
			}
		}
		for range s.calls {
			_, err := guards[s.caller].Take(alice(), costing(s.cost))
			if err == nil {
				all = append(all, passed{time.Since(began), s.caller, s.cost})
			} else if !errors.Is(err, ratelimit.ErrExceeded) {
				return err
			}
		}
	}
	for _, r := range of.Rules {
		bound := r.Count + int64(instances)*max(1, r.Count/int64(instances))
		if n := most(all, r); n > bound {
			return fmt.Errorf("%d calls passed by %v, want at most %d: %v", n, r, bound, all)
		}
	}
	for _, s := range stores {
		s.fault.Store(int64(fine))
	}
	time.Sleep(21 * time.Second)
	for range 6 {
		if _, err := guards[0].Take(alice(), costing(1)); err != nil {
			return fmt.Errorf("a call is denied two windows after the last one, want it to pass: %w", err)
		}
	}
	return nil
}
