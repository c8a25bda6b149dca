package lock

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/rlgen/rlgen/ratelimit/store"
)

// seek asks s to meet c, up to wait, or without end if that is negative. It also returns when it sent the asking that
// was met.
func seek(ctx context.Context, s Store, c Claim, wait time.Duration) (Answer, time.Time, error) {
	begin := time.Now()
	a, sent, err := ask(ctx, s, c)
	if err != nil || a.Held {
		return a, sent, err
	}
	if wait == 0 {
		return a, begin, &BusyError{RetryAfter: a.Left}
	}
	w, err := s.Join(ctx)
	if err != nil {
		return a, begin, err
	}
	c.Waiter = w.ID
	a, sent, err = queue(ctx, s, c, w.Woken, wait-time.Since(begin), wait < 0)
	w.Close(c, err == nil && a.Held)
	if err == nil && !a.Held {
		err = &BusyError{RetryAfter: a.Left}
	}
	return a, sent, err
}

// ask asks s to meet c, and says when it sent the asking. Where the answer took so long that the lease may be over, it asks once more: the
// holder would else begin with what is lost.
func ask(ctx context.Context, s Store, c Claim) (a Answer, sent time.Time, err error) {
	for range 2 {
		sent = time.Now()
		a, err = s.Acquire(ctx, c)
		if err != nil || !a.Held || time.Since(sent) < c.Lease-drift(c.Lease) {
			break
		}
	}
	return a, sent, err
}

// queue asks whenever c's waiter is woken, and now and then in case a waking is lost, until c is met, or there is no time
// left, or ctx is done.
func queue(ctx context.Context, s Store, c Claim, woken <-chan struct{}, left time.Duration, forever bool) (Answer, time.Time, error) {
	var end <-chan time.Time
	if !forever {
		t := time.NewTimer(left)
		defer t.Stop()
		end = t.C
	}
	poll := time.NewTimer(0)
	defer poll.Stop()
	for {
		a, sent, err := ask(ctx, s, c)
		if err != nil || a.Held {
			return a, sent, err
		}
		poll.Reset(nextPoll(a))
		select {
		case <-woken:
		case <-poll.C:
		case <-end:
			return a, sent, nil
		case <-ctx.Done():
			return a, sent, store.Ended(ctx)
		}
	}
}

// nextPoll is how long after an answer the waiter asks again if nobody wakes it: the first of the queue right after the
// leases end, all others now and then, at times of their own.
func nextPoll(a Answer) time.Duration {
	poll := pollEvery/2 + rand.N(pollEvery/2)
	if a.First && a.Left > 0 {
		return min(poll, a.Left+time.Millisecond)
	}
	return poll
}
