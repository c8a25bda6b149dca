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
	gcra := store.Request{Key: "a", Algorithm: rules.GCRA, Rules: []rules.Rule{{Count: 1_000_000, Window: time.Hour}}, Cost: 1}
	window := store.Request{Key: "b", Algorithm: rules.FixedWindow, Rules: gcra.Rules, Cost: 1}
	empty := gcra
	empty.Key, empty.Rules = "c", []rules.Rule{{Count: 1, Window: time.Hour}}
	for _, test := range []struct {
		name     string
		requests []store.Request
		detail   bool
		allowed  bool
	}{
		{"a bucket", []store.Request{gcra}, false, true},
		{"a bucket that is empty", []store.Request{empty}, false, false},
		{"a bucket, told what remains", []store.Request{gcra}, true, true},
		{"a window", []store.Request{window}, false, true},
		{"several", []store.Request{gcra, window}, true, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := New()
			var out store.Outcome
			call := func() {
				if err := s.Take(context.Background(), test.requests, test.detail, &out); err != nil {
					t.Fatal(err)
				}
			}
			if call(); !out.Allowed {
				t.Fatalf("Take = %+v, want the first call allowed", out)
			}
			if n := testing.AllocsPerRun(100, call); n != 0 || out.Allowed != test.allowed {
				t.Errorf("a call allocates %v times, want 0, and is allowed: %v, want %v", n, out.Allowed, test.allowed)
			}
			for i := range test.requests {
				test.requests[i].Cost = 0
			}
			if call(); len(out.Receipt.Charges) != 0 {
				t.Errorf("the receipt of a look has the charges %v, want none", out.Receipt.Charges)
			}
		})
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
