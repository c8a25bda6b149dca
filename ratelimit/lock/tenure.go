package lock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rlgen/rlgen/ratelimit/internal/due"
)

// tenure is the time from a fresh acquisition until the last of the holds that nest in it ends.
type tenure struct {
	store   Store
	watch   *due.List
	watched due.Entry // in watch
	claim   Claim     // its lease changes only under order and mu both
	maxHold time.Duration
	ctx     context.Context // of the fresh acquisition
	token   int64

	order turn // nested acquisitions and releases come one after the other

	start time.Time
	valid atomic.Int64 // until when it is surely held: ns after start

	mu       sync.Mutex
	holds    []*hold
	few      [1]*hold    // what holds begins in
	own      hold        // the first
	count    int         // holds that there ever were
	timer    *time.Timer // nil while watch has it
	unmeant  string      // why it is not renewed, where that is meant
	over     bool        // released, or lost for the reason that lost says
	lost     error
	renewals sync.WaitGroup // that are under way; none begins once it is over
}

// newTenure prepares a tenure of what c names.
func newTenure(ctx context.Context, s *settings, c Claim) *tenure {
	c.Lease, c.Patience = s.lease, s.patience
	return &tenure{store: s.store, watch: s.watch, claim: c, maxHold: s.maxHold, ctx: ctx}
}

// begin acquires the tenure's first hold, waiting for it up to wait, or without end if that is negative. Of a semaphore, limit is what is current.
func (t *tenure) begin(ctx context.Context, wait time.Duration, limit func() int64) (*hold, error) {
	h := &t.own
	h.tenure, h.id, t.count = t, newOwner(":0"), 1
	c := h.claim()
	a, sent, err := seek(ctx, t.store, &c, wait, limit)
	if err != nil {
		return nil, err
	}
	h.id, t.claim.ID = c.ID, strings.TrimSuffix(c.ID, ":0")
	t.token, t.start = a.Token, sent
	t.valid.Store(int64(t.claim.Lease - drift(t.claim.Lease)))
	h.outer = ctx
	t.mu.Lock()
	defer t.mu.Unlock()
	t.holds = append(t.few[:0], h)
	t.watch.Add(&t.watched, t, sent.Add(t.period()))
	return h, nil
}

// nest acquires a further hold, within those that there are. It returns nil if there are none any more.
func (t *tenure) nest(ctx context.Context, lease time.Duration) (*hold, error) {
	if err := t.order.take(ctx); err != nil {
		return nil, err
	}
	defer t.order.give()
	t.check()
	outer := t.anyHold()
	if outer == nil {
		return nil, nil
	}
	if err := t.cause(); err != nil {
		return nil, err
	}
	h := t.newHold()
	c := h.claim()
	c.Outer, c.Lease = outer.id, lease
	sent := time.Now()
	a, err := t.store.Acquire(ctx, c)
	if errors.Is(err, ErrCrowded) {
		return nil, busy(a, err)
	}
	if err != nil {
		return nil, err
	}
	if !a.Held {
		t.lose(ErrLost)
		return nil, ErrLost
	}
	t.extend(sent, lease)
	h.outer = ctx
	if lost := t.add(h); lost != nil { // meanwhile
		h.cancel(lost)
	}
	return h, nil
}

// add makes h one of the holds, and says why they are lost, nil if they are not.
func (t *tenure) add(h *hold) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.holds = append(t.holds, h)
	return t.lost
}

// newHold prepares a hold. The caller holds order, or the tenure alone.
func (t *tenure) newHold() *hold {
	h := &hold{tenure: t, id: t.claim.ID + ":" + strconv.Itoa(t.count)}
	t.count++
	return h
}

// remove makes h none of the holds, and reports whether it was the last one: no renewal begins any more then; and whether it was one.
func (t *tenure) remove(h *hold) (last, was bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if h.released {
		return false, false
	}
	h.released = true
	t.holds = slices.DeleteFunc(t.holds, func(other *hold) bool { return other == h })
	if len(t.holds) > 0 {
		return false, true
	}
	t.over = true
	t.rest()
	return true, true
}

func (t *tenure) anyHold() *hold {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.holds) == 0 {
		return nil
	}
	return t.holds[0]
}

// extend puts off until when it is held, a store having renewed it at sent or later. A lease of zero is the one that it has.
func (t *tenure) extend(sent time.Time, lease time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if lease > t.claim.Lease {
		t.claim.Lease = lease
	}
	lease = t.claim.Lease
	until := int64(sent.Sub(t.start) + lease - drift(lease))
	t.valid.Store(max(t.valid.Load(), until))
	t.unmeant = ""
}

// left is how long it is surely still held.
func (t *tenure) left() time.Duration { return time.Duration(t.valid.Load()) - time.Since(t.start) }

// check makes it lost if it is not surely held, and says why it is lost then.
func (t *tenure) check() error {
	if t.left() > 0 {
		return nil
	}
	t.mu.Lock()
	why := cmp.Or(t.unmeant, "not renewed within its lease")
	t.mu.Unlock()
	t.lose(fmt.Errorf("%w: %s", ErrLost, why))
	return t.cause()
}

// cause says why it is lost, nil if it is not.
func (t *tenure) cause() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lost
}

// lose ends the contexts of the holds, if they have not ended.
func (t *tenure) lose(why error) {
	for _, h := range t.give(why) {
		h.cancel(why)
	}
}

// give makes it lost, and returns the holds whose contexts are to end: none if it is over.
func (t *tenure) give(why error) []*hold {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return nil
	}
	t.over, t.lost = true, why
	t.rest()
	return slices.Clone(t.holds)
}

// period is how long after a renewal the next one is due.
func (t *tenure) period() time.Duration { return t.claim.Lease / 3 }

// Due begins to renew it.
func (t *tenure) Due() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.over {
		t.timer = time.AfterFunc(0, t.tick)
	}
}

// rest ends the renewing. The caller holds mu.
func (t *tenure) rest() {
	if t.timer != nil {
		t.timer.Stop()
	} else {
		t.watch.Remove(&t.watched)
	}
}

// tick renews, or finds that it is lost; it is what the timer calls.
func (t *tenure) tick() {
	t.check()
	unmeant := t.meansNot()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return
	}
	if t.unmeant = unmeant; unmeant != "" {
		t.timer.Reset(t.left())
		return
	}
	if next := t.renew(); !t.over {
		t.timer.Reset(min(next, t.left()))
	}
}

// meansNot says why it is not to be renewed, if it is not. The caller does not hold mu, for the contexts may be those of holds.
func (t *tenure) meansNot() string {
	switch {
	case t.maxHold > 0 && time.Since(t.start) >= t.maxHold:
		return "held for longer than it is renewed"
	case t.ctx.Err() == nil || slices.ContainsFunc(t.snapshot(), func(h *hold) bool { return h.outer.Err() == nil }):
		return ""
	}
	return "not renewed, for the context that it was acquired with is done"
}

func (t *tenure) snapshot() []*hold {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.holds)
}

// renew renews once, and returns when to do so again. The caller holds mu, which renew gives up while it waits for the store.
func (t *tenure) renew() time.Duration {
	h := t.holds[0]
	c := h.claim()
	t.renewals.Add(1)
	defer t.renewals.Done()
	t.mu.Unlock()
	sent := time.Now()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), t.left())
	a, err := t.store.Renew(ctx, c)
	cancel()
	switch {
	case err != nil:
		t.check()
	case a.Held:
		t.extend(sent, 0)
	case t.anyHold() == h:
		t.lose(fmt.Errorf("%w: the store does not have it any more", ErrLost))
	}
	t.mu.Lock()
	if err != nil || !a.Held {
		return t.period() / 5
	}
	return t.period() - time.Since(sent)
}
