package memstore

import (
	"context"
	"testing"
	"time"

	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// A new key without room takes the place of that one of the next few which expires first.
func TestEvictsWhatExpiresFirst(t *testing.T) {
	const keys = 20
	var sh shard
	for i := range keys {
		sh.fresh(0, uint64(i), string(rune('a'+i)), bucketSteps, keys).expires = int64(1000 - i)
	}
	sh.hand = 0
	sh.evict()
	if e := sh.get(2*looksNew, string(rune('a'+2*looksNew))); e != nil || len(sh.all) != keys-1 {
		t.Errorf("%d entries are left, with %+v, want all but this one", len(sh.all), e)
	}
}

// What has expired is used again for new keys, a bounded number of entries.
func TestSpares(t *testing.T) {
	var sh shard
	for i := range 2 * mostSpares {
		sh.fresh(0, uint64(i), string(rune('a'+i)), bucketSteps, 100).expires = 10
	}
	sh.sweep(10, 100)
	if n := len(sh.spares); n != mostSpares {
		t.Fatalf("%d spares, want %d", n, mostSpares)
	}
	for left := mostSpares - 1; left >= 0; left-- {
		spare := sh.spares[left]
		if got := sh.spare(); got != spare || len(sh.spares) != left {
			t.Fatalf("spare() = %p with %d left, want %p with %d", got, len(sh.spares), spare, left)
		}
	}
}

// A call of known keys, whose outcome has been one before, allocates nothing, and what only looks has no charges.
func TestTakeAllocatesNothing(t *testing.T) {
	s := New()
	requests := []store.Request{
		{Key: "a", Algorithm: rules.GCRA, Rules: []rules.Rule{{Count: 1_000_000, Window: time.Hour}}, Cost: 1},
		{Key: "b", Algorithm: rules.FixedWindow, Rules: []rules.Rule{{Count: 1_000_000, Window: time.Hour}}, Cost: 1},
	}
	var out store.Outcome
	call := func() {
		if err := s.Take(context.Background(), requests, true, &out); err != nil || !out.Allowed {
			t.Fatalf("Take = %+v, %v, want it allowed", out, err)
		}
	}
	if n := testing.AllocsPerRun(100, call); n != 0 {
		t.Errorf("a call allocates %v times, want 0", n)
	}
	requests[0].Cost, requests[1].Cost = 0, 0
	if call(); len(out.Receipt.Charges) != 0 {
		t.Errorf("the receipt of a look has the charges %v, want none", out.Receipt.Charges)
	}
}
