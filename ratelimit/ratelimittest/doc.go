// Package ratelimittest has what the tests of limited services need: limiters whose answers a test chooses, and a record of
// what they decided. None of them sleeps, logs or asks a Redis.
//
// # Tests that are not about limits
//
// [AllowAll] has room for every call, so that a wrapped service behaves as the service itself:
//
//	orders := NewRateLimitedOrders(service, ratelimittest.AllowAll())
//
// The wrapper still asks who is calling: a limit by user of a call that carries none fails with
// [ratelimit.ErrNoIdentity], in tests as in production. [ratelimit.WithUser] and [ratelimit.WithIP] put an identity into a context.
//
// # What callers make of a denied call
//
// [DenyAll] denies every call, with the retry-after that the test names. [Failing] cannot decide any, so that each limit does
// what its onfail says.
//
// # The limits themselves
//
// [New] returns a limiter that counts as the real one does, on a [Clock] that stands still until the test moves it.
//
// # Limits that let calls wait
//
// No call waits, for the clock of [New] stands still: what would wait is denied, and [ratelimit.ExceededError.Crowded] says so. To
// see calls wait, run a real limiter in a bubble of testing/synctest, where waiting takes no time:
//
//	synctest.Test(t, func(t *testing.T) {
//		limiter, err := ratelimit.New(memstore.New())
//		…
//		began := time.Now()
//		err = orders.Create(ctx, "tea")
//		waited := time.Since(began)
//	})
//
// # What was decided
//
// A [Recorder] is an observer that keeps the decisions:
//
//	var rec ratelimittest.Recorder
//	limiter, clock := ratelimittest.New(ratelimit.WithObserver(&rec))
package ratelimittest
