package lock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rlgen/rlgen/ratelimit/lock"
)

func ExampleLocker_Lock() {
	locks, err := lock.New(lock.NewMemory()) // redislock.New(client) across instances
	if err != nil {
		panic(err)
	}
	charge := func(ctx context.Context, order string) error {
		_, hold, err := locks.Lock(ctx, order) // nests, where the caller has it
		if err != nil {
			return err
		}
		defer hold.Unlock()
		fmt.Println("charged", order)
		return nil
	}

	ctx, hold, err := locks.Lock(context.Background(), "order/42")
	if err != nil {
		panic(err)
	}
	if err := charge(ctx, "order/42"); err != nil {
		panic(err)
	}
	_, _, err = locks.TryLock(context.Background(), "order/42")
	fmt.Println(errors.Is(err, lock.ErrBusy))
	fmt.Println(hold.Unlock())
	fmt.Println(context.Cause(ctx))
	// Output:
	// charged order/42
	// true
	// <nil>
	// hold released
}

// Ledger is something that is written to: it refuses whoever held the lock before the one who wrote last.
type Ledger struct {
	mu      sync.Mutex
	token   int64
	entries []string
}

var errStale = errors.New("stale token")

func (l *Ledger) Append(ctx context.Context, entry string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if lock.Token(ctx) < l.token {
		return errStale
	}
	l.token = lock.Token(ctx)
	l.entries = append(l.entries, entry)
	return nil
}

// The first holder is stopped for longer than its lease, and does not look at its context. What it then writes is refused:
// in SQL, UPDATE … SET token = $1 … WHERE token <= $1 does the same.
func ExampleToken() {
	now := time.Now()
	locks, err := lock.New(lock.NewMemory(lock.WithClock(func() time.Time { return now })), lock.WithLease(time.Minute))
	if err != nil {
		panic(err)
	}
	ledger := &Ledger{}

	first, slow, err := locks.Lock(context.Background(), "ledger")
	if err != nil {
		panic(err)
	}
	now = now.Add(2 * time.Minute) // in which it was not renewed
	second, hold, err := locks.Lock(context.Background(), "ledger")
	if err != nil {
		panic(err)
	}
	fmt.Println(ledger.Append(second, "second"))
	fmt.Println(ledger.Append(first, "first"))
	fmt.Println(hold.Unlock())
	fmt.Println(slow.Unlock())
	// Output:
	// <nil>
	// stale token
	// <nil>
	// hold lost
}

func ExampleSemaphore_Acquire() {
	reports, err := lock.NewSemaphore(lock.NewMemory(), 2, lock.WithWait(10*time.Millisecond))
	if err != nil {
		panic(err)
	}
	ctx, permit, err := reports.Acquire(context.Background(), "user/7")
	if err != nil {
		panic(err)
	}
	defer permit.Release()
	fmt.Println(ctx.Err())

	_, _, err = reports.AcquireN(context.Background(), "user/7", 2)
	fmt.Println(errors.Is(err, lock.ErrBusy))
	_, _, err = reports.AcquireN(context.Background(), "user/7", 3)
	fmt.Println(err)
	// Output:
	// <nil>
	// true
	// lock: cost cannot be met: 3, want 1 to 2
}

func ExampleSegmented_Lock() {
	locks, err := lock.New(lock.NewMemory())
	if err != nil {
		panic(err)
	}
	accounts, err := lock.NewSegmented(locks, "accounts", 16)
	if err != nil {
		panic(err)
	}
	_, holds, err := accounts.Lock(context.Background(), "alice", "bob")
	if err != nil {
		panic(err)
	}
	fmt.Println(holds.Unlock())
	// Output:
	// <nil>
}
