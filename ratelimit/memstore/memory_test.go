package memstore

import (
	"context"
	"testing"
	"time"

	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

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

// A new key without room takes the place of that one of the next few which expires first.
func TestEvictsWhatExpiresFirst(t *testing.T) {
	const keys = 20
	var table table[bucket, *bucket]
	for i := range keys {
		_, expires := table.put(withHome(i, i), string(rune('a'+i)))
		*expires = int64(1000 - i)
	}
	table.evict()
	last := 2*looksNew - 1
	if c, _ := table.get(withHome(last, last), string(rune('a'+last))); c != nil || table.len() != keys-1 {
		t.Errorf("%d keys are left, with %+v, want all but this one", table.len(), c)
	}
}

// The memory of what has expired is used again for new keys, a bounded part of it.
func TestSpares(t *testing.T) {
	var table table[slidingLog, *slidingLog]
	for i := range 2 * mostSpares {
		c, expires := table.put(withHome(i, i), string(rune('a'+i)))
		c.(*slidingLog).admissions = make([]logged, 3)
		*expires = 10
	}
	table.sweep(10, 100)
	if n := len(table.spares); n != mostSpares || table.len() != 0 {
		t.Fatalf("%d spares and %d keys, want %d and none", n, table.len(), mostSpares)
	}
	for left := mostSpares - 1; left >= -1; left-- {
		c, _ := table.put(withHome(left+1, left+1), string(rune('a'+left+1)))
		if log := c.(*slidingLog).admissions; len(log) != 0 || cap(log) == 0 != (left < 0) || len(table.spares) != max(0, left) {
			t.Fatalf("put() has memory of %d with %d spares left, want some while there are spares, %d", cap(log), len(table.spares), left)
		}
	}
}

// Of an empty log little memory is kept: who comes next may never need more.
func TestLongLogsLeaveLittle(t *testing.T) {
	for n, want := range map[int]int{0: 0, 3: 3, mostKept: mostKept, mostKept + 1: 0, 10_000: 0} {
		log := slidingLog{admissions: make([]logged, n)}
		if log.reset(); cap(log.admissions) != want || len(log.admissions) != 0 {
			t.Errorf("an empty log that had %d admissions has memory of %d, want %d", n, cap(log.admissions), want)
		}
	}
}
