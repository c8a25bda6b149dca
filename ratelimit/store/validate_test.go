package store_test

import (
	"math"
	"testing"
	"time"

	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// What a rule takes for its longest window is the longest that a store decides.
func TestLongestWindow(t *testing.T) {
	d, err := rules.Parse("//ratelimit:global 5,366d")
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Validate([]store.Request{store.NewRequest(&d.Limit, "k", 1)}); err != nil {
		t.Errorf("Validate of a window of 366d = %v, want nil", err)
	}
	d.Limit.Rules[0].Window += time.Microsecond
	if _, err := rules.Parse("//ratelimit:global " + d.Limit.Rules[0].String()); err == nil {
		t.Errorf("Parse(%q) = nil, want an error", d.Limit.Rules[0])
	}
	err = store.Validate([]store.Request{store.NewRequest(&d.Limit, "k", 1)})
	if want := "limit 1 of the call: rule of 5 in 8784h0m0.000001s, want at most 8784h0m0s: write a shorter window"; err == nil || err.Error() != want {
		t.Errorf("Validate = %v, want %s", err, want)
	}
}

// TestLargestCountOfALog holds that logs, too, have counts whose sums with costs are exact: none is larger than that of any rule.
func TestLargestCountOfALog(t *testing.T) {
	for _, algorithm := range []rules.Algorithm{rules.SlidingLog, rules.CompactLog} {
		one := rules.Rule{Count: 1, Window: time.Microsecond}
		for count, want := range map[int64]string{
			rules.MaxCount:     "",
			rules.MaxCount + 1: "limit 1 of the call: " + algorithm.String() + " of 1000000001 in 1µs, want a count of at most 1000000000",
			math.MaxInt64 - 1:  "limit 1 of the call: " + algorithm.String() + " of 9223372036854775806 in 1µs, want a count of at most 1000000000",
		} {
			for _, more := range [][]rules.Rule{nil, {one}} {
				req := store.Request{Key: "k", Algorithm: algorithm, Rules: append(more, rules.Rule{Count: count, Window: time.Microsecond}), Cost: 1}
				got := ""
				if err := store.Validate([]store.Request{req}); err != nil {
					got = err.Error()
				}
				if got != want {
					t.Errorf("Validate(%+v) = %q, want %q", req, got, want)
				}
			}
		}
	}
}
