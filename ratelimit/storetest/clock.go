package storetest

import (
	"sync"
	"time"
)

// Clock is a time that stands still until a test moves it. It is safe for concurrent use.
type Clock struct {
	mu    sync.Mutex
	now   time.Time
	moved []func(now time.Time)
}

// NewClock returns a clock that stands a microsecond before a full second, where a careless formatting of
// microseconds shows.
func NewClock() *Clock {
	return &Clock{now: time.Date(2026, time.March, 1, 11, 59, 59, 999_999_000, time.UTC)}
}

// Now is the clock's time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// OnMove calls f with the time, now and whenever the clock has moved, for stores that must be told.
func (c *Clock) OnMove(f func(now time.Time)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.moved = append(c.moved, f)
	f(c.now)
}

// Move moves the clock by d, which may be negative, and tells whom [Clock.OnMove] has named.
func (c *Clock) Move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	for _, f := range c.moved {
		f(c.now)
	}
}
