package live

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// Key is a key as it is in Redis.
type Key struct {
	Name string
	// Type is Redis's word, "none" where the key is not there.
	Type string
	// TTL is how long it stays; negative where it stays for ever.
	TTL time.Duration
	// Bytes is how much memory it takes; 0 where the server does not say.
	Bytes int64
}

// Look says what keys are in Redis, at one time each where a Cluster has them in several places.
func (s *Session) Look(ctx context.Context, names []string) ([]Key, error) {
	ctx, cancel := context.WithTimeout(ctx, s.options.Timeout)
	defer cancel()
	types, ttls, bytes := make([]*redis.StatusCmd, len(names)), make([]*redis.DurationCmd, len(names)), make([]*redis.IntCmd, len(names))
	_, _ = s.client.Pipelined(ctx, func(p redis.Pipeliner) error { // each command has its own error
		for i, name := range names {
			types[i], ttls[i], bytes[i] = p.Type(ctx, name), p.PTTL(ctx, name), p.MemoryUsage(ctx, name, 0)
		}
		return nil
	})
	keys := make([]Key, len(names))
	for i, name := range names {
		kind, err := types[i].Result()
		if err == nil {
			keys[i].TTL, err = ttls[i].Result()
		}
		if err != nil {
			return nil, fmt.Errorf("the keys cannot be looked at: %w", err)
		}
		keys[i].Name, keys[i].Type = name, kind
		keys[i].Bytes, _ = bytes[i].Result() // which many servers do not permit, and which nothing needs
	}
	return keys, nil
}
