package memstore

import (
	"testing"
	"time"

	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// A clock that is set back by decades leaves a bucket as empty as it was, and what is charged and given back meanwhile
// counts.
func TestIntervalBucketLongBeforeItsLastCall(t *testing.T) {
	const year = 366 * 24 * 60 * 60 * 1_000_000 // µs
	rule := rules.Rule{Count: 1_000_000_000, Window: time.Millisecond}
	req := &store.Request{Algorithm: rules.TokenBucket, Refill: rules.RefillInterval, Rules: []rules.Rule{rule}, Cost: 1}
	var b intervalBucket
	now := int64(60 * year)
	full, _ := b.charge(now, req, admission{at: now, cost: 1})
	if full != now+1000 {
		t.Fatalf("full again at %d, want a window after %d", full, now)
	}
	past := now - 40*year
	if retryAfter, _ := b.ask(past, req, rule); retryAfter != micros(full-1000-past) {
		t.Errorf("retry after %v, want the %v until the first call", retryAfter, micros(full-1000-past))
	}
	if again, _ := b.charge(past, req, admission{at: past, cost: rule.Count}); again != full+1000 {
		t.Errorf("full again at %d after all is charged, want a window after %d", again, full)
	}
	b.giveBack(past, req, admission{at: past, cost: rule.Count}) // of before the bucket was last full
	if left, reset := b.describe(past, req, rule); left != 0 || reset != micros(full+1000-past) {
		t.Errorf("%d remaining, reset after %v, want none until %v", left, reset, micros(full+1000-past))
	}
	b.giveBack(past, req, admission{at: now, cost: rule.Count})
	if left, reset := b.describe(full-1, req, rule); left != rule.Count-1 || reset != time.Microsecond {
		t.Errorf("%d remaining, reset after %v a microsecond before it is full, want all but 1", left, reset)
	}
}
