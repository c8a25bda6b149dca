//go:build wireinject

package main

import (
	"net/http"

	"github.com/google/wire"
	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/examples/wire/orders"
	"github.com/rlgen/rlgen/ratelimit/ratelimitwire"
)

// newHandler makes the service's handler over the Redis behind client. The function gives back what was taken ahead, before the client is closed.
func newHandler(client redis.UniversalClient) (http.Handler, func(), error) {
	panic(wire.Build(
		ratelimitwire.Set,   // *ratelimit.Limiter over client
		orders.RateLimitSet, // orders.Orders, limited, over *orders.Service
		orders.NewService,
		orders.Handler,
	))
}
