package ratelimit

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/rlgen/rlgen/ratelimit/lock"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// Hold is Take for a method whose policy has a concurrency or a lock. The rates are asked first, then what is limited in flight, then the
// locks; a call that one of them denies gives back what those before it granted. The locks of one call are asked in an order that is the same for all
// calls, whatever that of their lines: those that have an id before those of a whole method, each by its key. So no call waits for one that waits for
// it, unless it makes others within: locks that nest are to nest in one order everywhere, else both calls wait until one of them has waited in vain.
//
// The context that it returns is for the method: it is done, with the cause [lock.ErrLost], when something that the call holds is lost, and once
// it is let go. A lock that the method takes again with it nests. [lock.Token] of it is that of the policy's own lock: 0 where that is off, a shadow,
// or not there to be had and onfail=open. Of several locks, it is that of the one which was had last, and [Token] has each. [Permit.Done] is to be called when the method has ended:
//
//	ctx, permit, err := guard.Hold(ctx)
//	if err != nil {
//		return err
//	}
//	defer permit.Done(&err)
//
// If Hold fails, the context is the one that it was given.
func (g *Guard) Hold(ctx context.Context, in ...Input) (inner context.Context, permit Permit, err error) {
	inner, d, err := g.decide(g.unfence(ctx), in, len(g.limiter.observers) > 0, &permit)
	if err == nil {
		err = g.denied(&d)
	}
	if err != nil && ctx != nil {
		inner = ctx
	}
	return inner, permit, err
}

// onlyRates is an error for a policy that Take and Decide cannot serve.
func (g *Guard) onlyRates() error {
	if g.holding {
		return g.fail(-1, ErrMisconfigured, errors.New("a limit holds something while the call runs, want Hold in place of Take and Decide"))
	}
	return nil
}

// wanted is what one limit of a call is to hold.
type wanted struct {
	index int
	kind  rules.Kind
	width int // 0 for one id, 1 for all callers
	name  string
	cost  int64
}

// want adds what l, which is limit i, is to hold for a call. A cost of 0 needs no room.
func (c *call) want(l *limit, i int, id *callerID, cost int64) {
	if cost > 0 {
		w := wanted{index: i, kind: l.Kind, name: l.name(id), cost: cost}
		if l.Whose() == rules.Global {
			w.width = 1
		}
		c.holds = append(c.holds, w)
	}
}

// name is what calls of id hold: the key, or that of the segment that id is in.
func (l *limit) name(id *callerID) string {
	if l.Kind == rules.Lock && l.Segments > 0 {
		return l.none + "#" + strconv.Itoa(lock.Segment(string(id.appendText(nil, l.ipv6)), int(l.Segments)))
	}
	return l.key(id)
}

// sortHolds puts what is limited in flight before the locks, and these into an order that all calls have in common, in which none waits for an id
// while it has what all wait for.
func (c *call) sortHolds() {
	slices.SortStableFunc(c.holds, func(a, b wanted) int {
		if a.kind != b.kind || a.kind != rules.Lock {
			return cmp.Compare(a.kind, b.kind)
		}
		return cmp.Or(cmp.Compare(a.width, b.width), cmp.Compare(a.name, b.name))
	})
}

// holds has the ways to what one limit holds: at the limiter's store, and in this process alone.
type holds struct {
	shared, local holder
	fleet         *fleet // that shares it, as [alone] has it
}

// holder has the one that its kind needs.
type holder struct {
	locker    *lock.Locker
	semaphore *lock.Semaphore
}

var errNoLocks = errors.New("the limiter has no lock store: make it with ratelimit.WithLocks(locks), " +
	"where locks is of redislock.New over the client that keeps the counts, or of lock.NewMemory in a program of one instance")

// prepareHold is prepare for a limit that holds.
func (l *Limiter) prepareHold(p *rules.Policy, i int, from *rules.Limit) (limit, error) {
	if l.locks == nil {
		return limit{}, errNoLocks
	}
	shared, err := newHolder(l.locks, from, lock.WithLimit(func() int64 { return l.countNow(p, i) }))
	if err != nil {
		return limit{}, err
	}
	local, err := newHolder(l.localLocks, from)
	if err != nil {
		return limit{}, err
	}
	prepared := limit{Limit: from, keyer: newKeyer(p, i, l.hasher, l.ipv6), most: 1, holds: &holds{shared: shared, local: local}, shadow: l.shadows(from)}
	if from.Kind == rules.Concurrency {
		prepared.most = min(from.Count, lock.MaxCost)
		if from.OnFail == rules.FailLocal {
			prefix, _ := p.Key(i)
			prepared.holds.fleet = l.fleet(prefix)
		}
	}
	return prepared, nil
}

// countNow is the count of a concurrency under the overrides that are in force: calls that wait already go by it, too.
func (l *Limiter) countNow(written *rules.Policy, i int) int64 {
	if o := l.overrides.Load(); o != nil {
		if p := o.policies[written]; p != nil {
			return p.Policy.Limits[i].Count
		}
	}
	return written.Limits[i].Count
}

func newHolder(s lock.Store, l *rules.Limit, opts ...lock.Option) (h holder, err error) {
	opts = append(opts, lock.WithLease(cmp.Or(l.Lease, rules.DefaultLease)))
	if l.Wait > 0 {
		opts = append(opts, lock.WithPatience(l.Wait))
	}
	if l.Kind == rules.Lock {
		h.locker, err = lock.New(s, opts...)
	} else {
		h.semaphore, err = lock.NewSemaphore(s, l.Count, opts...)
	}
	return h, err
}

// held is something that a call holds.
type held struct {
	lock   *lock.Hold
	permit *lock.Permit
	index  int // of the limit
}

func (h held) release() error {
	if h.lock != nil {
		return h.lock.Unlock()
	}
	return h.permit.Release()
}

// try acquires without waiting.
func (h holder) try(ctx context.Context, name string, cost int64) (inner context.Context, got held, err error) {
	if h.locker != nil {
		inner, got.lock, err = h.locker.TryLock(ctx, name)
	} else {
		inner, got.permit, err = h.semaphore.TryAcquire(ctx, name, cost)
	}
	return inner, got, err
}

// await acquires, and waits up to wait.
func (h holder) await(ctx context.Context, name string, cost int64, wait time.Duration) (inner context.Context, got held, err error) {
	if h.locker != nil {
		inner, got.lock, err = h.locker.LockWithin(ctx, name, wait)
	} else {
		inner, got.permit, err = h.semaphore.AcquireWithin(ctx, name, cost, wait)
	}
	return inner, got, err
}

// hold acquires all that the call is to hold, one after the other.
func (g *Guard) hold(ctx context.Context, c *call, d *Decision, permit *Permit) (context.Context, error) {
	if permit.ending == nil {
		permit.ending = &ending{guard: g}
	}
	e := permit.ending
	e.ctx = ctx
	inner := ctx
	for _, w := range c.holds {
		h := holding{caller: ctx, guard: g, limit: &g.limits[w.index], wanted: w, said: LimitDecision{Index: w.index, Key: w.name, Cost: w.cost}}
		next, got, err := h.acquire(inner, d)
		if err != nil {
			_ = e.letGo(ctx, *permit, h.outcome())
			*permit = Permit{}
			return ctx, err
		}
		inner = next
		if got != (held{}) {
			got.index = w.index
			e.held = append(e.held, got)
		}
	}
	if g.fenced {
		fence(ctx, e.held)
	}
	return inner, nil
}

// holding is a call on its way to something that it is to hold.
type holding struct {
	caller context.Context // as it came; what the call holds already may be lost before it ends
	guard  *Guard
	limit  *limit
	wanted
	said   LimitDecision
	waited bool
	latest time.Time // until when it may wait, at the store and in this process alone together; zero if it has not begun to
}

// outcome is how a call ends that could not have it: one that has waited and gives up has failed; else it has never been made.
func (h *holding) outcome() outcome {
	if h.waited {
		return failed
	}
	return undone
}

// acquire acquires it at the store, and where that cannot decide, as the limit's onfail says. The held is zero where nobody keeps it.
func (h *holding) acquire(ctx context.Context, d *Decision) (context.Context, held, error) {
	g := h.guard
	inner, got, err := h.from(ctx, h.limit.holds.shared, h.cost, d)
	switch {
	case err == nil || errors.Is(err, lock.ErrBusy):
		g.limiter.lockHealth.decided(g.limiter.log)
		h.limit.holds.fleet.attend(g.limiter.now())
		return h.answer(ctx, inner, got, err, d)
	case store.Ended(ctx) != nil || errors.Is(err, lock.ErrLost): // which says nothing of the store
		return h.answer(ctx, inner, got, err, d)
	case misconfigured(err):
		g.limiter.lockHealth.refused(g.limiter.log, err)
		return ctx, held{}, g.fail(h.index, ErrMisconfigured, err)
	}
	g.limiter.lockHealth.failed(g.limiter.log, err)
	d.Degraded = err
	switch h.limit.OnFail {
	case rules.FailClosed:
		d.Limits = nil
		return ctx, held{}, g.fail(h.index, ErrUnavailable, err)
	case rules.FailOpen:
		h.said.Source = SourceOpen
		return h.answer(ctx, ctx, held{}, nil, d)
	}
	h.said.Source = SourceLocal
	inner, got, err = h.alone(ctx, d)
	return h.answer(ctx, inner, got, err, d)
}

// alone acquires it in this process: a lock, or of what is limited in flight the share of one of the instances.
func (h *holding) alone(ctx context.Context, d *Decision) (context.Context, held, error) {
	if h.kind == rules.Lock {
		return h.from(ctx, h.limit.holds.local, h.cost, d)
	}
	l := h.guard.limiter
	h.said.Instances = l.sharers(h.limit.holds.fleet)
	share := *h.limit.Limit
	share.Count = max(1, share.Count/int64(h.said.Instances))
	by, err := newHolder(l.localLocks, &share)
	if err != nil {
		return ctx, held{}, err
	}
	return h.from(ctx, by, min(h.cost, share.Count), d)
}

// from acquires it by one of the limit's holders.
func (h *holding) from(ctx context.Context, by holder, cost int64, d *Decision) (context.Context, held, error) {
	began := time.Now()
	inner, got, err := by.try(ctx, h.name, cost)
	if h.limit.Wait == 0 || !errors.Is(err, lock.ErrBusy) {
		return inner, got, err
	}
	l := h.guard.limiter
	defer l.waiters.Add(-1)
	if l.waiters.Add(1) > l.maxWaiters {
		d.Crowded = true
		return inner, got, err
	}
	h.waited = true
	if h.latest.IsZero() {
		h.latest = began.Add(h.limit.Wait)
	}
	if left := time.Until(h.latest); left > 0 {
		inner, got, err = by.await(ctx, h.name, cost, left)
	}
	d.Waited += time.Since(began)
	return inner, got, err
}

// answer writes into d what was said, and is what acquire returns.
func (h *holding) answer(ctx, inner context.Context, got held, err error, d *Decision) (context.Context, held, error) {
	g := h.guard
	if err == nil {
		h.said.Allowed = true
		d.merge([]LimitDecision{h.said})
		return inner, got, nil
	}
	var busy *lock.BusyError
	switch ended := store.Ended(ctx); {
	case errors.As(err, &busy):
	case ended != nil && h.caller.Err() != nil:
		d.Limits = nil
		return ctx, held{}, g.ended(ended)
	case ended != nil:
		d.Limits = nil
		return ctx, held{}, g.fail(h.index, ErrUnavailable, context.Cause(ctx))
	default:
		d.Limits = nil
		return ctx, held{}, g.fail(h.index, ErrUnavailable, err)
	}
	d.Allowed, d.RetryAfter, d.Crowded = false, askAgain(busy.RetryAfter), d.Crowded || busy.Crowded
	d.merge([]LimitDecision{h.said})
	return ctx, held{}, &ExceededError{
		Type: g.policy.Type, Method: g.policy.Method,
		Limit: g.policy.Name(h.index), Kind: h.limit.Kind,
		Rule:       rules.Rule{Count: h.limit.Count},
		RetryAfter: d.RetryAfter,
		Crowded:    d.Crowded,
	}
}

// askAgain is when to ask again for what is held by others whose lease ends in left, which is 0 where that is not known.
func askAgain(left time.Duration) time.Duration {
	if left <= 0 {
		return time.Second
	}
	return min(left, time.Second)
}

// outcome is how a call ended.
type outcome uint8

const (
	undone    outcome = iota // it was never made
	succeeded                // without an error
	failed                   // with an error, or by a panic
	ended                    // after its context: its client may have chosen that
)

// charges reports whether a limit is charged for a call that ended in that way.
func (o outcome) charges(c rules.Charge) bool {
	switch o {
	case succeeded:
		return c != rules.ChargeError
	case failed:
		return c != rules.ChargeSuccess
	}
	return o == ended
}

// ending is what is to be done when a call ends.
type ending struct {
	guard *Guard
	ctx   context.Context
	rates []asked // the limits that the permit's receipt is for
	held  []held  // in the order in which it was had
	over  atomic.Bool

	shadow  Permit  // what shadows have charged; without a store where they have not
	shadows []asked // the limits that it is for
}

// end ends a call that its caller was given a permit for. Only the first end does anything.
func (e *ending) end(ctx context.Context, p Permit, o outcome) error {
	if e.over.Swap(true) {
		return nil
	}
	err := e.letGo(ctx, p, o)
	e.tell(ctx, err)
	return err
}

// letGo lets go of what is held, the last first, and gives back what an outcome does not charge.
func (e *ending) letGo(ctx context.Context, p Permit, o outcome) error {
	var errs []error
	for _, h := range slices.Backward(e.held) {
		errs = append(errs, h.release())
	}
	return errors.Join(append(errs, e.giveBack(ctx, p, o))...)
}

func (e *ending) giveBack(ctx context.Context, p Permit, o outcome) error {
	err := e.giveBackPart(ctx, p, e.rates, o)
	if e.shadow.store != nil {
		_ = e.giveBackPart(ctx, e.shadow, e.shadows, o) // what it costs a shadow is nobody's error
	}
	return err
}

// giveBackPart gives back what an outcome does not charge of a permit for some limits.
func (e *ending) giveBackPart(ctx context.Context, p Permit, limits []asked, o outcome) error {
	if p.store == nil {
		return nil
	}
	part := p.receipt.Part(func(i int) bool { return !o.charges(limits[i].Charge) })
	if len(part.Requests) == 0 {
		return nil
	}
	return p.store.GiveBack(ctx, part)
}

// Done ends the call: it lets go of what the call holds, the last first, and gives back the permits of limits that are charged for other
// outcomes than this one. The outcome is *err, nil for success, or a panic, which counts as an error and goes on, where runtime.Goexit is
// what *err says; for methods that have no error to
// return, err is nil. If the context of the call has ended, the call is charged whatever its outcome: else a client
// could choose the outcome by going away. It is for a defer statement, which is to name it itself; calling it again, or on the zero Permit, does nothing.
//
// What was lost before is let go silently: the method's context has told of it.
func (p Permit) Done(err *error) {
	if p.ending == nil {
		return
	}
	if p.ending.guard.recovers {
		if v := recover(); v != nil {
			_ = p.ending.end(p.ending.ctx, p, p.ending.outcome(true))
			panic(v)
		}
	}
	_ = p.ending.end(p.ending.ctx, p, p.ending.outcome(err != nil && *err != nil))
}

// Done is [Permit.Done] for a method whose result for an error is of another interface type than error.
func Done[E error](p Permit, err *E) {
	if p.ending == nil {
		return
	}
	if p.ending.guard.recovers {
		if v := recover(); v != nil {
			_ = p.ending.end(p.ending.ctx, p, p.ending.outcome(true))
			panic(v)
		}
	}
	_ = p.ending.end(p.ending.ctx, p, p.ending.outcome(any(*err) != nil))
}

// outcome returns how a call ends that its caller was given a permit for.
func (e *ending) outcome(isError bool) outcome {
	switch {
	case e.ctx != nil && e.ctx.Err() != nil:
		return ended
	case isError:
		return failed
	}
	return succeeded
}
