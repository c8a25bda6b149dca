package ratelimittest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/lock"
	"github.com/rlgen/rlgen/ratelimit/memstore"
	"github.com/rlgen/rlgen/ratelimit/store"
)

// New returns a limiter that counts inside the process, on a clock that the test holds, and keeps locks and what is in flight inside the
// process too, by leases in real time. It panics if an option is not valid.
func New(opts ...ratelimit.Option) (*ratelimit.Limiter, *Clock) {
	clock := new(Clock)
	return limiter(memstore.New(memstore.WithClock(clock.Now)), lock.NewMemory(), opts), clock
}

// AllowAll returns a limiter that has room for every call; what remains is always the whole count. Calls that fail before any limit
// is asked, for want of an identity or by a cost that no limit can meet, fail with it too. It panics if an option is not valid.
func AllowAll(opts ...ratelimit.Option) *ratelimit.Limiter {
	return limiter(answering(func(req store.Request, i int) store.RuleOutcome {
		return store.RuleOutcome{Remaining: req.Rules[i].Count}
	}), new(granting), opts)
}

// DenyAll returns a limiter that denies every call, each rule of each limit with retryAfter, which is more than 0; nothing
// remains. Calls that fail before any limit is asked, for want of an identity or by a cost that no limit can meet, fail as
// they do with any limiter. It panics if retryAfter or an option is not valid.
func DenyAll(retryAfter time.Duration, opts ...ratelimit.Option) *ratelimit.Limiter {
	if retryAfter <= 0 {
		panic(fmt.Sprintf("ratelimittest: DenyAll(%v), want a retry-after of more than 0", retryAfter))
	}
	return limiter(answering(func(store.Request, int) store.RuleOutcome {
		return store.RuleOutcome{RetryAfter: retryAfter, ResetAfter: retryAfter}
	}), &refusing{left: retryAfter}, opts)
}

// Failing returns a limiter whose store cannot decide, with errors of class: with [store.Unavailable] each limit does what its
// onfail says, with [store.Misconfigured] every call fails with [ratelimit.ErrMisconfigured]. What the limiter would log of
// the outage is dropped unless opts has a logger. Limits of onfail=local count in real time; for a clock that the test holds:
//
//	var clock ratelimittest.Clock
//	local := memstore.New(memstore.WithClock(clock.Now))
//	limiter := ratelimittest.Failing(store.Unavailable, ratelimit.WithLocal(local))
//
// It panics if an option is not valid.
func Failing(class store.Class, opts ...ratelimit.Option) *ratelimit.Limiter {
	silent := ratelimit.WithLogger(slog.New(slog.DiscardHandler))
	return limiter(failing(class), &failingLocks{failing: failing(class)}, append([]ratelimit.Option{silent}, opts...))
}

func limiter(s store.Store, locks lock.Store, opts []ratelimit.Option) *ratelimit.Limiter {
	nobodyWaits := ratelimit.WithMaxWaiters(0)
	l, err := ratelimit.New(s, append([]ratelimit.Option{nobodyWaits, ratelimit.WithLocks(locks)}, opts...)...)
	if err != nil {
		panic("ratelimittest: " + err.Error())
	}
	return l
}

// answering is a store that keeps nothing: its answer is that of the func, for rule i of a request.
type answering func(req store.Request, i int) store.RuleOutcome

func (answer answering) Take(ctx context.Context, requests []store.Request, _ bool, out *store.Outcome) error {
	if err := store.Ended(ctx); err != nil {
		return err
	}
	*out = store.Outcome{Allowed: true, Rules: out.Rules[:0]}
	for _, req := range requests {
		for i := range req.Rules {
			r := answer(req, i)
			out.Allowed = out.Allowed && r.RetryAfter == 0
			out.Rules = append(out.Rules, r)
		}
	}
	return nil
}

func (answering) GiveBack(context.Context, store.Receipt) error { return nil }

func (answering) Reset(context.Context, []store.Request) error { return nil }

func (answering) Grant(context.Context, []store.Request) error { return nil }

func (answer answering) Peek(ctx context.Context, requests []store.Request, out *store.Outcome) error {
	return answer.Take(ctx, requests, true, out)
}

// failing is a store that cannot decide.
type failing store.Class

var errFailing = errors.New("this store is made to fail")

func (c failing) err() error { return &store.Error{Class: store.Class(c), Err: errFailing} }

func (c failing) Take(context.Context, []store.Request, bool, *store.Outcome) error {
	return c.err()
}

func (c failing) GiveBack(context.Context, store.Receipt) error { return c.err() }

func (c failing) Reset(context.Context, []store.Request) error { return c.err() }

func (c failing) Grant(context.Context, []store.Request) error { return c.err() }

func (c failing) Peek(context.Context, []store.Request, *store.Outcome) error { return c.err() }

func (answering) Ban(context.Context, []store.Request, time.Duration) error { return nil }

func (c failing) Ban(context.Context, []store.Request, time.Duration) error { return c.err() }
