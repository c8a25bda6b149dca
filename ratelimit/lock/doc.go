// Package lock has locks and semaphores that hold across the instances of a program: one caller at a time, or so many.
//
//	store, err := redislock.New(client) // or lock.NewMemory(), for one instance and for tests
//	locks, err := lock.New(store, lock.WithLease(30*time.Second))
//
//	ctx, hold, err := locks.Lock(ctx, "order/42")
//	if err != nil {
//		return err
//	}
//	defer hold.Unlock()
//
// # Holding
//
// A hold has a lease, which is renewed three times in each for as long as it is held, and which ends by itself when the process
// does. The context that [Locker.Lock] returns is done when the hold is let go, and when it is lost because it could not be renewed in time: then its cause
// is [ErrLost]. Do the work with that context. The holder counts its lease from before it asked for it, less 1 % and 2 ms, so
// it knows before anybody else can have the lock; a process that was stopped finds its context's Err set when it goes on, and that of contexts which
// derive from it once its timers have run.
//
// The context is the owner: Lock of the same name with it, or with a context that derives from it, nests and does not wait. Whoever
// has the context has the lock, so give it to no goroutine that is not to share it. What nests with a context of its own
// (context.WithoutCancel) is renewed for as long as that lasts; once all holds have been let go, such a context holds nothing, and Lock with it waits as anybody. A hold that is added puts off the end of the lease, and never
// brings it closer; the lock is free when all holds have been let go.
//
// A hold that is renewed has a timer, one that ends before that has none, and neither has a goroutine but while it renews. Nothing of it is sent
// once Unlock has returned nil.
//
// # What a lock promises
//
// It is a lock for efficiency: it keeps two from doing the same work in nearly all cases, and cannot in all. A process may be
// stopped between its looking at its context and its writing; a server that fails over may have lost the last writes; a clock may be set.
// There is no Redlock here: several servers that each answer by their own clocks make that rarer, not impossible.
//
// Where two writers would do harm, hand on the fencing token, [Token], or [TokenOf] where several locks are held, to what is written to, and let that refuse a token
// that is smaller than one it has seen. Each fresh hold of a name has a larger token than those before, even where the server has lost
// what it held, as the example of [Token] shows. A [Memory] knows no tokens but those of its own process, which are smaller than any of a server: so
// what is fenced refuses the calls that onfail=local lets in beside those of a server that is away.
//
// # Waiting
//
// Who waits stands in a queue: in a process, all are served in the order in which they came, so nobody starves, and one that wants much of
// a semaphore is not overtaken by those that want little: whoever asks is met where there is room for him and for all who stand before him. TryLock and TryAcquire overtake nobody either: they fail
// where others wait for what is left, without asking where those are of their process.
// Of a crowd in one process, only the first two stand in the store's queue, of a semaphore one more than its limit, eight at most; who comes behind them sends nothing until it is his turn.
// Of a semaphore, those of them who want as much may change places on the way to that queue.
// Between processes it is so fair by process, not by caller: those at the head of each are served in the order in which they came to stand there, and of several processes with crowds
// each has as many turns, however many wait in it.
//
// Who has less time left to wait than it takes to ask twice is passed over by those behind him, and at the head of the queue he asks for the last time then, and leaves it: what
// becomes free is not kept for who is about to give up.
//
// A release wakes the first in the queue, of a semaphore all for whom it makes room. Should that be lost, he asks by himself when the lease before him ends, and within a second at the
// latest. A waiter that does not ask for [WaiterLife], because its process is gone or stopped, loses its place, and keeps the others waiting for
// no longer. A store that is away for less than two seconds fails nobody who waits; one that is away for longer than WaiterLife fails all of a process together. What a crashed process held is free when its lease ends.
//
// # Semaphores
//
// [Semaphore] gives out permits, each with a lease of its own; what was said of holds is true of permits, but that they do not nest
// and have no token. The leases of permits end by the store's clock, so the clocks of the instances decide nothing.
//
// While callers wait, those at the head of each process's line have a round trip to the store to come to stand in its queue, and one to be met once there is room, of which each process has eight
// under way: so where more permits than that go on from hand to hand in two round trips, some are unused meanwhile.
//
// # Many items
//
// [Segmented] splits a lock over many items into a fixed number of locks.
//
// # Stores
//
// A [Store] decides; [Memory] is one, and redislock has the one in Redis. locktest has the tests that all of them pass.
package lock
