package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/redis/go-redis/v9"
	"go.uber.org/fx"

	"github.com/rlgen/rlgen/ratelimit/embedded"
	"github.com/rlgen/rlgen/ratelimit/override"
	"github.com/rlgen/rlgen/ratelimit/override/redisoverride"
	"github.com/rlgen/rlgen/ratelimit/ratelimitfx"
	"github.com/rlgen/rlgen/ratelimit/redisurl"
)

// counts is where the calls are counted: in the Redis at url, else in one of the program's own.
func counts(url string) fx.Option {
	if url == "" {
		return fx.Options(ratelimitfx.Embedded, fx.Provide(func(s *embedded.Server) redis.UniversalClient { return s.Client() }))
	}
	return fx.Provide(func(lc fx.Lifecycle, log *slog.Logger) (redis.UniversalClient, error) {
		client, err := redisurl.Open(url)
		if err != nil {
			return nil, fmt.Errorf("REDIS_URL: %w", err)
		}
		redis.SetLogger(clientLog{log})
		lc.Append(fx.StopHook(client.Close))
		return client, nil
	})
}

// clientLog has the Redis client log where the program does, and not a line for each call while Redis is down: that it is, the
// limiter says once.
type clientLog struct{ log *slog.Logger }

func (l clientLog) Printf(ctx context.Context, format string, v ...any) {
	l.log.DebugContext(ctx, fmt.Sprintf(format, v...))
}

// hash is where the overrides are in Redis, which other services may use, too.
const hash = "rl:overrides:shop"

// overrides has limits hold in place of those in directives: those in a file, from a few seconds after it is written, and in place of them those in Redis, which
// the page sets, at once.
func overrides(file string) fx.Option {
	return fx.Provide(func(in overridesIn) (o ratelimitfx.Overrides) {
		if file != "" {
			o = append(o, override.File(file))
		}
		if in.Client != nil {
			o = append(o, redisoverride.New(in.Client, redisoverride.WithKey(hash)))
		}
		return o
	})
}

type overridesIn struct {
	fx.In

	Client redis.UniversalClient `optional:"true"`
}
