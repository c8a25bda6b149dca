package storetest

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// testNumbers uses limits up at both ends of what the rule language takes: no permit is lost or gained, and all of it is
// exact to the microsecond.
func testNumbers(t *testing.T, s Subject) {
	forEach(func(t *testing.T, s Subject, v variant) {
		taken := 0
		for _, window := range []time.Duration{time.Millisecond, time.Second, 7 * 24 * time.Hour, 366 * 24 * time.Hour} {
			for _, count := range []int64{1, 3, 1000, 9973, 1_000_000, 999_999_937, 1_000_000_000} {
				l, err := v.limit(rules.Rule{Count: count, Window: window})
				if err != nil {
					continue
				}
				taken++
				start := s.Clock.Now()
				req := store.NewRequest(&l, fmt.Sprintf("%s%s:%d", s.Prefix, v.options, taken), count)
				testNumber(t, s, req)
				if v.burst {
					req.Key, req.Burst, req.Cost = req.Key+"burst", 5, 1
					testShallow(t, s, req)
				}
				s.Clock.Move(start.Sub(s.Clock.Now())) // microseconds are exact for two centuries yet
			}
		}
		if taken < 12 {
			t.Errorf("%d pairs of a count and a window are taken, want more of the 28", taken)
		}
	})(t, s)
}

// testNumber uses a limit up, at once and then as early as told.
func testNumber(t *testing.T, s Subject, req store.Request) {
	t.Helper()
	most := s.remaining(t, req)[0]
	if most != req.Rules[0].Count {
		t.Fatalf("%v: %d remaining at first, want all", req.Rules, most)
	}
	first := req
	if first.Cost = most - 1; most > 1 {
		if out := s.take(t, first); !out.Allowed || out.Rules[0].Remaining != 1 {
			t.Fatalf("%v: Take of all but 1 = %+v, want allowed with 1 remaining", req.Rules, out)
		}
	}
	one := req
	one.Cost = 1
	if out := s.take(t, one); !out.Allowed || out.Rules[0].Remaining != 0 {
		t.Fatalf("%v: Take of the last = %+v, want allowed with 0 remaining", req.Rules, out)
	}
	for _, ask := range []store.Request{one, req} {
		out := s.take(t, ask)
		wait := longestRetry(out)
		if out.Allowed || wait <= 0 || wait > 2*req.Rules[0].Window {
			t.Fatalf("%v: Take of %d with 0 remaining = %+v, want denied for a window or less", req.Rules, ask.Cost, out)
		}
		s.Clock.Move(wait - time.Microsecond)
		if out := s.take(t, ask); out.Allowed || longestRetry(out) != time.Microsecond {
			t.Fatalf("%v: Take of %d 1µs before its retry-after of %v = %+v, want denied for 1µs", req.Rules, ask.Cost, wait, out)
		}
		s.Clock.Move(time.Microsecond)
		if out := s.take(t, ask); !out.Allowed {
			t.Fatalf("%v: Take of %d after its retry-after of %v = %+v, want allowed", req.Rules, ask.Cost, wait, out)
		}
	}
	for _, cost := range []int64{most + 1, 1 << 53, math.MaxInt64} {
		over := req
		over.Cost = cost
		if out := s.take(t, over); out.Allowed || out.Rules[0].RetryAfter != store.Never {
			t.Fatalf("%v: Take of %d = %+v, want denied for ever", req.Rules, cost, out)
		}
	}
}

// testChangedLimits lets deployments change a limit's numbers and its algorithm's options under one key, one after the
// other and back: no call fails, and each of them is used up where its own calls say so.
func testChangedLimits(t *testing.T, s Subject) {
	keyOf := func(a rules.Algorithm) string { return s.Prefix + "changed@" + a.String() }
	numbers := []rules.Rule{
		{Count: 5, Window: time.Second}, {Count: 3, Window: time.Minute}, {Count: 9, Window: time.Second}, {Count: 100, Window: time.Hour},
	}
	for round := range repeats(1, 3) {
		for i, r := range numbers {
			for j := range variants {
				v := variants[(j+round*i)%len(variants)]
				l := v.must(t, r)
				req := store.NewRequest(&l, keyOf(l.Algorithm), 1)
				for passed := int64(0); ; passed++ {
					out, err := store.Take(context.Background(), s.Store, []store.Request{req}, true)
					if err != nil {
						t.Fatalf("%v under the key of other limits: %v", l, err)
					}
					if out.Allowed == (longestRetry(out) > 0) || passed > r.Count {
						t.Fatalf("%v under the key of other limits, call %d: %+v", l, passed+1, out)
					}
					if !out.Allowed {
						break
					}
				}
				s.Clock.Move(200 * time.Millisecond)
			}
		}
	}
}

// testShallow takes permits one by one out of a bucket of 5, however fast they come back.
func testShallow(t *testing.T, s Subject, req store.Request) {
	t.Helper()
	for left := int64(4); left >= 0; left-- {
		if out := s.take(t, req); !out.Allowed || out.Rules[0].Remaining != left {
			t.Fatalf("%v with a burst of 5: Take = %+v, want allowed with %d remaining", req.Rules, out, left)
		}
	}
	if out := s.take(t, req); out.Allowed || out.Rules[0].Remaining != 0 {
		t.Fatalf("%v with a burst of 5: Take of a sixth = %+v, want denied", req.Rules, out)
	}
}
