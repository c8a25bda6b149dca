package lock

import (
	"context"
	"time"

	"github.com/rlgen/rlgen/ratelimit/store"
)

// Store keeps who holds what, and who waits for it. It decides by its own clock, each claim at one instant, and is safe
// for concurrent use.
//
// An error of a store's is a [store.Error], or that of a context that is done: the
// claim may have been met. A store then releases it by itself, as far as it can, and keeps the place of its waiter, who may ask again with another ID.
// Where a store was surely not asked because this process asks it for too much, the error of Acquire is [ErrCrowded].
type Store interface {
	// Acquire meets c, or says that it cannot be met now. Meeting the same ID again is no second hold: it puts off the
	// lease's end, as a renewal does.
	//
	// A claim that is not met and has a Waiter stands in the queue of its name from then on, and keeps its place as long as
	// it is asked again within [WaiterLife]. Nobody is served before those who stand there.
	Acquire(ctx context.Context, c Claim) (Answer, error)

	// Renew puts off the end of c's lease to c.Lease from now, and never brings it closer. It does so only while c is held,
	// which the answer says; with a Lease of zero it changes nothing.
	Renew(ctx context.Context, c Claim) (Answer, error)

	// Release ends c's hold, and says whether it was held. Others' holds are not touched, whatever c says.
	Release(ctx context.Context, c Claim) (bool, error)

	// Join returns a new waiter.
	Join(ctx context.Context) (Waiter, error)
}

// Checker is a [Store] that can find out, before anybody depends on it, what would make claims fail.
type Checker interface {
	// Check holds none of claims. Its error is a [store.Error], or that of a context that is done.
	Check(ctx context.Context, claims []Claim) ([]store.Finding, error)
}

// Claim is one hold, wanted or had.
type Claim struct {
	Name string // what is held; any text
	ID   string // names the hold, and is no other's

	// Outer is the ID of a hold of the same lock that this one nests in. The claim is then met if and only if that one is
	// held, and needs no room.
	Outer string

	Lease time.Duration

	// Limit is the cost that may be held at once, 0 for a lock, which one owner holds. Locks and semaphores of one name
	// have nothing to do with each other.
	Limit int64
	Cost  int64 // of a semaphore's limit: 1 or more, the same in all that is asked of one ID

	// Waiter is the ID of a [Waiter], empty for a claim that does not wait.
	Waiter string
	// Last says that the claim is not asked again: where it is not met, its waiter leaves the queue.
	Last bool
	// Next says that the claim is not to wait for others of its process to ask: its waiter was told that it may be its turn, or whoever asks for the first
	// time holds something else, for which others may wait.
	Next bool
	// Patience is how long the claim waits at most for others of its process to ask before the store is asked about it; zero leaves that to the store.
	Patience time.Duration
}

// Answer is what a store says of a claim.
type Answer struct {
	Held bool
	// Token is larger than that of each hold of the same lock that began before. Nested holds have the outer one's.
	Token int64
	// Left is how long the claim's lease still runs, or, where it is not held, how long until others' leases end
	// unless they are renewed. Zero is unknown.
	Left time.Duration
	// First says of a claim that waits that it is the next to be served.
	First bool
}

// Waiter is a place in queues.
type Waiter struct {
	ID string
	// Woken receives when it may be the waiter's turn.
	Woken <-chan struct{}
	// Close ends the waiter. Where c, the claim that it stood for, was not met, it leaves the queue, in the background where
	// that takes time.
	Close func(c Claim, met bool)
}

const (
	// WaiterLife is how long a place in a queue is kept for a waiter that does not ask.
	WaiterLife = 3 * time.Second

	pollEvery = time.Second
)

// Bounds of a claim. A lease has whole milliseconds.
const (
	MinLease = 10 * time.Millisecond
	MaxLease = 24 * time.Hour
	MaxLimit = 1_000_000
	MaxCost  = 1_000
)
