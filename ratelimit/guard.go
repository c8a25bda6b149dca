package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// GeneratedV1 is there as long as this package serves code that was generated for version 1 of it. Generated files name
// it, so that code and package that do not fit together do not compile.
const GeneratedV1 = true

// Guard decides the calls of one method. It is safe for concurrent use; [Limiter.Guard] makes it.
type Guard struct {
	limiter *Limiter
	policy  *rules.Policy
	limits  []limit
	off     []bool
	rates   int  // limits that a call asks together, at most
	inputs  bool // the wrapper computes inputs: a directive has by, cost or when
	waits   bool // a rate has a wait
	queues  bool // and is a queue
	planned []planned
	holding bool // a limit holds something while the call runs
	fenced  bool // and is a lock
	// recovers says that a limit is charged by outcome, of which a panic is one.
	recovers bool
	ends     bool // how a call ends matters: a limit holds something, or is charged by outcome
	// same is what every call asks, which nobody changes; nil where that depends on the call.
	same *call
	// reuses says that calls have the memory of others that are over: they are asked once, as the limits say, and it does not matter how they end.
	reuses bool

	latest atomic.Pointer[overriddenGuard] // of the overrides that were last in force
}

// limit is a limit of the policy, prepared.
type limit struct {
	*rules.Limit
	keyer
	alone  *alone // how this process decides a rate alone; nil where it does not
	most   int64  // the largest cost that can ever be allowed
	called string // in its policy
	holds  *holds // what it holds; nil for a rate
	// shadow says that it denies nothing, off that it is not asked.
	shadow, off bool
	trial       bool       // it is a shadow under the key that it has when it denies
	computed    *contracts // of WithRules; nil where there is none
}

// Take asks all limits of the method for the call, and returns an error unless they allow it: see [ErrExceeded] and the
// other classes. It takes one input for each limit of the policy, in its order; or none, where no limit has by, cost or when.
//
// The identity is that of ctx, and a nil ctx has none. If ctx is done, the error is its cause and nothing is sent; if ctx
// ends while the store is asked, the call may have been charged. If it ends while the call waits for limits with a Wait, the call
// is charged to none, but for a place in a queue that others stand behind.
//
// A policy that has a concurrency or a lock is for [Guard.Hold] alone.
func (g *Guard) Take(ctx context.Context, in ...Input) (permit Permit, err error) {
	if err := g.onlyRates(); err != nil {
		return Permit{}, err
	}
	_, d, err := g.decide(ctx, in, len(g.limiter.observers) > 0, &permit)
	if err == nil {
		err = g.denied(&d)
	}
	return permit, err
}

// Decide is Take for callers who want to know what each rule said. A denied call is a Decision, not an error.
func (g *Guard) Decide(ctx context.Context, in ...Input) (d Decision, permit Permit, err error) {
	if err := g.onlyRates(); err != nil {
		return Decision{Policy: g.policy, Off: g.off}, Permit{}, err
	}
	_, d, err = g.decide(ctx, in, true, &permit)
	if decided(err) {
		err = nil
	}
	return d, permit, err
}

// decide takes one call through identity, key, store and fallback to its decision. The error of one that is denied is an [ExceededError], or nil: see denied. What the call is granted is
// written into permit, here and below: it is large, and each level would copy it.
func (g *Guard) decide(ctx context.Context, in []Input, detail bool, permit *Permit) (context.Context, Decision, error) {
	if ctx == nil {
		ctx = context.Background()
	}
	g = g.now()
	watch := watchIn(ctx)
	if detail || watch != nil {
		return g.tell(ctx, in, watch, permit)
	}
	d := Decision{Policy: g.policy, Off: g.off}
	inner, err := g.ask(ctx, in, false, &d, permit)
	return inner, d, err
}

// tell decides one call, and tells of it.
func (g *Guard) tell(ctx context.Context, in []Input, watch *watch, permit *Permit) (context.Context, Decision, error) {
	d := Decision{Policy: g.policy, Off: g.off}
	start := time.Now()
	inner, err := g.ask(ctx, in, true, &d, permit)
	d.Elapsed = time.Since(start)
	seen := err
	if seen == nil {
		seen = g.denied(&d)
	}
	for _, o := range g.limiter.observers {
		o.Observe(ctx, &d, seen)
	}
	watch.tell(ctx, &d, seen)
	if decided(seen) {
		err = seen
	}
	return inner, d, err
}

// ask asks the rates, and then for what the call is to hold. The context that it returns is ctx, or the one of what is held.
func (g *Guard) ask(ctx context.Context, in []Input, detail bool, d *Decision, permit *Permit) (context.Context, error) {
	if err := store.Ended(ctx); err != nil {
		return ctx, g.ended(err)
	}
	c, err := g.call(ctx, in)
	if err != nil {
		return ctx, err
	}
	inner, err := g.enforce(ctx, &c, detail, d, permit)
	if c.shadow != nil && (err == nil || errors.Is(err, ErrExceeded)) {
		inner = g.askShadow(ctx, &c, detail, d, permit).in(inner)
	}
	return inner, err
}

// enforce asks the limits that are no shadows.
func (g *Guard) enforce(ctx context.Context, c *call, detail bool, d *Decision, permit *Permit) (context.Context, error) {
	err := g.rate(ctx, c, detail, d, permit)
	if permit.ending != nil {
		permit.ending.ctx = ctx
	}
	if err != nil || !d.Allowed || len(c.holds) == 0 {
		return ctx, err
	}
	return g.hold(ctx, c, d, permit)
}

// rate decides the rates of a call.
func (g *Guard) rate(ctx context.Context, c *call, detail bool, d *Decision, permit *Permit) error {
	defer c.release(permit)
	switch {
	case len(c.requests) == 0:
		d.Allowed, c.unread = true, true
		return nil
	case g.waits:
		return g.await(ctx, c, detail, d, permit)
	}
	return g.once(ctx, c, detail, d, permit)
}

// once asks the store, and where it cannot decide, whatever takes its place.
func (g *Guard) once(ctx context.Context, c *call, detail bool, d *Decision, permit *Permit) error {
	out := outcomes.Get().(*store.Outcome)
	defer outcomes.Put(out)
	err := g.limiter.asked.Take(ctx, c.requests, detail, out)
	if err == nil {
		c.unread = true
		return g.answered(c, detail, d, permit, out)
	}
	if err := store.Ended(ctx); err != nil {
		return g.ended(err)
	}
	return g.withoutStore(ctx, c, err, detail, d, permit)
}

// outcomes are those that nobody reads any more.
var outcomes = sync.Pool{New: func() any { return new(store.Outcome) }}

// misconfigured reports whether err is one that somebody must mend.
func misconfigured(err error) bool {
	var failed *store.Error
	return errors.As(err, &failed) && failed.Class == store.Misconfigured
}

func (g *Guard) fail(limit int, class, cause error) error {
	return &callError{policy: g.policy, limit: limit, class: class, cause: cause}
}

// ended is the error of a call whose context has ended with err.
func (g *Guard) ended(err error) error {
	return fmt.Errorf("%s %s: %w", g.policy.Type, g.policy.Method, err)
}
