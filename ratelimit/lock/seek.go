package lock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/rlgen/rlgen/ratelimit/store"
)

// seek asks s to meet c, up to wait, or without end if that is negative. It also returns when it sent the asking that
// was met. The claim may have another ID then. What is asked when the wait ends without others of the process before it is waited for: a wait that is shorter than
// the way to the store is not in vain.
func seek(ctx context.Context, s Store, c *Claim, wait time.Duration, limit func() int64) (Answer, time.Time, error) {
	begin := time.Now()
	c.Next = holdsAny(ctx)
	if wait > 0 && (c.Patience == 0 || c.Patience > wait) {
		c.Patience = wait
	}
	a, sent, err := ask(ctx, s, *c)
	if a.Held || err != nil && !errors.Is(err, ErrCrowded) {
		return a, sent, err
	}
	if wait == 0 || wait > 0 && time.Since(begin) >= wait {
		return a, begin, busy(a, err)
	}
	w, err := s.Join(ctx)
	if err != nil {
		return a, begin, err
	}
	c.Waiter = w.ID
	q := queue{store: s, claim: c, woken: w.Woken, limit: limit, answer: a, heard: begin, failed: err}
	if wait > 0 {
		q.end = begin.Add(wait)
	}
	err = q.wait(ctx)
	w.Close(*c, err == nil)
	return q.answer, q.sent, err
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
	claim *Claim
	woken <-chan struct{}
	limit func() int64 // of a semaphore, as it is now
	end   time.Time    // zero if the claim waits without one

	answer Answer // the latest
	sent   time.Time
	heard  time.Time // when the store last answered
	failed error     // the latest asking; nil if it was answered
}

// wait asks whenever the waiter is woken, and now and then in case a waking is lost, until the claim is met, or there is no time
// left, or ctx is done. A store that does not answer is asked for as long as it keeps the waiter's place: others may have to wait for it, too.
func (q *queue) wait(ctx context.Context) error {
	limited, over := ctx, (<-chan struct{})(nil)
	if !q.end.IsZero() {
		var cancel context.CancelFunc
		limited, cancel = context.WithDeadline(ctx, q.end)
		defer cancel()
		over = limited.Done()
	}
	poll := time.NewTimer(0)
	defer poll.Stop()
	for {
		if err := q.ask(limited); q.answer.Held || err != nil {
			return q.ended(ctx, limited, err)
		}
		poll.Reset(q.pause())
		select {
		case <-q.woken:
			q.claim.Next = true
		case <-poll.C:
		case <-over:
			return q.ended(ctx, limited, nil)
		case <-ctx.Done():
			return q.ended(ctx, limited, nil)
		}
	}
}

// ask asks once. It fails where asking again would not help.
func (q *queue) ask(ctx context.Context) error {
	if q.claim.Limit > 0 {
		if now := q.limit(); now >= q.claim.Cost {
			q.claim.Limit = now
		}
	}
	a, sent, err := ask(ctx, q.store, *q.claim)
	switch {
	case err == nil:
		q.answer, q.sent, q.heard, q.failed = a, sent, time.Now(), nil
		q.claim.Next = a.First
		return nil
	case store.Ended(ctx) != nil:
		return err
	case errors.Is(err, ErrCrowded):
		q.failed, q.heard = err, time.Now()
		return nil
	case !passing(err) || time.Since(q.heard) > WaiterLife:
		return err
	}
	q.failed = err
	q.claim.ID = newOwner(":0") // the store lets go of the one that it may have met
	return nil
}

// ended is how the waiting ended, because of err, or because a context did.
func (q *queue) ended(ctx, limited context.Context, err error) error {
	switch {
	case err == nil && q.answer.Held:
		return nil
	case store.Ended(ctx) != nil:
		return store.Ended(ctx)
	case limited.Err() == nil:
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
