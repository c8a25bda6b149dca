package lock

import (
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/rlgen/rlgen/ratelimit/internal/due"
)

// DefaultLease is how long a hold lives after it was last renewed, unless [WithLease] says otherwise.
const DefaultLease = 30 * time.Second

// Option configures a [Locker] or a [Semaphore].
type Option interface{ apply(*settings) error }

type optionFunc func(*settings) error

func (f optionFunc) apply(s *settings) error { return f(s) }

// settings are those of a locker or semaphore.
type settings struct {
	store    Store
	lease    time.Duration
	wait     time.Duration // negative: until the context is done
	maxHold  time.Duration // 0: none
	patience time.Duration // 0: the store's
	limits   func() int64  // of a semaphore, as it is now; nil if it does not change
	watch    *due.List     // of tenures that need no renewal yet
}

// WithLease sets how long a hold outlives its holder: whole milliseconds, from [MinLease] to [MaxLease]. The default is
// [DefaultLease]. It is renewed three times within that while it is held, so it need not cover the work: make it shorter where
// what a crashed process held must be free sooner, and longer where the store may be away for longer.
//
// A hold is lost where nothing is heard of its renewals for the lease, less 1 % and 2 ms. A short one excludes others as surely as a long one, but it is
// lost by less: by a slow answer, or by a pause of the process. On a machine with more to do than cores, leases of 10 ms were lost every other
// second of holding, and those of 20 ms were not; in production, 1s is short.
func WithLease(d time.Duration) Option {
	return optionFunc(func(s *settings) error {
		s.lease = d
		return validateLease(d)
	})
}

func validateLease(d time.Duration) error {
	if d < MinLease || d > MaxLease || d%time.Millisecond != 0 {
		return fmt.Errorf("lock: lease %v, want whole milliseconds from %v to %v", d, MinLease, MaxLease)
	}
	return nil
}

// WithWait sets how long Lock and Acquire wait at most; with zero they do not. By default they wait until their context
// is done.
func WithWait(d time.Duration) Option {
	return optionFunc(func(s *settings) error {
		if d < 0 {
			return fmt.Errorf("lock: wait %v, want 0 or more", d)
		}
		s.wait = d
		return nil
	})
}

// WithMaxHold sets how long a hold is renewed; it is longer than zero. It is lost when its lease ends after that. By default it is
// renewed until it is let go or its context is done: set it where work may hang that no context ends.
func WithMaxHold(d time.Duration) Option {
	return optionFunc(func(s *settings) error {
		if d <= 0 {
			return fmt.Errorf("lock: longest hold %v, want more than 0", d)
		}
		s.maxHold = d
		return nil
	})
}

// WithPatience sets how long TryLock and TryAcquire wait at most where so many of this process ask for something that the store cannot be asked at once; it is longer
// than zero. They then fail with [ErrCrowded]. By default the store says; what waits for something is never more patient than it waits. Set it where a
// caller has less time than that.
func WithPatience(d time.Duration) Option {
	return optionFunc(func(s *settings) error {
		if d <= 0 {
			return fmt.Errorf("lock: patience %v, want more than 0", d)
		}
		s.patience = d
		return nil
	})
}

// WithLimit makes the limit of a [Semaphore] what current returns, which is called whenever the store is asked: those who wait already go by it, too.
// Where it returns less than 1 or more than [MaxLimit], the limit is the one that [NewSemaphore] was given, which is also the default. A waiter who
// wants more than a lowered limit goes on by the one that he had. A [Locker] has none.
func WithLimit(current func() int64) Option {
	return optionFunc(func(s *settings) error {
		if current == nil {
			return errors.New("lock: WithLimit of a nil func, want one, or no WithLimit")
		}
		s.limits = current
		return nil
	})
}

func newSettings(store Store, opts []Option) (settings, error) {
	s := settings{store: store, lease: DefaultLease, wait: -1, watch: &due.List{}}
	if v := reflect.ValueOf(store); store == nil || v.Kind() == reflect.Pointer && v.IsNil() {
		return s, errors.New("lock: store is nil, want a *redislock.Store or a *lock.Memory")
	}
	if !reflect.ValueOf(store).Comparable() {
		return s, fmt.Errorf("lock: store is a %T, of which two cannot be compared, want a pointer to one", store)
	}
	for _, o := range opts {
		if err := o.apply(&s); err != nil {
			return s, err
		}
	}
	return s, nil
}

// drift is by how much a holder counts less than its lease: the clocks of the holder and the store need not run at the
// same rate, and the store's has milliseconds.
func drift(lease time.Duration) time.Duration { return lease/100 + 2*time.Millisecond }
