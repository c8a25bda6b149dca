//go:build wireinject

package shop

import (
	"github.com/google/wire"
	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/ratelimitwire"
	"github.com/rlgen/rlgen/ratelimit/store"
)

// OverClient wires the app over its own client.
func OverClient(client *redis.Client) (*Server, func(), error) {
	wire.Build(
		ratelimitwire.Set,
		wire.Bind(new(redis.UniversalClient), new(*redis.Client)),
		RateLimitSet, NewService, NewServer,
	)
	return nil, nil, nil
}

// WithOptions wires the app over any client, with options for the limiter.
func WithOptions(client redis.UniversalClient, opts ratelimitwire.Options) (*Server, func(), error) {
	wire.Build(ratelimitwire.SetWithOptions, RateLimitSet, NewService, NewServer)
	return nil, nil, nil
}

// OverStore wires the app over a store of its own.
func OverStore(s store.Store) (*Server, func(), error) {
	wire.Build(ratelimitwire.ProvideLimiter, RateLimitSet, NewService, NewServer)
	return nil, nil, nil
}

// Embedded wires the app over a Redis inside the process, and returns what closes it.
func Embedded() (*Server, func(), error) {
	wire.Build(
		StartRedis, RedisClient,
		ratelimitwire.Set,
		RateLimitSet, NewService, NewServer,
	)
	return nil, nil, nil
}
