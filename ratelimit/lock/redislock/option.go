package redislock

import (
	"fmt"
	"strings"
	"time"
)

// Option configures a [Store].
type Option interface{ apply(*Store) error }

type optionFunc func(*Store) error

func (f optionFunc) apply(s *Store) error { return f(s) }

// DefaultBudget is how long the store waits for one answer of Redis unless [WithBudget] says otherwise. It is longer than a rate's
// decision may last: who gives up on a lock has to take it back, and calls that hold something last longer than those that do not.
// Where the server does not answer at all, only the first callers wait for so long: see [Store.Acquire].
const DefaultBudget = time.Second

// WithBudget sets how long the store waits for one answer of Redis, to within a sixteenth more; it is longer than zero. The default is
// [DefaultBudget].
func WithBudget(d time.Duration) Option {
	return optionFunc(func(s *Store) error {
		if d <= 0 {
			return fmt.Errorf("redislock: budget %v, want more than 0", d)
		}
		s.budget = d
		return nil
	})
}

// DefaultPrefix is what keys begin with unless [WithPrefix] says otherwise.
const DefaultPrefix = "rl"

// WithPrefix sets what keys and channels begin with: letters, digits, and any of "._-:". The default is [DefaultPrefix]. Programs that
// are not to meet each other's locks have prefixes of their own.
func WithPrefix(prefix string) Option {
	return optionFunc(func(s *Store) error {
		for _, r := range prefix {
			if !strings.ContainsRune("._-:", r) && !('0' <= r && r <= '9' || 'A' <= r && r <= 'Z' || 'a' <= r && r <= 'z') {
				return fmt.Errorf("redislock: prefix %q has %q, want letters, digits and ._-: only", prefix, r)
			}
		}
		if prefix == "" {
			return fmt.Errorf("redislock: prefix is empty, want one")
		}
		s.prefix = prefix
		return nil
	})
}
