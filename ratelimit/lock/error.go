package lock

import (
	"errors"
	"fmt"
	"time"
)

var (
	// ErrBusy: others hold it. The error is a [*BusyError].
	ErrBusy = errors.New("held by others")
	// ErrCrowded: this process asks its store for more at once than it can, and the store was not asked about this claim. A [Store] returns it; whoever
	// locks gets a [*BusyError] that says so.
	ErrCrowded = errors.New("too much is asked for at once")
	// ErrLost: the lease ended before the hold did, or may have. It is the cause of the hold's context, and what its
	// Unlock returns.
	ErrLost = errors.New("hold lost")
	// ErrNotHeld: it has been let go already.
	ErrNotHeld = errors.New("not held")
	// ErrReleased is the cause of the context of a hold that was let go.
	ErrReleased = errors.New("hold released")
	// ErrCost: the cost is less than 1, or more than the semaphore's limit. Waiting does not help.
	ErrCost = errors.New("cost cannot be met")
)

// BusyError is a lock or a semaphore that was not to be had: at once, or within the wait. It does not name it.
type BusyError struct {
	// RetryAfter is when the leases that are in the way end if nobody renews or releases them. Zero is unknown.
	RetryAfter time.Duration
	// Crowded says that nobody knows whether others hold it: so many of this process ask for something at once that the store was not asked for
	// this one in time ([ErrCrowded]).
	Crowded bool
}

func (e *BusyError) Error() string {
	if e.Crowded {
		return "lock: " + ErrCrowded.Error()
	}
	if e.RetryAfter == 0 {
		return "lock: " + ErrBusy.Error()
	}
	return fmt.Sprintf("lock: %v, whose lease ends in %v", ErrBusy, e.RetryAfter.Round(time.Millisecond))
}

// Is reports whether target is [ErrBusy], or [ErrCrowded] where it is that.
func (e *BusyError) Is(target error) bool {
	return target == ErrBusy || e.Crowded && target == ErrCrowded
}
