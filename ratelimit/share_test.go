package ratelimit_test

import (
	"context"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// register is a store that several limiters share, which counts them as Redis does.
type register struct {
	*brokenStore
	attended map[string]time.Time
}

func (r *register) Attend(_ context.Context, _, member string) (int, error) {
	if err := r.err(); err != nil {
		return 0, err
	}
	now := time.Now()
	r.attended[member] = now
	maps.DeleteFunc(r.attended, func(_ string, last time.Time) bool { return now.Sub(last) > store.Attendance })
	return len(r.attended), nil
}

// outage has instances share a limit of 12: idle of them start first, and are not called again, and busy of them start later and are. Then
// their store is gone. It returns how many calls of an id each lets through then, and by how many each says that it divides.
func outage(t *testing.T, idle, busy int, opts ...ratelimit.Option) (passed, shares []int) {
	t.Helper()
	r := &register{brokenBy(nil), map[string]time.Time{}}
	var guards []*ratelimit.Guard
	start := func() *ratelimit.Guard {
		g := limiter(t, r, append(opts, silent)...).Guard(create(rules.Limit{Kind: rules.User, Rules: per(12, time.Hour)}))
		guards = append(guards, g)
		return g
	}
	call := func(g *ratelimit.Guard, user string) ratelimit.Decision {
		d, _, err := g.Decide(ratelimit.WithUser(context.Background(), user))
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		return d
	}
	for range idle {
		call(start(), "first")
	}
	time.Sleep(time.Second)
	for range busy {
		start()
	}
	for range 2 { // in the first round, those before do not know of those behind
		for _, g := range guards[idle:] {
			call(g, "later")
		}
		time.Sleep(6 * time.Second)
	}
	r.fail(errDown)
	for _, g := range guards {
		n := 0
		for call(g, "new").Allowed {
			n++
		}
		passed, shares = append(passed, n), append(shares, call(g, "other").Limits[0].Instances)
	}
	return passed, shares
}

// TestSharesOfTheNumberHeardLast holds what instances let through by the number that each has heard last: together no more than the limit where all were
// called since the last of them started, and more where some were not, which go on with the number of then.
func TestSharesOfTheNumberHeardLast(t *testing.T) {
	for _, test := range []struct {
		name           string
		idle, busy     int
		opts           []ratelimit.Option
		passed, shares []int
	}{
		{"all called", 0, 4, nil, []int{3, 3, 3, 3}, []int{4, 4, 4, 4}},
		{"one not called since it was alone", 1, 3, nil, []int{12, 3, 3, 3}, []int{1, 4, 4, 4}},
		{"two not called since they were two", 2, 2, nil, []int{12, 6, 3, 3}, []int{1, 2, 4, 4}},
		{"the number said", 2, 2, []ratelimit.Option{ratelimit.WithInstances(4)}, []int{3, 3, 3, 3}, []int{4, 4, 4, 4}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				passed, shares := outage(t, test.idle, test.busy, test.opts...)
				if !slices.Equal(passed, test.passed) || !slices.Equal(shares, test.shares) {
					t.Errorf("%v calls passed, by shares of %v instances, want %v by %v", passed, shares, test.passed, test.shares)
				}
			})
		})
	}
}

// TestCostsAboveTheShare holds what an instance lets through alone of calls that cost more than its share: of one rule no more than the share, or one such
// call; of several, of which the smallest share is m, no more of each than its share times c/m, where c is the largest cost.
func TestCostsAboveTheShare(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		synctest.Test(t, func(t *testing.T) {
			count := rapid.Int64Range(1, 60).Draw(rt, "count")
			limit := rules.Limit{Kind: rules.User, Cost: "n", Rules: []rules.Rule{{Count: count, Window: time.Second}}}
			if rapid.Bool().Draw(rt, "two rules") {
				limit.Rules = append(limit.Rules, rules.Rule{Count: rapid.Int64Range(count+1, 10*count+1).Draw(rt, "more"), Window: 20 * time.Second})
			}
			instances := rapid.Int64Range(1, 30).Draw(rt, "instances")
			guard := limiter(t, failing(store.Unavailable), silent, ratelimit.WithInstances(int(instances))).Guard(create(limit))
			smallest := max(1, count/instances)
			passed, largest := make([]int64, len(limit.Rules)), int64(0)
			for range 15 {
				var in ratelimit.Input
				cost := rapid.Int64Range(1, count).Draw(rt, "cost")
				in.Cost(cost)
				largest = max(largest, cost)
				d, _, err := guard.Decide(alice(), in)
				if err != nil {
					rt.Fatal(err)
				}
				if d.Allowed {
					passed[0] += cost
					passed[len(passed)-1] += cost * int64(len(passed)-1)
				}
				most := max(smallest, largest)
				if passed[0] > most {
					rt.Fatalf("%d permits passed in a second, want at most the share of %d or one call of %d", passed[0], smallest, largest)
				}
				if len(passed) == 2 && passed[1]*smallest > max(1, limit.Rules[1].Count/instances)*most {
					rt.Fatalf("%d permits passed in 20s, want at most %d times %d/%d", passed[1], limit.Rules[1].Count/instances, most, smallest)
				}
				if rapid.Bool().Draw(rt, "a second passes") {
					time.Sleep(time.Second)
					passed[0] = 0
				}
			}
		})
	})
}
