package redisstore

import (
	"fmt"
	"time"
)

// Option configures a [Store].
type Option interface{ apply(*Store) error }

type optionFunc func(*Store) error

func (f optionFunc) apply(s *Store) error { return f(s) }

// DefaultBudget is how long a call may last unless [WithBudget] says otherwise.
const DefaultBudget = 100 * time.Millisecond

// WithBudget sets how long one Take, or one GiveBack, may last; it is longer than zero. The default is
// [DefaultBudget]. Lower it where callers would rather go on without the store than wait, raise it where the store is far away. The
// context's deadline, where it is earlier, ends the call too.
func WithBudget(d time.Duration) Option {
	return optionFunc(func(s *Store) error {
		if d <= 0 {
			return fmt.Errorf("redisstore: budget %v, want more than 0", d)
		}
		s.budget = d
		return nil
	})
}
