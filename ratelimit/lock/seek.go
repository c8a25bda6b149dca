package lock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/rlgen/rlgen/ratelimit/store"
)

// seek asks s to meet c, up to wait, or without end if that is negative. It also returns when it sent the asking that
// was met. The claim may have another ID then. What is asked when the wait ends without others of the process before it is waited for: a wait that is shorter than
// the way to the store is not in vain.
func seek(ctx context.Context, s Store, c *Claim, wait time.Duration, limit func() int64) (Answer, time.Time, error) {
	c.Next = holdsAny(ctx)
	if wait == 0 {
		return try(ctx, s, *c)
	}
	q := queues.Get().(*queue)
	q.store, q.claim, q.limit = s, *c, limit
	defer q.close()
	if wait > 0 {
		q.end = time.Now().Add(wait)
		if c.Patience == 0 || c.Patience > wait {
			q.claim.Patience = wait
		}
	}
	alone := q.spot.enter(s, &q.claim, q.end)
	err := q.wait(ctx, alone)
	c.ID = q.claim.ID
	return q.answer, q.sent, err
}

// try asks once, if nobody of the process waits.
func try(ctx context.Context, s Store, c Claim) (Answer, time.Time, error) {
	if a, none := taken(s, &c); none {
		return a, time.Time{}, busy(a, nil)
	}
	a, sent, err := ask(ctx, s, c)
	if !a.Held && (err == nil || errors.Is(err, ErrCrowded)) {
		err = busy(a, err)
	}
	return a, sent, err
}

// busy is the error of a claim that was not met by an answer, or by a store that was not asked because of err.
func busy(a Answer, err error) error {
	return &BusyError{RetryAfter: a.Left, Crowded: err != nil}
}

// ask asks s to meet c, and says when it sent the asking. Where the answer took so long that the lease may be over, it asks once more, and where that
// is no better it lets go: the holder would else begin with what is lost.
func ask(ctx context.Context, s Store, c Claim) (a Answer, sent time.Time, err error) {
	for range 2 {
		sent = time.Now()
		a, err = s.Acquire(ctx, c)
		if err != nil || !a.Held || time.Since(sent) < c.Lease-drift(c.Lease) {
			return a, sent, err
		}
	}
	took := time.Since(sent)
	_, _ = s.Release(context.WithoutCancel(ctx), c)
	return Answer{}, sent, fmt.Errorf("lock: %w: the store's answer took %v of a lease of %v, want a longer one", ErrLost, took.Round(time.Millisecond), c.Lease)
}

// queue is a claim that waits.
type queue struct {
	store Store
	claim Claim
	spot  spot
	limit func() int64 // of a semaphore, as it is now
	end   time.Time    // zero if the claim waits without one

	answer Answer // the latest
	sent   time.Time
	failed error // the latest asking; nil if it was answered
}

// queues are some that nobody uses: a claim that is met at once has one for no longer than the way to the store.
var queues = sync.Pool{New: func() any { return &queue{} }}

// close ends the claim's waiting.
func (q *queue) close() {
	q.spot.leave()
	*q = queue{}
	queues.Put(q)
}

// wait waits until the claim is met, or there is no time left, or ctx is done. Where it is alone, nobody else of the process waited when it came.
func (q *queue) wait(ctx context.Context, alone bool) error {
	var turn <-chan struct{}
	var refused bool
	if !alone {
		turn, refused = q.spot.stand()
	}
	if turn == nil && !refused {
		if done, err := q.begin(ctx); done {
			return err
		}
	}
	limited, cancel := q.limited(ctx)
	defer cancel()
	err := q.queue(limited)
	return q.ended(ctx, limited, err)
}

// begin asks for the first time, without a place in the store's queue, and reports whether that is all.
func (q *queue) begin(ctx context.Context) (done bool, err error) {
	q.answer, q.sent, q.failed = ask(ctx, q.store, q.claim)
	if q.answer.Held && q.failed == nil {
		q.spot.met = q.sent
		return true, nil
	}
	q.spot.hear(q.answer, q.sent, q.failed, false)
	switch {
	case failing(q.failed):
		return true, q.failed
	case q.over():
		return true, busy(q.answer, q.failed)
	}
	return false, nil
}

// limited is ctx until the wait ends.
func (q *queue) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	if q.end.IsZero() {
		return ctx, func() {}
	}
	return context.WithDeadline(ctx, q.end)
}

// over says whether the wait has ended, by the clock: what it cuts short may fail before the context of the wait is done.
func (q *queue) over() bool { return !q.end.IsZero() && !time.Now().Before(q.end) }

// queue waits for the claim's turn in this process, and then in the store's queue.
func (q *queue) queue(ctx context.Context) error {
	if err := q.turn(ctx); err != nil || q.answer.Held {
		return err
	}
	w, err := q.store.Join(ctx)
	if err != nil {
		return err
	}
	if err := q.stand(ctx, w); err != nil || q.answer.Held {
		return err
	}
	q.spot.retire()
	<-ctx.Done()
	return nil
}

// stand waits as w in the store's queue.
func (q *queue) stand(ctx context.Context, w Waiter) (err error) {
	q.claim.Waiter = w.ID
	met := false
	defer func() { w.Close(q.claim, met) }() // what the limit is asked for may panic
	err = q.poll(ctx, w.Woken)
	met = err == nil && q.answer.Held
	return err
}

// turn waits until it is the claim's turn. It asks then where those before it were all met, and nobody knows that there is no room for it.
func (q *queue) turn(ctx context.Context) error {
	for {
		turn, refused := q.spot.stand()
		switch {
		case turn != nil:
			if err := q.called(ctx, turn); err != nil {
				return err
			}
		case refused || q.failed != nil:
			return nil
		default:
			q.current()
			if done, err := q.begin(ctx); done {
				return err
			}
		}
	}
}

// called waits until the claim is called, or ctx ends: what those before it have heard is all that is known then.
func (q *queue) called(ctx context.Context, turn <-chan struct{}) error {
	select {
	case <-turn:
		return q.spot.called()
	case <-ctx.Done():
		q.answer, q.failed = q.spot.latest()
		return store.Ended(ctx)
	}
}

// poll asks whenever the waiter is woken, and now and then in case a waking is lost; and for the last time while there is time for an answer, by which he leaves the queue: what those find free who
// come to stand at its head one after the other, each when his wait is nearly over, is theirs then. A store that does not answer is asked for as long as it keeps the waiter's place: others may have to wait for it, too.
func (q *queue) poll(ctx context.Context, woken <-chan struct{}) error {
	poll := time.NewTimer(0)
	defer poll.Stop()
	for {
		left, took := q.spot.left()
		if left < took && !q.sent.IsZero() {
			return nil
		}
		q.claim.Last = left <= lead*took
		if err := q.ask(ctx); q.answer.Held || err != nil || q.claim.Last {
			return err
		}
		left, took = q.spot.left()
		poll.Reset(min(q.pause(), left-lead*took))
		select {
		case <-woken:
			q.claim.Next = true
		case <-poll.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// ask asks once. It fails where asking again would not help.
func (q *queue) ask(ctx context.Context) error {
	q.current()
	a, sent, err := ask(ctx, q.store, q.claim)
	q.spot.hear(a, sent, err, true)
	switch {
	case err == nil:
		q.answer, q.sent, q.failed = a, sent, nil
		q.claim.Next = a.First
		return nil
	case store.Ended(ctx) != nil || q.over():
		return err
	case errors.Is(err, ErrCrowded):
		q.failed = err
		return nil
	case !q.spot.outlasts(err):
		return err
	}
	q.failed = err
	q.claim.ID = newOwner(":0") // the store lets go of the one that it may have met
	return nil
}

// current gives the claim the limit as it is now, unless it wants more.
func (q *queue) current() {
	if q.claim.Limit == 0 {
		return
	}
	if now := q.limit(); now >= q.claim.Cost {
		q.claim.Limit = now
		q.spot.admit(now)
	}
}

// ended is how the waiting ended, because of err, or because a context did.
func (q *queue) ended(ctx, limited context.Context, err error) error {
	switch {
	case err == nil && q.answer.Held:
		return nil
	case store.Ended(ctx) != nil:
		return store.Ended(ctx)
	case limited.Err() == nil && !q.over():
		return err
	case q.failed == nil || errors.Is(q.failed, ErrCrowded):
		return busy(q.answer, q.failed)
	}
	return q.failed
}

// passing says whether an error of a store may pass by itself.
func passing(err error) bool {
	var failed *store.Error
	return errors.As(err, &failed) && failed.Class != store.Misconfigured
}

// retryEvery is how soon a store that has not answered is asked again.
const retryEvery = 100 * time.Millisecond

// pause is how long after an answer the waiter asks again if nobody wakes it: the first of the queue right after the
// leases end, all others now and then, at times of their own.
func (q *queue) pause() time.Duration {
	if q.failed != nil {
		return retryEvery + rand.N(retryEvery)
	}
	poll := pollEvery/2 + rand.N(pollEvery/2)
	if q.answer.First && q.answer.Left > 0 {
		return min(poll, q.answer.Left+time.Millisecond)
	}
	return poll
}
