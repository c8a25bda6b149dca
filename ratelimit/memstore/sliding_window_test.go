package memstore

import (
	"testing"
	"time"

	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// The counts of an id that calls for ever are those of its sub-windows.
func TestSlidingWindowStaysSmall(t *testing.T) {
	req := &store.Request{Algorithm: rules.SlidingWindow, Segments: 4, Rules: []rules.Rule{{Count: 1000, Window: time.Second}}, Cost: 1}
	var w slidingWindow
	for now := int64(0); now < 100_000_000; now += 62_500 {
		w.charge(now, req, admission{at: now, cost: 1})
		if n := len(w.windows[0].units); n > 5 || len(w.windows) > 1 {
			t.Fatalf("at %dµs there are %d rules with %d sub-windows, want 1 with at most 5", now, len(w.windows), n)
		}
	}
	w.charge(1, req, admission{at: 1, cost: 1}) // the clock was set back
	if n := len(w.windows[0].units); n > 5 {
		t.Errorf("after the clock was set back there are %d sub-windows, want at most 5", n)
	}
}
