package memstore

import (
	"testing"
	"time"

	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// A receipt of what the store has dropped to make room gives back no more than is there.
func TestWindowsGiveBackWhatIsThere(t *testing.T) {
	rs := []rules.Rule{{Count: 5, Window: time.Second}}
	for _, counts := range []counts{&fixedWindow{}, &slidingWindow{}} {
		req := &store.Request{Algorithm: rules.SlidingWindow, Rules: rs, Cost: 1}
		counts.charge(100, req, admission{at: 100, cost: 1})
		counts.giveBack(100, req, admission{at: 100, cost: 3})
		if left, reset := counts.describe(100, req, rs[0]); left != 5 || reset != 0 {
			t.Errorf("%T: %d remaining, reset after %v, want 5 and 0s", counts, left, reset)
		}
		counts.charge(100, req, admission{at: 100, cost: 4})
		if left, _ := counts.describe(100, req, rs[0]); left != 1 {
			t.Errorf("%T: %d remaining after 4 of 5, want 1", counts, left)
		}
	}
}

// The windows of former rules are dropped when they have ended.
func TestWindowsOfFormerRulesAreDropped(t *testing.T) {
	var fixed fixedWindow
	var sliding slidingWindow
	for i := range int64(20) {
		req := &store.Request{Algorithm: rules.FixedWindow, Rules: []rules.Rule{{Count: 5, Window: time.Second + time.Duration(i)*time.Microsecond}}, Cost: 1}
		now := i * 2_000_000
		fixed.charge(now, req, admission{at: now, cost: 1})
		sliding.charge(now, req, admission{at: now, cost: 1})
		if n := len(fixed.windows); n != 1 {
			t.Fatalf("%d fixed windows after %d rules, want 1", n, i+1)
		}
		if n := len(sliding.windows); n != 1 {
			t.Fatalf("%d sliding windows after %d rules, want 1", n, i+1)
		}
	}
}
