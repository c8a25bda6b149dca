// Package goredis has services that embed interfaces of go-redis, hundreds of methods each.
package goredis

import (
	"context"

	"github.com/redis/go-redis/v9"
)

type Cache interface {
	redis.Cmdable
	//ratelimit:user 10,1s
	Own(ctx context.Context) error
}

type Client interface {
	redis.UniversalClient
	//ratelimit:user 10,1s
	//ratelimit:key 100,1m by=key
	Own(ctx context.Context, key string) error
}

type Pipe interface {
	redis.Pipeliner
	redis.Hook
	redis.Limiter
	redis.Scripter
	//ratelimit:user 10,1s
	Own(ctx context.Context) error
}

// Command has unexported methods of package redis.
type Command interface {
	redis.Cmder
	//ratelimit:user 10,1s
	Own(ctx context.Context) error
}

// All has the limit on every method that has an error result or not.
//
//ratelimit:global 10000,1s deny=zero
type All interface {
	redis.Cmdable
}
