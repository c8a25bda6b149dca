package store_test

import (
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
