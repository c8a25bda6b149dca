package lock

import (
	"context"
	"time"
)

// hold is one hold of a tenure, and the context that is done when it ends.
type hold struct {
	context.Context
	cancel   context.CancelCauseFunc
	tenure   *tenure
	id       string
	released bool // guarded by tenure.order
}

// tenureKey is what a context carries the tenure of a lock by.
type tenureKey struct {
	store Store
	name  string
}

// innermost is what a context carries its innermost lock's hold by.
type innermost struct{}

// Err is not nil once the hold may be another's, even where this process was stopped meanwhile and nothing in it has
// noticed yet.
func (h *hold) Err() error {
	h.tenure.check()
	return h.Context.Err()
}

func (h *hold) Value(key any) any {
	t := h.tenure
	switch key := key.(type) {
	case tenureKey:
		if t.claim.Limit == 0 && key == (tenureKey{t.store, t.claim.Name}) {
			return t
		}
	case innermost:
		if t.claim.Limit == 0 {
			return h
		}
	}
	return h.Context.Value(key)
}

// claim is what the store is asked about the hold. The caller holds the tenure's order or mu.
func (h *hold) claim() Claim {
	c := h.tenure.claim
	c.ID = h.id
	return c
}

func (h *hold) end() error {
	t := h.tenure
	t.order.Lock()
	defer t.order.Unlock()
	if h.released {
		return ErrNotHeld
	}
	h.released = true
	t.check()
	t.remove(h)
	h.cancel(ErrReleased)
	held, err := t.store.Release(context.WithoutCancel(h.Context), h.claim())
	switch {
	case t.cause() != nil:
		return t.cause()
	case err == nil && !held:
		return ErrLost
	}
	return err
}

func (h *hold) refresh(ctx context.Context) error {
	t := h.tenure
	t.order.Lock()
	defer t.order.Unlock()
	if h.released {
		return ErrNotHeld
	}
	sent := time.Now()
	a, err := t.store.Renew(ctx, h.claim())
	if err != nil {
		return err
	}
	if !a.Held {
		t.lose(ErrLost)
		return ErrLost
	}
	t.extend(sent, 0)
	return t.cause()
}

func (h *hold) ttl(ctx context.Context) (time.Duration, error) {
	h.tenure.mu.Lock()
	c := h.claim()
	h.tenure.mu.Unlock()
	c.Lease = 0
	a, err := h.tenure.store.Renew(ctx, c)
	if err == nil && !a.Held {
		err = ErrLost
	}
	return a.Left, err
}
