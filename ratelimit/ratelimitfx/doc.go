// Package ratelimitfx wires limited services in fx.
//
//	fx.New(
//		fx.Provide(newRedisClient),     // the app's own, a redis.UniversalClient
//		ratelimitfx.Module,             // *ratelimit.Limiter over it
//		orders.RateLimitModule,         // generated: orders.Orders is the limited one
//		fx.Provide(orders.NewService),  // *orders.Service
//		fx.Invoke(serve),               // takes orders.Orders
//	)
//
// # Where the counts are
//
// [Module] takes what the app has: a [store.Store]; else a [*redisstore.Store]; else a [redis.UniversalClient], a
// [*redis.Client] or a [*redis.ClusterClient]. It closes none of them. Without any it fails: counts that are not shared between
// instances are chosen in words, with [InProcess] or [Embedded].
//
// # Where the locks are
//
// What limits of kind concurrency and lock hold is kept in a [lock.Store] that the app has; else in a [*redislock.Store]; else
// in one that Module opens over the client above, and closes when the app stops. [InProcess] and [Embedded] provide one. An app
// that has a store.Store and none of these fails at its start where a limit needs one, and says what to provide.
//
// # The limiter's options
//
// All are optional, and come from the graph: [Options], [Overrides], a [*slog.Logger], and any number of [ratelimit.Observer] in the
// group "ratelimit.observers".
//
// When the app starts, the store is asked whether it can decide ([ratelimit.Limiter.Check]): the app does not start with
// one that somebody must mend, a Redis user without the permissions for instance, and says how to. It does start without one
// that cannot be reached, which is logged.
//
// # Which services are limited
//
// Generated modules provide the interface and put their policies into the group "ratelimit.policies", from which Module makes
// [Policies]. For an implementation in another package than the interface's, [Provide] does what the generated
// module would.
//
// # Why nothing is decorated
//
// An [fx.Decorate] in a module changes what that module's own consumers get and nobody else's, and one at the root is passed by
// if consumers take a concrete type. Neither fails. So a limited service is provided, in place of the raw one: of the interface
// there is only one in the graph, and it is limited.
package ratelimitfx
