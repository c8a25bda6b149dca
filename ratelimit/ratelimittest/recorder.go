package ratelimittest

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/rlgen/rlgen/ratelimit"
)

// Decision is what a limiter decided of one call, and the error that the caller got, nil if the call proceeded.
type Decision struct {
	ratelimit.Decision
	Err error
}

// Recorder keeps the decisions that it observes; give it to a limiter with [ratelimit.WithObserver]. It is safe for
// concurrent use. The zero Recorder is empty and ready.
type Recorder struct {
	mu        sync.Mutex
	decisions []Decision
}

var _ ratelimit.Observer = (*Recorder)(nil)

// Observe keeps d.
func (r *Recorder) Observe(_ context.Context, d *ratelimit.Decision, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.decisions = append(r.decisions, Decision{*d, err})
}

// Decisions returns what was decided since the last [Recorder.Reset], in the order in which it was decided. The slice
// is the caller's.
func (r *Recorder) Decisions() []Decision {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.decisions)
}

// Allowed is the number of calls that might proceed.
func (r *Recorder) Allowed() int {
	return r.count(func(d Decision) bool { return d.Err == nil })
}

// Denied is the number of calls that a limit denied. Calls that failed for another reason are in neither count.
func (r *Recorder) Denied() int {
	return r.count(func(d Decision) bool { return errors.Is(d.Err, ratelimit.ErrExceeded) })
}

// Reset forgets what was decided.
func (r *Recorder) Reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.decisions = nil
}

func (r *Recorder) count(is func(Decision) bool) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, d := range r.decisions {
		if is(d) {
			n++
		}
	}
	return n
}
