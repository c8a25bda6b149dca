package main

import (
	"context"
	"slices"
	"time"

	"github.com/rlgen/rlgen/ratelimit/memstore"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// length is how long a panel lasts, and rate how many permits its rule has, in a second.
const (
	length = 3 * time.Second
	rate   = 10
)

// call is one call of a panel, at a time since its beginning.
type call struct {
	at      time.Duration
	allowed bool
	goesOn  time.Duration // when an allowed call goes on
}

// level is what remains at a time.
type level struct {
	at        time.Duration
	remaining int64
}

// course is what becomes of the calls of a panel.
type course struct {
	calls  []call
	levels []level // every 5 ms, and after each call
}

// bursts are calls that come slowly but for two moments, on both sides of a full second.
func bursts() (at []time.Duration) {
	for t := 100 * time.Millisecond; t < length; t += 200 * time.Millisecond {
		at = append(at, t)
	}
	for _, moment := range []time.Duration{950 * time.Millisecond, 1050 * time.Millisecond} {
		at = append(at, slices.Repeat([]time.Duration{moment}, 15)...)
	}
	slices.Sort(at)
	return at
}

// overload is a call every 50 ms.
func overload() (at []time.Duration) {
	for t := 25 * time.Millisecond; t < length; t += 50 * time.Millisecond {
		at = append(at, t)
	}
	return at
}

// run asks the directive's limit for 1 at each of the times.
func run(directive string, times []time.Duration) (course, error) {
	var c course
	d, err := rules.Parse(directive)
	if err != nil {
		return c, err
	}
	start := time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)
	now := start
	s := memstore.New(memstore.WithClock(func() time.Time { return now }))
	ask := func(cost int64) (store.Outcome, error) {
		return store.Take(context.Background(), s, []store.Request{store.NewRequest(&d.Limit, "k", cost)}, true)
	}
	look := func(at time.Duration) error {
		out, err := ask(0)
		if err == nil {
			c.levels = append(c.levels, level{at, out.Rules[0].Remaining})
		}
		return err
	}
	for t := time.Duration(0); t < length; t += 5 * time.Millisecond {
		now = start.Add(t)
		if err := look(t); err != nil {
			return c, err
		}
		for ; len(times) > 0 && times[0] == t; times = times[1:] {
			out, err := ask(1)
			if err != nil {
				return c, err
			}
			c.calls = append(c.calls, call{t, out.Allowed, t + out.Rules[0].Delay})
			if err := look(t); err != nil {
				return c, err
			}
		}
	}
	return c, nil
}
