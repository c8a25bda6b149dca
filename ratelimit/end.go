package ratelimit

import (
	"context"

	"github.com/rlgen/rlgen/rules"
)

// EndObserver is an [Observer] that is also told when calls end that held something.
type EndObserver interface {
	Observer
	// ObserveEnd is told once of each call that has let go of what it held, and of each that could not give back at its end what it
	// is not charged for. A call that ends in another way is not told of. It runs on the goroutine that ends the call, and is called
	// concurrently; it does not keep e.
	ObserveEnd(ctx context.Context, e *End)
}

// End is the end of a call that had been allowed.
type End struct {
	// Policy is what stands over the method that was called.
	Policy *rules.Policy
	// Released has the limits, as indexes into the policy's Limits, whose hold the call has let go of, the last first. Those are the
	// limits of kind concurrency and lock that its [Decision] allowed, but for those that nobody kept, whose Source is [SourceOpen].
	Released []int
	// Err is why something could not be let go of or given back; nil if all was.
	Err error
}

// tell tells the observers that want to know what has been let go of.
func (e *ending) tell(ctx context.Context, err error) {
	if len(e.held) == 0 && err == nil {
		return
	}
	for _, o := range e.guard.limiter.observers {
		if o, ok := o.(EndObserver); ok {
			o.ObserveEnd(ctx, &End{Policy: e.guard.policy, Released: e.released(), Err: err})
		}
	}
}

func (e *ending) released() []int {
	limits := make([]int, len(e.held))
	for i, h := range e.held {
		limits[len(limits)-1-i] = h.index
	}
	return limits
}
