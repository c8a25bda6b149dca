package memstore

import (
	"testing"
	"time"

	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// A bucket that gains several tokens in a microsecond has no more than its burst where it has been full for a part of one.
func TestBucketIsFullWithinAMicrosecond(t *testing.T) {
	rule := rules.Rule{Count: 3000, Window: time.Millisecond}
	req := &store.Request{Algorithm: rules.TokenBucket, Rules: []rules.Rule{rule}, Cost: 1}
	var b bucket
	if full, _ := b.charge(0, req, admission{cost: 1}); full != 1 {
		t.Fatalf("full again at %d, want a µs after the charge of a token that is back in a third of one", full)
	}
	for _, now := range []int64{1, 2} {
		if left, reset := b.describe(now, req, rule); left != rule.Count || reset != 0 {
			t.Errorf("after %d µs %d remaining, reset after %v, want all %d, and nothing to reset", now, left, reset, rule.Count)
		}
	}
}

// A wait whose product with a count has more than 64 bits is longer than any bucket takes to fill.
func TestLonger(t *testing.T) {
	for _, test := range []struct{ wait, units, count, want int64 }{
		{0, 0, 1, 0},
		{1, 0, 1, 1},
		{10, 30, 3, 0},
		{10, 29, 3, 1},
		{11, 30, 3, 1},
		{1 << 60, 16, 16, 1<<60 - 1},
		{1<<60 + 1, 1 << 20, 16, 1<<60 + 1 - 1<<16},
	} {
		if got := longer(test.wait, test.units, test.count); got != test.want {
			t.Errorf("longer(%d, %d, %d) = %d, want %d", test.wait, test.units, test.count, got, test.want)
		}
	}
}

// By how much a bucket's time is rounded up at one count is no room at another.
func TestBucketOfAnotherCount(t *testing.T) {
	var b bucket
	before := &store.Request{Algorithm: rules.GCRA, Rules: []rules.Rule{{Count: 300, Window: time.Second}}, Cost: 100}
	if full, _ := b.charge(0, before, admission{cost: 100}); full != 333_334 || b.first.early != 200 {
		t.Fatalf("full again at %d less %d parts of 300, want 333,334 less 200", full, b.first.early)
	}
	rule := rules.Rule{Count: 7, Window: time.Second}
	req := &store.Request{Algorithm: rules.GCRA, Rules: []rules.Rule{rule}, Cost: 6}
	for now, want := range map[int64]time.Duration{190_476: time.Microsecond, 190_477: 0} { // 142,858 µs before it is full, of which one token of 7 takes 142,857.1
		if retryAfter, _ := b.ask(now, req, rule); retryAfter != want {
			t.Errorf("at %d µs retry after %v, want %v", now, retryAfter, want)
		}
	}
}
