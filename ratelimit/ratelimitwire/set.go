package ratelimitwire

import (
	"context"
	"time"

	"github.com/google/wire"
	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/lock"
	"github.com/rlgen/rlgen/ratelimit/lock/redislock"
	"github.com/rlgen/rlgen/ratelimit/redisstore"
	"github.com/rlgen/rlgen/ratelimit/store"
)

// Set makes a *[ratelimit.Limiter] from the app's [redis.UniversalClient].
var Set = wire.NewSet(ProvideStore, ProvideLocks, ProvideLimiterWithLocks)

// SetWithOptions makes a *[ratelimit.Limiter] from the app's [redis.UniversalClient] and its [Options].
var SetWithOptions = wire.NewSet(ProvideStore, ProvideLocks, ProvideLimiterWithOptions)

// Options configure the limiter of [SetWithOptions].
type Options []ratelimit.Option

// ProvideStore returns a store over client.
func ProvideStore(client redis.UniversalClient) (store.Store, error) {
	s, err := redisstore.New(client)
	if err != nil {
		return nil, err // not s: a nil *redisstore.Store is no nil store.Store
	}
	return s, nil
}

// ProvideLocks returns a store of locks over client. Its clean-up closes the store, which listens
// on a connection of its own once a call has waited.
func ProvideLocks(client redis.UniversalClient) (lock.Store, func(), error) {
	s, err := redislock.New(client)
	if err != nil {
		return nil, nil, err
	}
	return s, func() { _ = s.Close() }, nil
}

// patience is for how long a clean-up waits until what was taken ahead is given back.
const patience = 5 * time.Second

// ProvideLimiter returns a limiter over s, for programs without limits of kind concurrency and lock. Its clean-up closes it: what was taken ahead by limits
// with a prefetch= is given back, before wire's clean-up of the client.
func ProvideLimiter(s store.Store) (*ratelimit.Limiter, func(), error) {
	return ProvideLimiterWithOptions(s, nil, nil)
}

// ProvideLimiterWithLocks returns a limiter over s and locks, which may be nil, with the clean-up of [ProvideLimiter].
func ProvideLimiterWithLocks(s store.Store, locks lock.Store) (*ratelimit.Limiter, func(), error) {
	return ProvideLimiterWithOptions(s, locks, nil)
}

// ProvideLimiterWithOptions returns a limiter over s and locks, which may be nil, with opts, and with the clean-up of [ProvideLimiter].
func ProvideLimiterWithOptions(s store.Store, locks lock.Store, opts Options) (*ratelimit.Limiter, func(), error) {
	if locks != nil {
		opts = append(Options{ratelimit.WithLocks(locks)}, opts...)
	}
	l, err := ratelimit.New(s, opts...)
	if err != nil {
		return nil, nil, err
	}
	return l, func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = l.Close(ctx) // what is not given back in time leaves its window by itself
	}, nil
}
