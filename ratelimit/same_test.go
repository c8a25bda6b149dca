package ratelimit_test

import (
	"testing"
	"time"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/memstore"
	"github.com/rlgen/rlgen/rules"
)

// Where all calls ask the same, nothing is made for one of them.
func TestCallOfGlobalLimitsAllocatesNothing(t *testing.T) {
	guard := limiter(t, memstore.New()).Guard(create(rules.Limit{Kind: rules.Global, Rules: per(10_000, time.Hour)}))
	if n := testing.AllocsPerRun(1000, func() {
		if _, err := guard.Take(t.Context()); err != nil {
			t.Fatal(err)
		}
	}); n != 0 && !raced {
		t.Errorf("a call allocates %v times, want 0", n)
	}
}

// Calls that ask the same as all others ask what is in force, say what they would if they gave inputs, and each gives its own permits back, once.
func TestCallsThatAskTheSame(t *testing.T) {
	clock := newClock()
	l := limiter(t, memstore.New(memstore.WithClock(clock.Now)))
	guard := l.Guard(create(
		rules.Limit{Kind: rules.Global, Rules: per(5, time.Minute)},
		rules.Limit{Kind: rules.Global, Name: "day", Rules: per(100, 24*time.Hour)},
	))
	var permits []ratelimit.Permit
	remaining := func(want int64, in ...ratelimit.Input) {
		t.Helper()
		d, permit, err := guard.Decide(t.Context(), in...)
		if err != nil || len(d.Limits) != 2 || d.Limits[0].Rules[0].Remaining != want {
			t.Fatalf("Decide with %d inputs = %+v, %v, want %d remaining of the first of 2 limits", len(in), d.Limits, err, want)
		}
		permits = append(permits, permit)
	}
	remaining(4)
	remaining(3, make([]ratelimit.Input, 2)...)
	remaining(2)
	for range 2 {
		permits[0].GiveBack(t.Context())
	}
	permits[2].GiveBack(t.Context())
	remaining(3)
	if err := l.Override(t.Context(), []rules.Override{{Name: "Create/global", Text: "50,1m"}}); err != nil {
		t.Fatal(err)
	}
	remaining(47)
}
