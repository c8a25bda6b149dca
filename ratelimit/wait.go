package ratelimit

import (
	"context"
	"slices"
	"time"

	"github.com/rlgen/rlgen/ratelimit/store"
)

// DefaultMaxWaiters is how many calls of a limiter wait at most unless [WithMaxWaiters] says otherwise.
const DefaultMaxWaiters = 1024

// waiting is a call that may wait: on its way through lines, asks and pauses to its decision.
type waiting struct {
	guard   *Guard
	ctx     context.Context
	call    call
	began   time.Time
	waited  time.Duration
	place   *place          // in a line; nil if in none
	counted bool            // among the limiter's waiters
	outage  <-chan struct{} // that has ended a pause
}

// await decides a call of which at least one limit has a wait.
func (g *Guard) await(ctx context.Context, c *call, detail bool, d *Decision, permit *Permit) error {
	w := &waiting{guard: g, ctx: ctx, call: *c, began: time.Now()}
	err := w.decide(detail, d, permit)
	w.leave()
	if w.counted {
		g.limiter.waiters.Add(-1)
	}
	d.Waited = w.waited
	return err
}

func (w *waiting) decide(detail bool, d *Decision, permit *Permit) error {
	if err := w.lineUp(); err != nil {
		return err
	}
	for {
		w.limitDelays()
		*d = Decision{Policy: d.Policy, Off: d.Off}
		if err := w.guard.once(w.ctx, &w.call, detail, d, permit); err != nil {
			return err
		}
		if d.Allowed {
			return w.delay(d, permit)
		}
		key, pause, latest, ok := w.again(d)
		if !ok || !w.enter(key, latest) {
			return nil
		}
		if err := w.pause(pause, latest); err != nil {
			return err
		}
	}
}

// lineUp lets those go first who wait already for a key of the call. It returns without a place where their turn will not have come by
// the time that the call may wait: it is then decided at once, as one that cannot wait.
func (w *waiting) lineUp() error {
	if w.guard.limiter.waiters.Load() == 0 {
		return nil
	}
	for n, l := range w.call.limits {
		key := w.call.requests[n].Key
		if l.Wait == 0 || l.Queues() || w.call.requests[n].Cost == 0 || !w.guard.limiter.lines.waits(key) {
			continue
		}
		latest := w.began.Add(l.Wait)
		if w.count() && w.enter(key, latest) {
			return w.pause(0, latest)
		}
		return nil
	}
	return nil
}

// count counts the call among the limiter's waiters, and reports whether there is room for it.
func (w *waiting) count() bool {
	if w.counted {
		return true
	}
	w.counted = w.guard.limiter.waiters.Add(1) <= w.guard.limiter.maxWaiters
	if !w.counted {
		w.guard.limiter.waiters.Add(-1)
	}
	return w.counted
}

// limitDelays makes queues delay the call no longer than it may still wait.
func (w *waiting) limitDelays() {
	if !w.guard.queues {
		return
	}
	left := w.left()
	w.call.requests = slices.Clone(w.call.requests) // the store may still hold those of an earlier ask
	for n, l := range w.call.limits {
		if l.Queues() {
			w.call.requests[n].Wait = 0
			if w.count() {
				w.call.requests[n].Wait = max(0, min(l.Wait-time.Since(w.began), left)).Truncate(time.Microsecond)
			}
		}
	}
}

// left is the time until the context's deadline.
func (w *waiting) left() time.Duration {
	if deadline, ok := w.ctx.Deadline(); ok {
		return time.Until(deadline)
	}
	return store.Never
}

// again says whether a call that was denied waits: for which key, for how long, and until when it may. It does so only if every limit
// that denies it has a wait in which it would let it pass, before the context ends.
func (w *waiting) again(d *Decision) (key string, pause time.Duration, latest time.Time, ok bool) {
	since := time.Since(w.began)
	queued := false
	for i := range d.Limits {
		l := &d.Limits[i]
		if l.Allowed {
			continue
		}
		limit, retry := &w.guard.limits[l.Index], l.retryAfter()
		if retry > limit.Wait-since || limit.Queues() && w.counted {
			return "", 0, latest, false
		}
		queued = queued || limit.Queues()
		if retry > pause {
			key, pause, latest = l.Key, retry, w.began.Add(limit.Wait)
		}
	}
	if pause == 0 || pause >= w.left() {
		return "", 0, latest, false
	}
	d.Crowded = queued || !w.count()
	return key, pause, latest, !d.Crowded
}

// retryAfter is the longest wait of the limit's rules.
func (l *LimitDecision) retryAfter() time.Duration {
	var wait time.Duration
	for i := range l.Rules {
		wait = max(wait, l.Rules[i].RetryAfter)
	}
	return wait
}

// enter puts the call into the line for key, where it is not in it already, and reports whether there is a place for it.
func (w *waiting) enter(key string, latest time.Time) bool {
	if w.place != nil && w.place.line.key == key {
		return true
	}
	w.leave()
	w.place = w.guard.limiter.lines.join(key, latest)
	return w.place != nil
}

// leave gives up the call's place, if it has one.
func (w *waiting) leave() {
	if w.place != nil {
		w.guard.limiter.lines.leave(w.place)
		w.place = nil
	}
}

// pause waits for d where the call is the first in its line, else until it is, and no longer than to latest, at which it has
// lost its place. An outage of the store ends it once: the call then asks at once, which is decided as onfail says.
func (w *waiting) pause(d time.Duration, latest time.Time) error {
	began := time.Now()
	defer func() { w.waited += time.Since(began) }()
	outage := w.guard.limiter.health.outages()
	if outage == w.outage {
		outage = nil // which is never ready
	}
	first := w.place.first
	select {
	case <-first:
		if d == 0 {
			return nil
		}
		lines := &w.guard.limiter.lines
		lines.open(w.place, began.Add(d))
		defer lines.open(w.place, time.Time{})
		first, latest = nil, began.Add(d)
	default:
	}
	timer := time.NewTimer(time.Until(latest))
	defer timer.Stop()
	select {
	case <-first:
	case <-outage:
		w.outage = outage
	case <-timer.C:
		if first != nil {
			w.leave()
		}
	case <-w.ctx.Done():
		return w.guard.ended(store.Ended(w.ctx))
	}
	return nil
}

func (w *waiting) sleep(d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-w.ctx.Done():
		return w.guard.ended(store.Ended(w.ctx))
	}
}

// delay lets an allowed call wait until its queues let it go on. Where the context ends before that, the call's permits are given back.
func (w *waiting) delay(d *Decision, permit *Permit) error {
	delay := d.delay()
	if delay == 0 {
		return nil
	}
	w.leave()
	if left := w.left(); delay >= left {
		_ = permit.GiveBack(w.ctx)
		*permit = Permit{}
		d.denyDelayed(left)
		return nil
	}
	began := time.Now()
	err := w.sleep(delay)
	w.waited += time.Since(began)
	if err != nil {
		_ = permit.GiveBack(w.ctx) // what cannot be given back stays a gap in the queue
		*permit = Permit{}
	}
	return err
}

// delay is the longest delay of all queues.
func (d *Decision) delay() time.Duration {
	var delay time.Duration
	for i := range d.Limits {
		for j := range d.Limits[i].Rules {
			delay = max(delay, d.Limits[i].Rules[j].Delay)
		}
	}
	return delay
}

// denyDelayed makes d deny a call whose queues would delay it for longer than is left.
func (d *Decision) denyDelayed(left time.Duration) {
	d.Allowed = false
	for i := range d.Limits {
		l := &d.Limits[i]
		for j := range l.Rules {
			r := &l.Rules[j]
			if r.Delay >= left {
				l.Allowed, r.Allowed = false, false
				r.RetryAfter = max(time.Microsecond, r.Delay-max(0, left))
				d.RetryAfter = max(d.RetryAfter, r.RetryAfter)
			}
			r.Delay = 0
		}
	}
}
