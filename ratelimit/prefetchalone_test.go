package ratelimit_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
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

// TestBoundOfOutagesWithPrefetch tests the bound of TestBoundOfOutages for one instance with prefetched
// permits: L by the store, prefetched permits included, and L by the instance alone.
func TestBoundOfOutagesWithPrefetch(t *testing.T) {
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
			ahead, alone := 0, 0
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
			if ahead == 0 || alone == 0 {
				t.Errorf("%d calls passed with prefetched permits, and %d without the store, want some of both", ahead, alone)
			}
		})
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
	if n, bound := most(all, of.Rules[0]), 2*of.Rules[0].Count; n > bound {
		return nil, fmt.Errorf("%d calls passed by %v, want at most %d: %v", n, of.Rules[0], bound, all)
	}
	return by, nil
}

// using is one process that uses permits taken ahead, of its last limit.
type using struct {
	*ratelimit.Guard
	limiter *ratelimit.Limiter
	store   *faulty
	passed  int64
	permits []ratelimit.Permit // of all calls
	ahead   []ratelimit.Permit // of those that passed ahead
}

// use makes calls, with a pause behind each, until so many have passed by permits that were taken ahead.
func use(t *testing.T, calls int, pause time.Duration, opts []ratelimit.Option, limits ...rules.Limit) *using {
	t.Helper()
	u := &using{store: &faulty{Store: memstore.New()}}
	u.limiter = limiter(t, away{u.store}, append(opts, ratelimit.WithInstances(1))...)
	u.Guard = u.limiter.Guard(create(limits...))
	var inputs []ratelimit.Input
	for range limits {
		inputs = append(inputs, costing(1))
	}
	for len(u.ahead) < calls {
		d, permit, err := u.Decide(alice(), inputs...)
		if err != nil || !d.Allowed {
			t.Fatalf("Decide = %+v, %v, want it allowed", d, err)
		}
		u.passed++
		u.permits = append(u.permits, permit)
		if d.Limits[len(d.Limits)-1].Source == ratelimit.SourcePrefetch {
			u.ahead = append(u.ahead, permit)
		}
		time.Sleep(pause)
	}
	return u
}

// A call that passes by permits taken ahead is no sign that the store is back.
func TestAheadIsNoSignOfTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		limit := hot(1000, time.Hour)
		limit.Prefetch = 4 * time.Second
		u := use(t, 1, 100*time.Millisecond, []ratelimit.Option{ratelimit.WithLogger(slog.New(slog.NewTextHandler(&log, nil)))}, limit)
		defer u.limiter.Close(context.Background())
		u.store.fault.Store(int64(unavailable))
		beside := u.limiter.Guard(&rules.Policy{Package: "example.com/shop", Type: "shop.Orders", Method: "Get", Limits: []rules.Limit{{Kind: rules.User, Rules: per(10, time.Hour)}}})
		if _, err := beside.Take(alice()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(1100 * time.Millisecond)
		if d, _, err := u.Decide(alice()); err != nil || d.Limits[0].Source != ratelimit.SourcePrefetch {
			t.Errorf("Decide = %+v, %v, want it allowed ahead", d, err)
		}
		if text := log.String(); !strings.Contains(text, "cannot decide") || strings.Contains(text, "decides again") {
			t.Errorf("the log says that the store is back, or not that it is away:\n%s", text)
		}
	})
}

// awayFleet is a store that is far away and counts its members.
type awayFleet struct{ *fleetStore }

func (awayFleet) Remote() {}

// A process whose calls all pass by permits taken ahead is counted.
func TestInstancesThatTakeAheadAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := awayFleet{&fleetStore{brokenStore: working(), members: 4}}
		l := limiter(t, s, silent)
		g := l.Guard(create(hot(10_000, time.Second)))
		defer l.Close(context.Background())
		call := func(of time.Duration) map[ratelimit.Source]int {
			by := make(map[ratelimit.Source]int)
			for end := time.Now().Add(of); time.Now().Before(end); time.Sleep(time.Millisecond) {
				d, _, err := g.Decide(alice())
				if err != nil || !d.Allowed {
					t.Fatalf("Decide = %+v, %v, want it allowed", d, err)
				}
				by[d.Limits[0].Source]++
			}
			return by
		}
		call(time.Second)
		before := s.attended()
		by := call(20 * time.Second)
		if n := s.attended() - before; n != 4 || by[ratelimit.SourceStore] != 0 {
			t.Errorf("attended %d times in 20s with calls that were decided by %v, want 4, and all ahead", n, by)
		}
	})
}
