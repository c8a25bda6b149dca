package lock

import (
	"context"
	"sync"

	"github.com/rlgen/rlgen/ratelimit/store"
)

// turn is a mutex that is not waited for longer than a context lasts. The zero turn is nobody's.
type turn struct {
	mu    sync.Mutex
	taken bool
	freed chan struct{} // closed when it is not taken any more; nil while nobody waits for that
}

// take waits for the turn, or fails with the end of ctx.
func (t *turn) take(ctx context.Context) error {
	for {
		freed := t.try()
		if freed == nil {
			return nil
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return store.Ended(ctx)
		}
	}
}

// try takes the turn, or returns what tells that it is worth trying again.
func (t *turn) try() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.taken {
		t.taken = true
		return nil
	}
	if t.freed == nil {
		t.freed = make(chan struct{})
	}
	return t.freed
}

func (t *turn) give() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.taken = false
	if t.freed != nil {
		close(t.freed)
		t.freed = nil
	}
}
