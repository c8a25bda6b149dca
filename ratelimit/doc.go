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
// # Waiting
//
// A limit with a Wait does not deny a call that will have room within that time: Take sleeps for as long as the store
// says, and asks again. A call waits only if every limit that denies it has a Wait in which it would pass, and the
// context's deadline is not before; else it is denied at once. The time since the call began counts, whatever it was
// spent on. Where the context ends first, its error is returned and nothing is charged. [WithMaxWaiters] bounds how many
// calls wait.
//
// In one process, those who wait for one key are served in the order in which they came: the first of them sleeps and
// asks, the others and newcomers stand behind it. A call whose wait ends before its turn is asked for once more, and so
// is a newcomer that cannot wait until the first has asked; either may pass where its cost is lower. Between processes
// nothing is promised: whoever asks first when there is room gets it, and one that comes too late sleeps again. A
// process learns of permits that are given back when it asks next.
//
// A queue, which is a leaky bucket with a Wait, is fair between processes: the store tells each call when to go on, in
// the order in which they ask, and never takes it back. Take sleeps until then; the calls of all processes go on
// window/count apart, each as much later as its answer was under way. If the context ends meanwhile, the call's place is
// given back: all of it if no later call has a place behind it, and else it stays a gap, for those behind it know
// already when they go on. A call of several limits is charged to all of them when it is let into the queue; if it is in
// several queues, it goes on when the last of them says, and is then closer to its neighbours in the others.
//
// # Holding
//
// A concurrency and a lock hold something while the call runs, in the [lock.Store] of [WithLocks]: [Guard.Hold] has what the method
// needs for that, and [Permit.Done] lets go of it. Rates are asked first, then concurrency, then locks. A call that one of
// them denies at once has never been made: what others granted is given back. One that waits for a concurrency or a lock,
// and gives up or whose context ends, has failed: its rates are charged as their Charge says. The wait of each begins when
// it is asked, and those who wait are served in the order in which they came to their process, and by turns of the processes.
//
// The locks of one call are asked in an order of their own, [Guard.Hold], so that two calls never wait for each other. Within a call, with its context,
// the locks that it has nest, and places in flight do not: a method with a concurrency of 1 that calls another with the same bucket waits for itself,
// and is denied after its wait.
//
// While the lock store cannot decide, onfail=local lets each process decide alone: one call of a lock in each, and in flight the
// process's share of the count; beside what was let in while the store decided, and still runs.
//
// # By hand
//
// A support tool, a page or a shell looks at what an id has used of a method's limits, and sets it right: [Guard.Peek], [Guard.Keys], [Guard.Reset], [Guard.Grant] and
// [Guard.Ban] take an [ID] such as user=42 ([ParseID]), and [Limiter.Find] has the guard of a method by its name. They make the keys themselves, as calls do, and search for
// none. What they do holds for all processes that share the store.
//
// # When the store cannot decide
//
// Each limit says what happens then (its [rules.OnFail]): this process decides alone at its share of the count, the call
// passes, or the call fails with [ErrUnavailable]. A store that is misconfigured fails every call with [ErrMisconfigured]
// whatever the limits say. The limiter logs once when it starts deciding without its store, and once when the store is back.
//
// A process that decides alone takes its share of each count and burst: divided by the instances ([WithInstances], or as many as the store
// has counted), rounded down, at least 1. All shares together are no more than the count, or, where that is smaller, than the number of
// instances. A call that costs more than the share takes all of it.
//
// An instance counts what it allows alone, and keeps that count when the store is back. So in any window the
// store allows at most the count L, and each of n instances at most its share: L + n·max(1, ⌊L/n⌋) in all,
// however often the store fails. A bucket gains permits in the store and in each instance while they are
// apart. A limit that must never allow more than L says onfail=closed.
package ratelimit
