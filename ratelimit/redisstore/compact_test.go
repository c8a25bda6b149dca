package redisstore_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
	"github.com/rlgen/rlgen/rules"
)

// hourlyCompact asks for cost from a compact log of count in an hour.
func hourlyCompact(key string, count, cost int64) store.Request {
	req := request(key, count, cost)
	req.Algorithm = rules.CompactLog
	return req
}

// TestCompactLogGivesBackOnce gives back admissions of one microsecond: each as often as it was made and not more, and nothing
// where it is not known when the call was charged.
func TestCompactLogGivesBackOnce(t *testing.T) {
	subject := heldClock(redistest.Standalone(t).Client(t))(t)
	for name, filled := range map[string]int64{"whole": 0, "in parts": 300} {
		t.Run(name, func(t *testing.T) {
			ask := func(cost int64) store.Request { return hourlyCompact(subject.Prefix+name, 1000, cost) }
			if filled > 0 {
				take(t, subject.Store, ask(filled))
				subject.Clock.Move(time.Microsecond)
			}
			var receipts []store.Receipt
			for _, cost := range []int64{2, 2, 3} {
				receipts = append(receipts, take(t, subject.Store, ask(cost)).Receipt)
			}
			subject.Clock.Move(10 * time.Second)
			take(t, subject.Store, ask(2))
			back := func(r store.Receipt, want int64, when string) {
				t.Helper()
				if err := subject.Store.GiveBack(context.Background(), r); err != nil {
					t.Fatal(err)
				}
				if out := take(t, subject.Store, ask(0)); out.Rules[0].Remaining != want-filled {
					t.Errorf("%d remaining %s, want %d", out.Rules[0].Remaining, when, want-filled)
				}
			}
			undated := receipts[0]
			undated.Charges = nil
			back(undated, 991, "after a receipt that does not say when it was charged")
			back(receipts[1], 993, "after the second is given back")
			back(receipts[1], 993, "after the second is given back again")
			twice := receipts[2]
			twice.Charges = []store.Charge{{At: twice.Charges[0].At}}
			back(twice, 996, "after the third is given back")
			back(receipts[2], 996, "after the third is given back by another receipt, where two are left of that microsecond")
			back(receipts[0], 998, "after all of the microsecond is given back")
		})
	}
}

// TestCompactLogAroundZero takes, denies and gives back in the microseconds in which the bytes of the time begin anew, which
// they do once in nine years: all as a sliding log does, but for a microsecond.
func TestCompactLogAroundZero(t *testing.T) {
	subject := heldClock(redistest.Standalone(t).Client(t))(t)
	const year2032 = 7 << 48
	for _, filled := range []int64{1, 9, 17, 19, 300} {
		for _, before := range []int64{1 << 40, 1 << 16, 256, 3, 2, 1} {
			subject.Clock.Move(time.Duration(year2032-before-1-subject.Clock.Now().UnixMicro()) * time.Microsecond)
			both := func(cost int64) [2]store.Outcome {
				t.Helper()
				key := fmt.Sprint(subject.Prefix, filled, "-", before)
				sliding, compact := request(key, filled+9, cost), hourlyCompact(key+"c", filled+9, cost)
				sliding.Rules = []rules.Rule{{Count: filled + 9, Window: 20 * 24 * time.Hour}}
				compact.Rules = sliding.Rules
				outs := [2]store.Outcome{take(t, subject.Store, sliding), take(t, subject.Store, compact)}
				if cost > 0 && subject.Clock.Now().UnixMicro() == year2032 {
					outs[1].Rules[0].ResetAfter -= time.Microsecond // what would be zeros is recorded as the next
				}
				if outs[0].Allowed != outs[1].Allowed || outs[0].Rules[0] != outs[1].Rules[0] {
					t.Errorf("%d µs before, after %d, cost %d at %d: %+v, want as by a sliding log %+v",
						before, filled, cost, subject.Clock.Now().UnixMicro()-year2032, outs[1].Rules, outs[0].Rules)
				}
				return outs
			}
			both(filled)
			var taken [][2]store.Outcome
			for _, step := range []time.Duration{1, time.Duration(before - 1), 1, 1, 1, 300} {
				subject.Clock.Move(step * time.Microsecond)
				taken = append(taken, both(1))
			}
			both(4)
			for _, outs := range taken[1:4] {
				for _, out := range outs {
					if err := subject.Store.GiveBack(context.Background(), out.Receipt); err != nil {
						t.Fatal(err)
					}
				}
				both(0)
			}
			both(3)
			both(4)
		}
	}
}
