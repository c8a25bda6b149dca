package lock

import (
	"context"
	"slices"
	"sync"
	"time"
)

// hold is one hold of a tenure, and the context that is done when it ends.
type hold struct {
	outer    context.Context // what it derives from
	tenure   *tenure
	id       string
	released bool // guarded by tenure.mu, and changed under its order

	mu    sync.Mutex
	ended error           // why the hold ended before outer did; nil if it has not
	inner context.Context // of outer and ended: made when somebody asks, which many a short hold's owner never does
	end   context.CancelCauseFunc
}

func (h *hold) Deadline() (time.Time, bool) { return h.outer.Deadline() }

func (h *hold) Done() <-chan struct{} { return h.context().Done() }

// context is inner.
func (h *hold) context() context.Context {
	h.mu.Lock()
	inner, ended := h.inner, h.ended
	h.mu.Unlock()
	if inner != nil {
		return inner
	}
	outer := h.outer
	if ended != nil {
		outer = context.WithoutCancel(outer)
	}
	return h.keep(context.WithCancelCause(outer)) // mu is free: outer may be a hold that finds here that both are lost
}

// keep makes inner h's, unless it has one, and returns the one that it has.
func (h *hold) keep(inner context.Context, end context.CancelCauseFunc) context.Context {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.inner != nil {
		end(nil)
		return h.inner
	}
	h.inner, h.end = inner, end
	if h.ended != nil {
		end(h.ended)
	}
	return inner
}

// cancel ends the context, if it has not ended. The caller does not hold the tenure's mu, for outer may be a hold of the same.
func (h *hold) cancel(why error) {
	over := h.outer.Err() != nil
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.inner != nil:
		h.end(why)
	case h.ended == nil && !over:
		h.ended = why
	}
}

// innermost is what a context carries its innermost lock's hold by.
type innermost struct{}

// Err is not nil once the hold may be another's, even where this process was stopped meanwhile and nothing in it has
// noticed yet.
func (h *hold) Err() error {
	if lost := h.tenure.check(); lost != nil {
		h.cancel(lost) // which another goroutine may be about to do
	}
	return h.context().Err()
}

// nearest is what a context carries its innermost hold by, of a lock or of a semaphore.
type nearest struct{}

func (h *hold) Value(key any) any {
	if key == (nearest{}) {
		return h
	}
	if h.tenure.claim.Limit == 0 {
		switch key {
		case innermost{}:
			return h
		case fence{}:
			return h.tenure.token
		}
	}
	return h.context().Value(key)
}

// holding returns the tenure of a lock that ctx holds, nil if there is none.
func holding(ctx context.Context, s Store, name string) *tenure {
	for {
		h, ok := ctx.Value(innermost{}).(*hold)
		if !ok {
			return nil
		}
		if c := &h.tenure.claim; c.Name == name && h.tenure.store == s {
			return h.tenure
		}
		ctx = h.outer
	}
}

// holdsAny reports whether ctx has a hold of anything that has not been let go: others may wait for that.
func holdsAny(ctx context.Context) bool {
	h, ok := ctx.Value(nearest{}).(*hold)
	return ok && (!h.letGo() || holdsAny(h.outer))
}

// claim is what the store is asked about the hold. The caller holds the tenure's order or mu.
func (h *hold) claim() Claim {
	c := h.tenure.claim
	c.ID = h.id
	return c
}

func (h *hold) release() error {
	t := h.tenure
	_ = t.order.take(context.Background())
	defer t.order.give()
	t.check()
	last, held := t.remove(h)
	if !held {
		return ErrNotHeld
	}
	h.cancel(ErrReleased)
	held, err := t.store.Release(detached(h.outer), h.claim())
	if last {
		t.renewals.Wait() // they bring nothing back, and are not to be sent later
	}
	if lost := t.cause(); lost != nil {
		return lost
	}
	switch {
	case err == nil && !held:
		return ErrLost
	}
	return err
}

// detached is ctx without its end.
func detached(ctx context.Context) context.Context {
	if ctx.Done() == nil {
		return ctx
	}
	return context.WithoutCancel(ctx)
}

// letGo reports whether the hold was released.
func (h *hold) letGo() bool {
	h.tenure.mu.Lock()
	defer h.tenure.mu.Unlock()
	return h.released
}

func (h *hold) refresh(ctx context.Context) error {
	t := h.tenure
	t.check()
	c, err := h.renewal()
	if err != nil {
		return err
	}
	defer t.renewals.Done()
	sent := time.Now()
	a, err := t.store.Renew(ctx, c)
	switch {
	case err != nil:
		return err
	case a.Held:
		t.extend(sent, 0)
		return t.cause()
	case h.letGo():
		return ErrNotHeld // meanwhile
	}
	t.lose(ErrLost)
	return ErrLost
}

// renewal begins a renewal, and returns what the store is to be asked for it; or why there is none.
func (h *hold) renewal() (Claim, error) {
	t := h.tenure
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case h.released:
		return Claim{}, ErrNotHeld
	case t.over:
		return Claim{}, t.lost
	}
	t.renewals.Add(1)
	return h.claim(), nil
}

// valid is how long it is surely still held, zero if it has ended.
func (h *hold) valid() time.Duration {
	t := h.tenure
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over || !slices.Contains(t.holds, h) {
		return 0
	}
	return t.left()
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
