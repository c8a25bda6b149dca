package prefetch

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rlgen/rlgen/ratelimit/store"
)

// The state of a batch is, in one number: how many calls have taken of it, whether it is over, and how many permits are left.
const (
	aCall    = 1 << 32
	over     = 1 << 31
	leftMask = over - 1
)

// batch is permits that were charged at once. It is used without a lock.
type batch struct {
	of      *pool
	epoch   uint64 // of the pool
	receipt store.Receipt
	rules   []store.RuleOutcome // what the store has said of it
	size    int64
	low     int64 // of what is left, when the next batch is due
	taken   time.Time
	until   time.Time // when the permits are of no use any more
	timer   *time.Timer
	state   atomic.Uint64

	mu       sync.Mutex
	given    map[uint32]struct{} // calls that are given back
	returned int64               // permits that are the store's again
}

// newBatch returns what out has charged to req, all of it still there.
func newBatch(of *pool, epoch uint64, req *store.Request, out store.Outcome) *batch {
	b := &batch{of: of, epoch: epoch, receipt: out.Receipt, rules: out.Rules, size: req.Cost, low: (req.Cost + 3) / 4}
	b.state.Store(uint64(b.size))
	return b
}

// usable says whether b, which may be nil, has permits that may be used at now.
func (b *batch) usable(now time.Time) bool { return b != nil && b.left() > 0 && b.good(now) }

// good says whether permits may be used at now: neither clock has reached the end, of which one stands still while the machine sleeps, and the other one may
// be set.
func (b *batch) good(now time.Time) bool {
	return now.Before(b.until) && now.Round(0).Before(b.until.Round(0))
}

// take takes cost, and returns the call's number. due says that the next batch is.
func (b *batch) take(cost int64) (serial uint32, due, ok bool) {
	for {
		state := b.state.Load()
		left := int64(state & leftMask)
		if state&over != 0 || cost > left {
			return 0, false, false
		}
		if b.state.CompareAndSwap(state, state+aCall-uint64(cost)) {
			return uint32(state>>32) + 1, left >= b.low && left-cost < b.low, true
		}
	}
}

// left is how many permits can still be taken.
func (b *batch) left() int64 {
	state := b.state.Load()
	if state&over != 0 {
		return 0
	}
	return int64(state & leftMask)
}

// used is how many permits were taken and not put back.
func (b *batch) used() int64 { return b.size - int64(b.state.Load()&leftMask) }

// put puts permits back that were taken, and reports whether the batch is still there for them.
func (b *batch) put(cost int64) bool {
	for {
		state := b.state.Load()
		if state&over != 0 {
			return false
		}
		if b.state.CompareAndSwap(state, state+uint64(cost)) {
			return true
		}
	}
}

// end makes that nothing is taken any more. It returns what is left, the first time.
func (b *batch) end() (left int64) {
	before := b.state.Or(over)
	if before&over != 0 {
		return 0
	}
	return int64(before & leftMask)
}

// GiveBack gives back what one call has taken, the first time.
func (b *batch) GiveBack(ctx context.Context, receipt store.Receipt) error {
	if len(receipt.Requests) == 0 {
		return nil
	}
	return b.giveBack(ctx, uint32(receipt.ID), receipt.Requests[0].Cost)
}

func (b *batch) giveBack(ctx context.Context, serial uint32, cost int64) error {
	if !b.give(serial) {
		return nil
	}
	return b.undo(ctx, cost)
}

// give takes note that a call is given back, and reports whether it was not before.
func (b *batch) give(serial uint32) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, again := b.given[serial]; again {
		return false
	}
	if b.given == nil {
		b.given = make(map[uint32]struct{})
	}
	b.given[serial] = struct{}{}
	return true
}

// undo leaves to others what a call has taken that is not made.
func (b *batch) undo(ctx context.Context, cost int64) error {
	if b.put(cost) {
		return nil
	}
	return b.hand(ctx, cost)
}

// settle ends the batch, and gives back to the store what is left of it.
func (b *batch) settle(ctx context.Context) {
	b.of.store.unkeep(b)
	if left := b.end(); left > 0 {
		_ = b.hand(ctx, left) // what the store does not hear of leaves the window by itself
	}
}

// hand gives permits back to the store, unless that has been told to forget them.
func (b *batch) hand(ctx context.Context, cost int64) error {
	b.mu.Lock()
	first := b.returned
	b.returned += cost
	b.mu.Unlock()
	if !b.remembered() {
		return nil
	}
	return b.of.store.Store.GiveBack(ctx, b.receipt.Some(first, cost))
}

// remembered says whether the store has not been told to forget what it has charged.
func (b *batch) remembered() bool { return b.epoch == b.of.epoch.Load() }

// describe appends an answer for each of the rules: with detail, what the store has said when the batch was taken, and what was used of it since.
func (b *batch) describe(answers []store.RuleOutcome, detail bool) []store.RuleOutcome {
	if !detail {
		for range b.rules {
			answers = append(answers, store.RuleOutcome{})
		}
		return answers
	}
	left, since := b.left(), time.Since(b.taken)
	for _, r := range b.rules {
		r.Remaining += left
		r.ResetAfter = max(0, r.ResetAfter-since)
		answers = append(answers, r)
	}
	return answers
}
