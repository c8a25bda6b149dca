package ratelimit

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// quiet is how long a store must not fail before it counts as back, so that a store that fails now and then is logged once and
// not at each turn.
const quiet = time.Second

// health remembers whether the store decides, and logs when that changes.
type health struct {
	what    string  // it is that decides
	outage  trouble // the store cannot decide
	refusal trouble // the store will not decide until somebody mends it

	mu     sync.Mutex
	down   chan struct{} // closed during an outage; nil until somebody asks for it
	isDown bool          // down is closed
}

// outages returns a channel that is closed during an outage. Each outage has another one.
func (h *health) outages() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.update()
	return h.down
}

// update makes or closes the channel of outages. The mu is held.
func (h *health) update() {
	out := h.outage.since.Load() != 0
	if h.down == nil || h.isDown && !out {
		h.down, h.isDown = make(chan struct{}), false
	}
	if out && !h.isDown {
		close(h.down)
		h.isDown = true
	}
}

// changed tells those who wait that an outage has begun or ended.
func (h *health) changed() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.update()
}

// failed takes note that the store could not decide because of err. The log says once so, and what more is known.
func (h *health) failed(log *slog.Logger, err error, more ...any) {
	if h.outage.begins() {
		h.changed()
		log.Warn(h.what+" cannot decide; limits fall back to what their onfail says", append([]any{"error", err}, more...)...)
	}
}

// refused takes note that the store is misconfigured, as err says.
func (h *health) refused(log *slog.Logger, err error) {
	if h.refusal.begins() {
		log.Error(h.what+" is misconfigured; limited calls fail until it is mended", "error", err)
	}
}

// decided takes note that the store decided.
func (h *health) decided(log *slog.Logger) {
	for _, t := range []*trouble{&h.outage, &h.refusal} {
		if lasted, over := t.ends(); over {
			if t == &h.outage {
				h.changed()
			}
			log.LogAttrs(context.Background(), slog.LevelInfo, h.what+" decides again",
				slog.Duration("after", lasted.Round(time.Millisecond)))
		}
	}
}

// trouble is a state that begins with a call that goes wrong, and ends with one that goes right after a while.
type trouble struct {
	since  atomic.Int64 // when it began, ns; 0 while there is none
	latest atomic.Int64 // when a call last went wrong, ns
}

// begins takes note of a call that went wrong, and reports whether it is the first.
func (t *trouble) begins() bool {
	now := time.Now().UnixNano()
	t.latest.Store(now)
	return t.since.CompareAndSwap(0, now)
}

// ends takes note of a call that went right, and reports whether the trouble is over with it, and how long it lasted.
func (t *trouble) ends() (lasted time.Duration, over bool) {
	since := t.since.Load()
	if since == 0 {
		return 0, false
	}
	now := time.Now().UnixNano()
	if now-t.latest.Load() < int64(quiet) || !t.since.CompareAndSwap(since, 0) {
		return 0, false
	}
	return time.Duration(now - since), true
}
