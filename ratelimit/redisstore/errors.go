package redisstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/rlgen/rlgen/ratelimit/internal/rediscall"
	"github.com/rlgen/rlgen/ratelimit/store"
)

// meaning is what is known of an error.
type meaning struct {
	class store.Class
	mend  string // what to do about it, for who runs the program
}

// fail is err as the error of a call.
func (m meaning) fail(err error) error { return rediscall.Fail("redisstore", m.class, err, m.mend) }

// expired is the error of a call that ctx or its budget ended. With sent, the server may have executed it.
func expired(ctx context.Context, sent bool) error {
	if err := store.Ended(ctx); err != nil {
		return fmt.Errorf("redisstore: %w", err)
	}
	class := store.Unavailable
	if sent {
		class = store.Indeterminate
	}
	return meaning{class: class}.fail(rediscall.ErrBudget)
}

// ofContext says whether err is that of a call which its context has ended: any other says how the server does.
func ofContext(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

func classIs(err error, class store.Class) bool {
	var failed *store.Error
	return errors.As(err, &failed) && failed.Class == class
}
