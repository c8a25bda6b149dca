package ratelimit

import (
	"log/slog"
	"sync/atomic"
	"time"
)

// quiet is how long a store must not fail before it counts as back, so that a store that fails now and then is logged once and
// not at each turn.
const quiet = time.Second

// outage remembers whether the store fails, and logs when that changes.
type outage struct {
	since  atomic.Int64 // when it began, ns; 0 while the store decides
	latest atomic.Int64 // when the store last failed, ns
}

// failed takes note that the store could not decide because of err.
func (o *outage) failed(log *slog.Logger, err error) {
	now := time.Now().UnixNano()
	o.latest.Store(now)
	if o.since.CompareAndSwap(0, now) {
		log.Warn("rate limit store cannot decide; limits fall back to what their onfail says", "error", err)
	}
}

// decided takes note that the store decided.
func (o *outage) decided(log *slog.Logger) {
	since := o.since.Load()
	if since == 0 {
		return
	}
	now := time.Now().UnixNano()
	if now-o.latest.Load() < int64(quiet) || !o.since.CompareAndSwap(since, 0) {
		return
	}
	log.Info("rate limit store decides again", "outage", time.Duration(now-since).Round(time.Millisecond))
}
