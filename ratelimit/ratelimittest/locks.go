package ratelimittest

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/rlgen/rlgen/ratelimit/lock"
	"github.com/rlgen/rlgen/ratelimit/store"
)

// nobody is a lock.Store in which nobody waits.
type nobody struct{}

func (nobody) Join(context.Context) (lock.Waiter, error) {
	return lock.Waiter{ID: "nobody", Close: func(lock.Claim, bool) {}}, nil
}

// granting is a lock.Store that meets every claim.
type granting struct {
	nobody
	tokens atomic.Int64
}

func (g *granting) Acquire(ctx context.Context, c lock.Claim) (lock.Answer, error) {
	if err := store.Ended(ctx); err != nil {
		return lock.Answer{}, err
	}
	return lock.Answer{Held: true, Token: g.tokens.Add(1), Left: c.Lease}, nil
}

func (g *granting) Renew(_ context.Context, c lock.Claim) (lock.Answer, error) {
	return lock.Answer{Held: true, Left: c.Lease}, nil
}

func (g *granting) Release(context.Context, lock.Claim) (bool, error) { return true, nil }

// refusing is a lock.Store in which everything is held by others.
type refusing struct {
	nobody
	left time.Duration
}

func (r *refusing) Acquire(ctx context.Context, _ lock.Claim) (lock.Answer, error) {
	return lock.Answer{Left: r.left}, store.Ended(ctx)
}

func (r *refusing) Renew(context.Context, lock.Claim) (lock.Answer, error) {
	return lock.Answer{Left: r.left}, nil
}

func (r *refusing) Release(context.Context, lock.Claim) (bool, error) { return false, nil }

// failingLocks is a lock.Store that cannot decide.
type failingLocks struct {
	nobody
	failing
}

func (f *failingLocks) Acquire(context.Context, lock.Claim) (lock.Answer, error) {
	return lock.Answer{}, f.err()
}

func (f *failingLocks) Renew(context.Context, lock.Claim) (lock.Answer, error) {
	return lock.Answer{}, f.err()
}

func (f *failingLocks) Release(context.Context, lock.Claim) (bool, error) { return false, f.err() }
