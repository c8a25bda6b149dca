package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/rlgen/rlgen/ratelimit/internal/owed"
	"github.com/rlgen/rlgen/ratelimit/internal/prefetch"
	"github.com/rlgen/rlgen/ratelimit/internal/recall"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// alone is what a limit with onfail=local knows for when this process decides it alone.
type alone struct {
	whole     *rules.Limit
	fleet     *fleet // that shares it
	instances int    // of which there are so many, where fleet is nil
	latest    atomic.Pointer[share]
}

// share is what a limit lets through where one of some instances decides alone.
type share struct {
	rules.Limit
	instances int
	most      int64 // the largest cost that it allows
}

// newAlone returns that of a limit, nil where the limit's onfail is another.
func (l *Limiter) newAlone(from *rules.Limit, prefix string) *alone {
	if from.OnFail != rules.FailLocal {
		return nil
	}
	return &alone{whole: from, instances: l.instances, fleet: l.fleet(prefix)}
}

// share returns the one of now.
func (a *alone) share() *share {
	n := a.instances
	if a.fleet != nil {
		n = a.fleet.instances()
	}
	if s := a.latest.Load(); s != nil && s.instances == n {
		return s
	}
	s := &share{Limit: shareOf(a.whole, n), instances: n}
	s.most = smallest(&s.Limit)
	a.latest.Store(s)
	return s
}

// shareOf is the part of a limit that each of n instances takes: the shares of all are no more than the whole, unless that is less
// than n.
func shareOf(whole *rules.Limit, n int) rules.Limit {
	part := *whole
	part.Rules = slices.Clone(whole.Rules)
	for i := range part.Rules {
		part.Rules[i].Count = max(1, part.Rules[i].Count/int64(n))
	}
	if whole.Burst > 0 {
		part.Burst = max(1, whole.Burst/int64(n))
	}
	return part
}

// remembering is a limiter's store whose answers are remembered.
type remembering struct {
	store.Store
	limiter *Limiter
}

// GiveBack makes room in what is remembered, too, but for permits that were taken ahead, of which it is told.
func (r *remembering) GiveBack(ctx context.Context, receipt store.Receipt) error {
	now := r.limiter.now()
	for i := range receipt.Requests {
		if !prefetch.Took(&receipt, i) {
			r.limiter.recall.GiveBack(now, &receipt.Requests[i])
		}
	}
	return r.Store.GiveBack(ctx, receipt)
}

// Reset forgets what is remembered, too.
func (r *remembering) Reset(ctx context.Context, requests []store.Request) error {
	r.forget(ctx, requests)
	return r.Store.Reset(ctx, requests)
}

// Grant forgets what is remembered, too.
func (r *remembering) Grant(ctx context.Context, requests []store.Request) error {
	r.forget(ctx, requests)
	return r.Store.Grant(ctx, requests)
}

// Ban forgets what is remembered, too.
func (r *remembering) Ban(ctx context.Context, requests []store.Request, d time.Duration) error {
	r.forget(ctx, requests)
	return r.Store.Ban(ctx, requests, d)
}

// forget forgets what calls have used, and of permits that were taken ahead will not be told of that later.
func (r *remembering) forget(ctx context.Context, requests []store.Request) {
	if ahead := r.limiter.ahead; ahead != nil {
		ahead.Empty(ctx, requests)
	}
	for i := range requests {
		r.limiter.recall.Forget(requests[i].Key)
	}
}

// foresight remembers what calls of a limiter use of permits that were taken ahead.
type foresight struct{ limiter *Limiter }

// Used remembers them as used at once when the last of them may have been, and attends: they were taken of the store. That a call passes by them is no sign that the store has room for
// more.
func (f foresight) Used(req *store.Request) {
	now := f.limiter.now()
	f.limiter.recall.Settle(now, req, -1, req.Cost, 0)
	f.limiter.fleetOf(req.Key).attend(now)
}

func (f foresight) Returned(req *store.Request) { f.limiter.recall.GiveBack(f.limiter.now(), req) }

// now is the limiter's clock: the time since it was made.
func (l *Limiter) now() time.Duration { return time.Since(l.began) }

// remember takes note of what the store has answered. Of a queue there is nothing to remember, and of permits that were taken ahead foresight is told.
func (g *Guard) remember(c *call, out *store.Outcome) {
	table := g.limiter.recall
	if table == nil {
		return
	}
	now := g.limiter.now()
	answers := out.Rules
	for n, of := range c.limits {
		req := &c.requests[n]
		own := answers[:len(req.Rules)]
		answers = answers[len(req.Rules):]
		a := g.limits[of.index].alone
		if a == nil || out.Ahead&(1<<n) != 0 {
			continue
		}
		a.fleet.attend(now)
		switch {
		case req.Queue:
		case out.Allowed:
			table.Admit(now, req)
		case slices.ContainsFunc(own, denies):
			table.Deny(now, req, own)
		}
	}
}

func denies(r store.RuleOutcome) bool { return r.RetryAfter > 0 }

// errReturned is the error of a call that is not decided alone, since the store has returned meanwhile.
var errReturned = errors.New("the store has returned")

// withoutStore decides a call that the store could not decide because of err, as each limit's onfail says. It fails with errReturned where the store has been told of something
// since there were so many returns.
func (g *Guard) withoutStore(ctx context.Context, c *call, err error, returns uint64, detail bool, d *Decision, permit *Permit) error {
	if misconfigured(err) {
		g.limiter.health.refused(g.limiter.log, err)
		return g.fail(-1, ErrMisconfigured, err)
	}
	d.Degraded = err
	var own solo
	var open []LimitDecision
	for n, of := range c.limits {
		req := &c.requests[n]
		switch of.OnFail {
		case rules.FailClosed:
			g.limiter.health.failed(g.limiter.log, err)
			return g.fail(of.index, ErrUnavailable, err)
		case rules.FailOpen:
			said := g.said(of, req)
			said.Source = SourceOpen
			open = append(open, said)
		default:
			own.addShare(of, g.limits[of.index].alone.shareOf(of.Limit), req)
		}
	}
	g.limiter.health.failed(g.limiter.log, err, own.instances()...)
	if err := g.takeLocal(ctx, own, returns, detail, d, permit); err != nil {
		return err
	}
	d.merge(open)
	return nil
}

// solo is what a call asks of this process alone.
type solo struct {
	call
	whole  []*store.Request // what is asked of the whole limits
	shares []*share
	known  []*known // of the keys, nil where nothing binds
}

// addShare asks the share of a limit for what req asks of the whole.
func (s *solo) addShare(of asked, part *share, whole *store.Request) {
	req := store.NewRequest(&part.Limit, whole.Key, min(whole.Cost, part.most)) // what all may allow together, one may not hold back for ever
	req.Wait, req.Returns = whole.Wait, whole.Returns
	s.limits = append(s.limits, of)
	s.requests = append(s.requests, req)
	s.whole = append(s.whole, whole)
	s.shares = append(s.shares, part)
}

// instances are the log's attributes that say by how many a count is divided.
func (s *solo) instances() []any {
	if len(s.shares) == 0 {
		return nil
	}
	return []any{"instances", s.shares[0].instances}
}

// takeLocal decides s by this process alone.
func (g *Guard) takeLocal(ctx context.Context, s solo, returns uint64, detail bool, d *Decision, permit *Permit) error {
	if len(s.requests) == 0 {
		d.Allowed = true
		return nil
	}
	outcome, err := g.decideAlone(ctx, &s, returns, detail, d.Degraded)
	if err == nil {
		err = g.answer(d, &s.call, g.limiter.local, outcome, permit)
		for n := range d.Limits {
			d.Limits[n].Source = SourceLocal
			d.Limits[n].Cost, d.Limits[n].Instances, d.Limits[n].Seeded = s.whole[n].Cost, s.shares[n].instances, s.seeded(n)
		}
		return err
	}
	if err == errReturned {
		return err
	}
	if err := store.Ended(ctx); err != nil {
		return g.ended(err)
	}
	class := ErrUnavailable
	if misconfigured(err) {
		class = ErrMisconfigured
	}
	return g.fail(-1, class, fmt.Errorf("%w; and locally: %w", d.Degraded, err))
}

// decideAlone asks the local store, and takes note of what it lets through because of why.
func (g *Guard) decideAlone(ctx context.Context, s *solo, returns uint64, detail bool, why error) (out store.Outcome, err error) {
	l := g.limiter
	if l.owed == nil {
		return g.askLocal(ctx, s, detail)
	}
	if !l.owed.Alone(returns, func() {
		out, err = g.askLocal(ctx, s, detail)
		for n := range s.requests {
			if err == nil && out.Allowed {
				l.owed.Owe(s.whole[n], &s.requests[n], why)
			}
		}
	}) {
		return out, errReturned
	}
	return out, err
}

// onceTold decides a call while the store has not been told of all that this process has let through alone: once it has been of what concerns the call. Who would decide alone where
// it has been told meanwhile asks it again, if there is time for that.
func (g *Guard) onceTold(ctx context.Context, c *call, detail bool, d *Decision, permit *Permit, out *store.Outcome) error {
	l := g.limiter
	began, returns, late := time.Now(), l.owed.Returns(), false
	for {
		waited, err := l.owed.Settle(ctx, began, c.requests)
		if late = late || waited; err == nil && late {
			err = l.askUntil(ctx, l.owed.Ends(began), c.requests, detail, out)
		} else if err == nil {
			err = l.asked.Take(ctx, c.requests, detail, out)
		}
		if err == nil {
			return g.answered(c, detail, d, permit, out)
		}
		if err := store.Ended(ctx); err != nil {
			return g.ended(err)
		}
		if l.owed.Late(began) {
			returns = owed.Always
		}
		if err := g.withoutStore(ctx, c, err, returns, detail, d, permit); err != errReturned {
			return err
		}
		returns, late, *d = owed.Always, true, Decision{Policy: d.Policy, Off: d.Off}
	}
}

// askUntil asks the limiter's store for a call that is to end by a time.
func (l *Limiter) askUntil(ctx context.Context, ends time.Time, requests []store.Request, detail bool, out *store.Outcome) error {
	limited, cancel := context.WithDeadlineCause(ctx, ends, owed.ErrUntold)
	defer cancel()
	return l.asked.Take(limited, requests, detail, out)
}

// askLocal asks the local store, and counts what is known of the keys against what it says.
func (g *Guard) askLocal(ctx context.Context, s *solo, detail bool) (store.Outcome, error) {
	local, now := g.limiter.local, g.limiter.now()
	s.recall(g.limiter, now)
	out, err := store.Take(ctx, local, s.requests, detail || s.known != nil)
	if err != nil || s.known == nil || len(out.Rules) != s.rules() {
		return out, err
	}
	if s.seed(now, &out) {
		err = local.GiveBack(ctx, out.Receipt)
		out.Receipt = store.Receipt{}
	}
	return out, err
}

// known is what is known of a key: what is remembered, and what was taken of it ahead.
type known struct {
	recall.Record
	left  int64         // permits that calls may still use
	until time.Duration // that they may
}

// recall returns what is known of a key.
func (l *Limiter) known(now time.Duration, req *store.Request) (k known) {
	if l.ahead == nil {
		k.Record = l.recall.Get(req.Key)
		return k
	}
	used, left, until := l.ahead.InHand(req.Key) // before what is remembered, which it is told as it ends
	k.Record = l.recall.Get(req.Key)
	k.Add(now, req, used)
	if left > 0 {
		k.left, k.until = left, until.Sub(l.began)
	}
	return k
}

// Binds says whether anything is known that counts at now.
func (k *known) Binds(now time.Duration, of []rules.Rule) bool {
	return k.left > 0 || k.Record.Binds(now, of)
}

// Used counts with the Record's what is left in hand.
func (k *known) Used(now time.Duration, i int, rule rules.Rule) int64 {
	return k.left + k.Record.Used(now, i, rule)
}

// Frees is how long it takes until at most left of what Used counts are still in the window, if nothing more is used of what is in hand.
func (k *known) Frees(now time.Duration, i int, rule rules.Rule, left int64) time.Duration {
	if beside := left - k.left; beside >= 0 {
		if wait := k.Record.Frees(now, i, rule, beside); wait <= k.until-now {
			return wait
		}
	}
	return max(k.until-now, k.Record.Frees(now, i, rule, left))
}

// recall sets what is known of the keys, if anything is.
func (s *solo) recall(l *Limiter, now time.Duration) {
	if l.recall == nil {
		return
	}
	for n := range s.requests {
		req := &s.requests[n]
		if k := l.known(now, req); k.Binds(now, req.Rules) {
			if s.known == nil {
				s.known = make([]*known, len(s.requests))
			}
			s.known[n] = &k
		}
	}
}

// seeded says whether something is known of the key of request n.
func (s *solo) seeded(n int) bool { return s.known != nil && s.known[n] != nil }

// seed makes out, which the local store has answered, what it would be if what is known were in it. It reports whether out denies a
// call that the local store has charged.
func (s *solo) seed(now time.Duration, out *store.Outcome) (undo bool) {
	charged := out.Allowed
	s.each(out.Rules, func(r *ruleOfKey, answer *store.RuleOutcome) {
		if wait := r.wait(now, charged, answer.Remaining); wait > 0 {
			answer.RetryAfter, out.Allowed = max(wait, answer.RetryAfter), false
		}
	})
	undo = charged && !out.Allowed
	s.each(out.Rules, func(r *ruleOfKey, answer *store.RuleOutcome) { r.describe(now, undo, answer) })
	return undo
}

// each calls f for every rule of every key of which something is known.
func (s *solo) each(answers []store.RuleOutcome, f func(*ruleOfKey, *store.RuleOutcome)) {
	for n := range s.requests {
		req := &s.requests[n]
		for j := range req.Rules {
			if s.seeded(n) {
				f(&ruleOfKey{s.known[n], j, req.Rules[j], s.whole[n].Cost, req.Cost}, &answers[j])
			}
		}
		answers = answers[len(req.Rules):]
	}
}

// ruleOfKey is one rule of a key of which something is known.
type ruleOfKey struct {
	known *known
	at    int
	rule  rules.Rule // its share
	asked int64      // of the whole limit
	cost  int64      // of the share
}

// wait is how long what is known denies a call, after which as many permits as remaining are left of the share.
func (r *ruleOfKey) wait(now time.Duration, charged bool, remaining int64) time.Duration {
	wait := r.known.Denied(now, r.at, r.asked)
	if charged && r.cost > 0 {
		wait = max(wait, r.known.Frees(now, r.at, r.rule, remaining))
	}
	return wait
}

// describe takes what is known from what remains, where undo says that the call's own cost does after all.
func (r *ruleOfKey) describe(now time.Duration, undo bool, answer *store.RuleOutcome) {
	if undo {
		answer.Remaining += r.cost
	}
	answer.Remaining = max(0, answer.Remaining-r.known.Used(now, r.at, r.rule))
	if answer.RetryAfter > 0 {
		answer.Remaining = min(answer.Remaining, r.cost-1)
	}
	answer.ResetAfter = max(answer.ResetAfter, answer.RetryAfter, r.known.Frees(now, r.at, r.rule, 0))
}
