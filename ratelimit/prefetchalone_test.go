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
	"github.com/rlgen/rlgen/rules"
)

// away is the way to a store that is far away, and fails as it is told.
type away struct{ *faulty }

func (away) Remote() {}

// volley is what happens next: time passes, the store fails or is back, and calls are made.
type volley struct {
	sleep time.Duration
	fault fault
	calls int
	cost  int64
	pause time.Duration // behind each call
}

var drawVolley = rapid.Custom(func(t *rapid.T) volley {
	r := volley{sleep: time.Duration(rapid.SampledFrom([]int{0, 0, 1, 20, 70, 100, 500, 1000, 2500}).Draw(t, "ms")) * time.Millisecond}
	if rapid.Bool().Draw(t, "fails") {
		r.fault = fault(rapid.IntRange(0, 3).Draw(t, "fault"))
	}
	r.calls, r.cost = rapid.IntRange(0, 60).Draw(t, "calls"), rapid.SampledFrom([]int64{1, 1, 1, 2, 7}).Draw(t, "cost")
	r.pause = time.Duration(rapid.Int64Range(0, int64(5*time.Millisecond)).Draw(t, "pause"))
	return r
})

// TestNothingAheadIsGrantedTwice holds that a process which takes permits ahead lets through what the limit allows, before, while and after its store fails, in whatever way and however
// often: what it decides alone it decides beside the permits that it has in hand.
func TestNothingAheadIsGrantedTwice(t *testing.T) {
	ahead, alone := 0, 0
	for _, test := range []struct {
		limit rules.Limit
		most  func([]passed, rules.Rule) int64 // that is no more than the count
	}{
		{rules.Limit{}, within},
		{rules.Limit{Algorithm: rules.CompactLog}, within},
		{rules.Limit{Algorithm: rules.SlidingWindow}, within},
		{rules.Limit{Algorithm: rules.TokenBucket}, beyond(smooth)},
		{rules.Limit{Algorithm: rules.GCRA}, beyond(smooth)},
	} {
		test.limit.Kind, test.limit.Cost, test.limit.Rules, test.limit.Prefetch = rules.User, "n", per(96, time.Second), 100*time.Millisecond
		t.Run(test.limit.String(), func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				volleys := rapid.SliceOfN(drawVolley, 1, 40).Draw(rt, "volleys")
				var err error
				synctest.Test(t, func(*testing.T) {
					var by map[ratelimit.Source]int
					by, err = callAlone(&test.limit, test.most, volleys)
					ahead += by[ratelimit.SourcePrefetch]
					alone += by[ratelimit.SourceLocal]
				})
				if err != nil {
					rt.Fatal(err)
				}
			})
		})
	}
	if ahead < 1000 || alone < 1000 {
		t.Errorf("%d calls passed by permits taken ahead, and %d were decided alone, want more, to tell something", ahead, alone)
	}
}

// callAlone makes the calls of one process, and returns how many passed by whose decision.
func callAlone(of *rules.Limit, most func([]passed, rules.Rule) int64, volleys []volley) (map[ratelimit.Source]int, error) {
	s := &faulty{Store: memstore.New()}
	l, err := ratelimit.New(away{s}, silent, ratelimit.WithInstances(1))
	if err != nil {
		return nil, err
	}
	defer l.Close(context.Background())
	guard, began, by := l.Guard(create(*of)), time.Now(), make(map[ratelimit.Source]int)
	var all []passed
	for _, r := range volleys {
		s.fault.Store(int64(r.fault))
		for range r.calls {
			d, _, err := guard.Decide(alice(), costing(r.cost))
			if err != nil && !errors.Is(err, ratelimit.ErrExceeded) {
				return nil, err
			}
			if d.Allowed {
				all = append(all, passed{at: time.Since(began), cost: r.cost})
				by[d.Limits[0].Source]++
			}
			time.Sleep(r.pause)
		}
		time.Sleep(r.sleep)
	}
	if n := most(all, of.Rules[0]); n > of.Rules[0].Count {
		return nil, fmt.Errorf("%d calls passed by %v, want at most %d: %v", n, of.Rules[0], of.Rules[0].Count, all)
	}
	return by, nil
}
