// Package ratelimit decides whether a call may proceed.
//
// Generated code asks it before each call of an annotated method; a program makes one [Limiter] over a store and hands it to
// the generated constructors:
//
//	s, err := redisstore.New(client)
//	…
//	limiter, err := ratelimit.New(s)
//	…
//	var orders Orders = NewRateLimitedOrders(NewService(), limiter)
//
// # Reading order
//
// A call's way through the package is: the identity that the context carries ([WithIP], [WithUser]) and the inputs that the
// wrapper computes ([Input]) make a key per limit; the method's [Guard] hands all of its limits to the [store.Store] in one
// Take; the answer is a [Decision], and a denied one is an [ExceededError].
//
// # All or nothing
//
// The limits of one method are decided together. A call that any of them denies is charged to none of them.
//
// # When the store cannot decide
//
// Each limit says what happens then (its [rules.OnFail]): this process decides alone at its share of the count, the call
// passes, or the call fails with [ErrUnavailable]. A store that is misconfigured fails every call with [ErrMisconfigured]
// whatever the limits say. The limiter logs once when it starts deciding without its store, and once when the store is back.
package ratelimit
