// Package ratelimitwire wires limited services by wire.
//
//	//go:build wireinject
//
//	func newServer(client *redis.Client) (*Server, func(), error) {
//		wire.Build(
//			ratelimitwire.Set,            // *ratelimit.Limiter
//			wire.Bind(new(redis.UniversalClient), new(*redis.Client)),
//			orders.RateLimitSet,          // generated: orders.Orders is the limited one
//			orders.NewService,            // *orders.Service
//			NewServer,                    // takes orders.Orders
//		)
//		return nil, nil, nil
//	}
//
// The function is to be called when the app ends: it gives back what limits with a prefetch= have taken ahead. The client is the app's: nothing here closes it. An app with a [store.Store] of its own, in process or of another making, builds
// with [ProvideLimiter] alone in place of [Set], or with [ProvideLimiterWithLocks] and a [lock.Store] where a limit is of kind
// concurrency or lock.
package ratelimitwire
