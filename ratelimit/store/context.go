package store

import (
	"context"
	"fmt"
)

// Ended is the error of a call whose context is done: it is, in the sense of [errors.Is], both the context's error and
// its cause. It is nil while ctx is not done.
func Ended(ctx context.Context) error {
	err := ctx.Err()
	if err == nil {
		return nil
	}
	if cause := context.Cause(ctx); cause != err {
		return fmt.Errorf("%w: %w", err, cause)
	}
	return err
}
