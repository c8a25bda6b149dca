package ratelimit

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

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

// attend counts this instance among those that share the limits of a call which the store has decided.
func (g *Guard) attend(c *call) {
	for _, of := range c.limits {
		if a := g.limits[of.index].alone; a != nil && a.fleet != nil {
			a.fleet.attend(g.limiter.now())
		}
	}
}

// now returns the time of the limiter's clock, which starts when the limiter is made.
func (l *Limiter) now() time.Duration { return time.Since(l.began) }

// withoutStore decides a call that the store could not decide because of err, as the onfail of each
// limit says.
func (g *Guard) withoutStore(ctx context.Context, c *call, err error, detail bool, d *Decision, permit *Permit) error {
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
	if err := g.takeLocal(ctx, own, detail, d, permit); err != nil {
		return err
	}
	d.merge(open)
	return nil
}

// solo is the part of a call that this instance decides alone.
type solo struct {
	call
	whole  []*store.Request // the requests of the whole limits
	shares []*share
}

// addShare adds a request for the share of a limit. whole is the request for the whole limit. Its cost
// is reduced to the share's capacity, so that a cost which the whole limit allows is not denied forever.
func (s *solo) addShare(of asked, part *share, whole *store.Request) {
	req := store.NewRequest(&part.Limit, whole.Key, min(whole.Cost, part.most))
	req.Wait, req.Returns = whole.Wait, whole.Returns
	s.limits = append(s.limits, of)
	s.requests = append(s.requests, req)
	s.whole = append(s.whole, whole)
	s.shares = append(s.shares, part)
}

// instances returns the log attributes for the number of instances that share the counts.
func (s *solo) instances() []any {
	if len(s.shares) == 0 {
		return nil
	}
	return []any{"instances", s.shares[0].instances}
}

// takeLocal decides s with the local store.
func (g *Guard) takeLocal(ctx context.Context, s solo, detail bool, d *Decision, permit *Permit) error {
	if len(s.requests) == 0 {
		d.Allowed = true
		return nil
	}
	out, err := store.Take(ctx, g.limiter.local, s.requests, detail)
	if err == nil {
		err = g.answer(d, &s.call, g.limiter.local, out, permit)
		for n := range d.Limits {
			d.Limits[n].Source = SourceLocal
			d.Limits[n].Cost, d.Limits[n].Instances = s.whole[n].Cost, s.shares[n].instances
		}
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
