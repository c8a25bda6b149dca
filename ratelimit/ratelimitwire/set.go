package ratelimitwire

import (
	"github.com/google/wire"
	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/redisstore"
	"github.com/rlgen/rlgen/ratelimit/store"
)

// Set makes a *[ratelimit.Limiter] from the app's [redis.UniversalClient].
var Set = wire.NewSet(ProvideStore, ProvideLimiter)

// SetWithOptions makes a *[ratelimit.Limiter] from the app's [redis.UniversalClient] and its [Options].
var SetWithOptions = wire.NewSet(ProvideStore, ProvideLimiterWithOptions)

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

// ProvideLimiter returns a limiter over s.
func ProvideLimiter(s store.Store) (*ratelimit.Limiter, error) { return ratelimit.New(s) }

// ProvideLimiterWithOptions returns a limiter over s with opts.
func ProvideLimiterWithOptions(s store.Store, opts Options) (*ratelimit.Limiter, error) {
	return ratelimit.New(s, opts...)
}
