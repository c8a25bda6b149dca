package lock

import (
	"errors"
	"fmt"
	"time"
)

var (
	// ErrBusy: others hold it. The error is a [*BusyError].
	ErrBusy = errors.New("held by others")
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
}

func (e *BusyError) Error() string {
	return fmt.Sprintf("lock: %v, whose lease ends in %v", ErrBusy, e.RetryAfter.Round(time.Millisecond))
}

// Is reports whether target is [ErrBusy].
func (e *BusyError) Is(target error) bool { return target == ErrBusy }
