package memstore

import "time"

// clock tells the time in µs. The zero clock is not valid.
type clock struct {
	read  func() time.Time // nil for the process's monotonic clock, which started as start
	start time.Time
	began int64 // start, µs
}

// monotonic returns a clock that starts at the system's time and moves with the process's monotonic clock.
func monotonic() clock {
	start := time.Now()
	return clock{start: start, began: start.UnixMicro()}
}

func (c *clock) now() int64 {
	if c.read != nil {
		return c.read().UnixMicro()
	}
	return c.began + time.Since(c.start).Microseconds()
}
