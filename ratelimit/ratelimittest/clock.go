package ratelimittest

import (
	"sync/atomic"
	"time"
)

// Clock is a time that stands still until it is moved. It is safe for concurrent use. The zero Clock stands at [Start].
type Clock struct {
	since atomic.Int64 // Start, ns
}

// Start is where a [Clock] begins: 2026-01-01T00:00:00Z.
func Start() time.Time { return time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC) }

// Now returns the clock's time.
func (c *Clock) Now() time.Time { return Start().Add(time.Duration(c.since.Load())) }

// Advance moves the clock by d; a negative d sets it back.
func (c *Clock) Advance(d time.Duration) { c.since.Add(int64(d)) }

// Set moves the clock to t, which is within 292 years of [Start].
func (c *Clock) Set(t time.Time) { c.since.Store(int64(t.Sub(Start()))) }
