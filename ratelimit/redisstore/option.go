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
// context's deadline, where it is earlier, ends the call too, but not the time that the server has to answer before that counts as a failure of its; and so does the
// client's ReadTimeout: [Store.Check] says so where that is shorter.
func WithBudget(d time.Duration) Option {
	return optionFunc(func(s *Store) error {
		if d <= 0 {
			return fmt.Errorf("redisstore: budget %v, want more than 0", d)
		}
		s.budget = d
		return nil
	})
}

// DefaultBatching is how many callers' decisions go to a server together at most unless [WithBatching] says otherwise.
const DefaultBatching = 64

// WithBatching sets how many callers' decisions one script carries at most, and one pipeline to a server of a Cluster, 1 or more; the default is [DefaultBatching].
// Callers who come while others are served share the next one; none waits for company. Lower it where a script, which the server
// executes as one, keeps others of the server's users waiting for too long: it takes some µs for each decision. With 1, each call
// is a script of its own.
func WithBatching(n int) Option {
	return optionFunc(func(s *Store) error {
		if n < 1 {
			return fmt.Errorf("redisstore: batching %d, want 1 or more", n)
		}
		s.most = n
		return nil
	})
}
