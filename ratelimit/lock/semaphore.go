package lock

import (
	"context"
	"fmt"
	"time"

	"github.com/rlgen/rlgen/ratelimit/store"
)

// Semaphore lets holds of a total cost be had of a name at once, by all that use the same store. It is safe for
// concurrent use and needs no closing. The zero Semaphore is not valid; [NewSemaphore] makes one.
//
// Semaphores of one name may have different limits: each obeys its own. A smaller one ends no hold that there is; it
// gives out none until there is room. Who waits first keeps those behind him waiting even where their limit is larger than his: a limit that is to be
// raised while somebody waits is that of [WithLimit].
type Semaphore struct {
	settings
	limit int64
}

// NewSemaphore returns a semaphore of limit, from 1 to [MaxLimit].
func NewSemaphore(store Store, limit int64, opts ...Option) (*Semaphore, error) {
	s, err := newSettings(store, opts)
	if err != nil {
		return nil, err
	}
	if limit < 1 || limit > MaxLimit {
		return nil, fmt.Errorf("lock: limit %d, want 1 to %d", limit, MaxLimit)
	}
	return &Semaphore{s, limit}, nil
}

// Acquire waits until it has one of name, in the order in which those of its process came, or fails with [ErrBusy] if that takes longer
// than [WithWait] permits, or with the context's error.
//
// The context that it returns is done when the permit is released ([ErrReleased]) or lost ([ErrLost] is its cause), or when ctx is, which also
// ends the renewing. Each Acquire takes room of its own: one that nests in another may wait for it forever. If Acquire fails, the context is ctx.
func (s *Semaphore) Acquire(ctx context.Context, name string) (context.Context, *Permit, error) {
	return s.acquire(ctx, name, 1, s.wait)
}

// AcquireWithin is AcquireN that waits up to wait, whatever [WithWait] says; with zero or less it is TryAcquire.
func (s *Semaphore) AcquireWithin(ctx context.Context, name string, cost int64, wait time.Duration) (context.Context, *Permit, error) {
	return s.acquire(ctx, name, cost, max(0, wait))
}

// AcquireN is Acquire of cost at once, from 1 to the limit and to [MaxCost]. Who waits for much is not overtaken by who wants little.
func (s *Semaphore) AcquireN(ctx context.Context, name string, cost int64) (context.Context, *Permit, error) {
	return s.acquire(ctx, name, cost, s.wait)
}

// TryAcquire is AcquireN without waiting. It fails with [ErrBusy], too, where others wait.
func (s *Semaphore) TryAcquire(ctx context.Context, name string, cost int64) (context.Context, *Permit, error) {
	return s.acquire(ctx, name, cost, 0)
}

func (s *Semaphore) acquire(ctx context.Context, name string, cost int64, wait time.Duration) (context.Context, *Permit, error) {
	if err := store.Ended(ctx); err != nil {
		return ctx, nil, err
	}
	limit := s.current()
	if cost < 1 || cost > limit || cost > MaxCost {
		return ctx, nil, fmt.Errorf("lock: %w: %d, want 1 to %d", ErrCost, cost, min(limit, MaxCost))
	}
	t := newTenure(ctx, &s.settings, Claim{Name: name, Limit: limit, Cost: cost})
	h, err := t.begin(ctx, wait, s.current)
	if err != nil {
		return ctx, nil, err
	}
	return h, (*Permit)(h), nil
}

// current is the limit as it is now.
func (s *Semaphore) current() int64 {
	if s.limits != nil {
		if n := s.limits(); n >= 1 && n <= MaxLimit {
			return n
		}
	}
	return s.limit
}

// Permit is one Acquire that has not been released. It is safe for concurrent use.
type Permit hold

// Release gives the permit back. It is to a permit what [Hold.Unlock] is to a lock.
func (p *Permit) Release() error { return (*hold)(p).release() }

// Refresh is to a permit what [Hold.Refresh] is to a lock.
func (p *Permit) Refresh(ctx context.Context) error { return (*hold)(p).refresh(ctx) }

// TTL is to a permit what [Hold.TTL] is to a lock.
func (p *Permit) TTL(ctx context.Context) (time.Duration, error) { return (*hold)(p).ttl(ctx) }

// Valid is to a permit what [Hold.Valid] is to a lock.
func (p *Permit) Valid() time.Duration { return (*hold)(p).valid() }
