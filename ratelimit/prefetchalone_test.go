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

// TestNothingAheadIsGrantedTwice holds that a process which takes permits ahead lets through what the limit allows, before, while and after its store fails, in whatever way and however
// often: what it decides alone it decides beside the permits that it has in hand.
func TestNothingAheadIsGrantedTwice(t *testing.T) {
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
	if n := most(all, of.Rules[0]); n > of.Rules[0].Count {
		return nil, fmt.Errorf("%d calls passed by %v, want at most %d: %v", n, of.Rules[0], of.Rules[0].Count, all)
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

// remaining is what is left of the limits where the process decides alone.
func (u *using) remaining(t *testing.T, limits int) (all []int64) {
	t.Helper()
	u.store.fault.Store(int64(unavailable))
	defer u.store.fault.Store(int64(fine))
	var inputs []ratelimit.Input
	for range limits {
		inputs = append(inputs, costing(0))
	}
	d, _, err := u.Decide(alice(), inputs...)
	if err != nil || d.Degraded == nil {
		t.Fatalf("Decide = %+v, %v, want it decided alone", d, err)
	}
	for _, l := range d.Limits {
		all = append(all, l.Rules[0].Remaining)
	}
	return all
}

func (u *using) giveBack(t *testing.T, permits ...ratelimit.Permit) {
	t.Helper()
	for _, p := range permits {
		if err := p.GiveBack(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	u.passed -= int64(len(permits))
}

var quietly = []ratelimit.Option{silent}

// A process that decides alone knows what its calls have used of permits that were taken ahead, and of others, once these are over: no less, and no more.
func TestAloneKnowsWhatWasUsedAhead(t *testing.T) {
	const count = 1000
	for name, limits := range map[string][]rules.Limit{
		"alone":          {hot(count, time.Hour)},
		"beside another": {{Kind: rules.User, Rules: per(count, time.Hour)}, hot(count, time.Hour)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				u := use(t, 100, time.Millisecond, quietly, limits...)
				u.giveBack(t, u.ahead[len(u.ahead)-5:]...) // while their batch is good
				time.Sleep(200 * time.Millisecond)
				for _, back := range [][]ratelimit.Permit{nil, u.ahead[:7]} {
					u.giveBack(t, back...)
					for i, got := range u.remaining(t, len(limits)) {
						if got != count-u.passed {
							t.Errorf("%d remain of limit %d, want %d", got, i, count-u.passed)
						}
					}
				}
			})
		})
	}
}

// What is in hand is left to the calls that may use it, and comes back when they may no longer.
func TestAloneLeavesWhatIsInHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := hot(1000, time.Hour)
		limit.Cost = "n"
		u := use(t, 100, time.Millisecond, quietly, limit)
		u.giveBack(t, u.permits...)
		n := u.remaining(t, 1)[0]
		if n >= 1000 || n < 1000*27/32 {
			t.Errorf("%d remain beside what is in hand, want less than all, but for 5/32 at the most", n)
		}
		u.store.fault.Store(int64(unavailable))
		d, _, err := u.Decide(alice(), costing(n+1))
		if err != nil || d.Allowed || d.RetryAfter <= 0 || d.RetryAfter > limit.Prefetch {
			t.Errorf("Decide of more = %+v, %v, want it denied for as long as what is in hand can be used", d, err)
		}
		d, permit, err := u.Decide(alice(), costing(n))
		if err != nil || !d.Allowed {
			t.Fatalf("Decide of what remains = %+v, %v, want it allowed", d, err)
		}
		if err := permit.GiveBack(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(limit.Prefetch)
		if n := u.remaining(t, 1)[0]; n != 1000 {
			t.Errorf("%d remain once nothing is in hand, want all", n)
		}
	})
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

// A call that costs more than is left in hand is decided alone, beside that: it is denied for no longer than that can be used, where it would pass if none of it were.
func TestAloneBesideWhatIsInHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := hot(160, time.Hour)
		limit.Cost = "n"
		s := &faulty{Store: memstore.New()}
		l := limiter(t, away{s}, silent, ratelimit.WithInstances(1))
		g := l.Guard(create(limit))
		passed := int64(0)
		for ahead := false; !ahead; time.Sleep(time.Millisecond) {
			d, _, err := g.Decide(alice(), costing(1))
			if err != nil || !d.Allowed {
				t.Fatalf("Decide = %+v, %v, want it allowed", d, err)
			}
			passed++
			ahead = d.Limits[0].Source == ratelimit.SourcePrefetch
		}
		s.fault.Store(int64(unavailable))
		all := func(cost int64) (n int64, wait time.Duration) {
			for {
				d, _, err := g.Decide(alice(), costing(cost))
				if err != nil {
					t.Fatal(err)
				}
				if !d.Allowed {
					return n, d.RetryAfter
				}
				n += cost
			}
		}
		large, _ := all(32)
		small, wait := all(1)
		if n := passed + large + small; large == 0 || n >= 160 || wait <= 0 || wait > limit.Prefetch {
			t.Fatalf("%d permits were used of 160, %d by large calls, and the next is to wait for %v, want some for the permits in hand, and to wait for their end", n, large, wait)
		}
		time.Sleep(wait - 1)
		if n, again := all(1); n != 0 || again != 1 {
			t.Errorf("%d calls pass before the permits in hand have ended, and the next is to wait for %v, want none, and 1ns", n, again)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait() // while they end, what was used of them may count twice, which lets less pass for an instant
		rest, wait := all(1)
		if n := passed + large + small + rest; n != 160 || wait < time.Hour-limit.Prefetch {
			t.Errorf("%d permits were used of 160, and the next call is to wait for %v, want all, and about an hour", n, wait)
		}
	})
}

// What was used ahead is forgotten with the rest.
func TestForgetWhatWasUsedAhead(t *testing.T) {
	id := ratelimit.ID{Kind: rules.Global}
	for name, forget := range map[string]func(*using) error{
		"reset": func(u *using) error { return u.Reset(context.Background(), id) },
		"grant": func(u *using) error { return u.Grant(context.Background(), id, 1000) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				u := use(t, 100, time.Millisecond, quietly, hot(1000, time.Hour))
				if err := forget(u); err != nil {
					t.Fatal(err)
				}
				for _, later := range []time.Duration{0, time.Second} {
					time.Sleep(later)
					if got := u.remaining(t, 1)[0]; got != 1000 {
						t.Errorf("%d remain %v later, want all", got, later)
					}
				}
			})
		})
	}
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
