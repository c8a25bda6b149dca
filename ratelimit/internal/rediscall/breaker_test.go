package rediscall

import (
	"context"
	"errors"
	"testing"

	"github.com/rlgen/rlgen/ratelimit/store"
)

// ends are how calls end, by a letter each.
var ends = map[rune]error{
	's': nil, // decided
	'f': &store.Error{Class: store.Unavailable, Err: errors.New("no answer")},
	'r': &store.Error{Class: store.Misconfigured, Err: errors.New("refused")},
	'c': context.Canceled, // the caller has gone away
}

// TestBreakerCountsInARow holds that five failures in a row let the server rest, whether the calls came one after the other or had all
// begun while it did well.
func TestBreakerCountsInARow(t *testing.T) {
	for calls, want := range map[string]bool{
		"":           false,
		"ffff":       false,
		"fffff":      true,
		"sssfffff":   true,
		"ffffsffff":  false,
		"ffffrffff":  false,
		"ffffcf":     true,
		"ccccc":      false,
		"rrrrrr":     false,
		"ffffsfffff": true,
	} {
		t.Run(calls, func(t *testing.T) {
			one := NewBreaker("rediscall")
			for _, end := range calls {
				report, err := one.Permit()
				if err != nil {
					t.Fatalf("Permit = %v before the fifth failure in a row", err)
				}
				report(ends[end])
			}
			wantRest(t, "one after the other", one, want)

			all := NewBreaker("rediscall")
			var reports []func(error)
			for range calls {
				report, err := all.Permit()
				if err != nil {
					t.Fatal(err)
				}
				reports = append(reports, report)
			}
			for i, end := range calls {
				reports[i](ends[end])
			}
			wantRest(t, "all at once", all, want)
		})
	}
}

func wantRest(t *testing.T, how string, b Breaker, want bool) {
	t.Helper()
	if got := b.Resting(); got != want {
		t.Errorf("%s: Resting() = %v, want %v", how, got, want)
	}
}
