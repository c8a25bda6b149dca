package redisstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/rlgen/rlgen/ratelimit/redisstore"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
	"github.com/rlgen/rlgen/rules"
)

// TestCompactLogGivesBackItsOwn gives back admissions whose bases end in the same 32 bits: of each, what it has charged and
// when, and of one whose answer was lost, the newest of the last minute.
func TestCompactLogGivesBackItsOwn(t *testing.T) {
	client := redistest.Standalone(t).Client(t)
	base := uint64(20_000_000_000_000)
	subject := heldClock(client, redisstore.WithBases(func() uint64 { base += 1 << 32; return base }))(t)
	ctx := context.Background()
	ask := func(key string, cost int64) store.Request {
		return store.Request{Key: subject.Prefix + key, Algorithm: rules.CompactLog, Cost: cost, Rules: []rules.Rule{{Count: 1000, Window: time.Hour}}}
	}
	for name, filled := range map[string]int64{"whole": 0, "in parts": 300} {
		t.Run(name, func(t *testing.T) {
			if filled > 0 {
				take(t, subject.Store, ask(name, filled))
				subject.Clock.Move(2 * time.Minute)
			}
			var receipts []store.Receipt
			for _, cost := range []int64{2, 2, 2} {
				receipts = append(receipts, take(t, subject.Store, ask(name, cost)).Receipt)
				subject.Clock.Move(10 * time.Second)
			}
			left := func(want int64, when string) {
				t.Helper()
				if out := take(t, subject.Store, ask(name, 0)); out.Rules[0].Remaining != want-filled {
					t.Errorf("%d remaining %s, want %d", out.Rules[0].Remaining, when, want-filled)
				}
			}
			back := func(r store.Receipt) {
				t.Helper()
				if err := subject.Store.GiveBack(ctx, r); err != nil {
					t.Fatal(err)
				}
			}
			back(receipts[1])
			left(996, "after the second is given back")
			back(receipts[1])
			left(996, "after the second is given back again")
			lost := receipts[2]
			lost.Charges = nil
			back(lost)
			left(998, "after the third is given back by its base alone")
			subject.Clock.Move(time.Minute)
			lost = receipts[0]
			lost.Charges = nil
			back(lost)
			left(998, "after the first is given back by its base alone, more than a minute later")
			back(receipts[0])
			left(1000, "after all is given back")
		})
	}
}
