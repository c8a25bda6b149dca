package ratelimit

import (
	"errors"
	"time"

	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// answered takes what the store has said to the decision, and the receipt out of it. Nobody reads what a call's rules have said unless they asked for
// detail or are to wait: a call that is denied has its error at once then.
func (g *Guard) answered(c *call, detail bool, d *Decision, permit *Permit, out *store.Outcome) (err error) {
	from := g.limiter.asked
	switch {
	case detail || g.waits:
		err = g.answer(d, c, from, *out, permit)
		d.sources(out)
	case out.Allowed:
		d.Allowed = true
		g.grant(permit, c, from, out.Receipt)
	default:
		err = g.deny(c, out)
	}
	if decided(err) && !out.Cached {
		g.attend(c)
		if out.Ahead != allAhead(c) {
			g.limiter.health.decided(g.limiter.log)
		}
	}
	out.Receipt = store.Receipt{}
	return err
}

// decided says whether a call that ends so was decided: whether it is allowed or denied.
func decided(err error) bool {
	if err == nil {
		return true
	}
	_, denied := err.(*ExceededError)
	return denied
}

// answer writes the outcome of c, as that of from, into d, and what it grants into permit.
func (g *Guard) answer(d *Decision, c *call, from store.Store, out store.Outcome, permit *Permit) error {
	if err := c.answers(g, &out); err != nil {
		return err
	}
	d.Allowed = out.Allowed
	d.Limits = make([]LimitDecision, len(c.requests))
	answers := make([]RuleDecision, len(out.Rules))
	for n := range c.requests {
		req := &c.requests[n]
		l := &d.Limits[n]
		*l = g.said(c.limits[n], req)
		l.Rules, answers = answers[:len(req.Rules):len(req.Rules)], answers[len(req.Rules):]
		for j, r := range out.Rules[:len(req.Rules)] {
			allowed := r.RetryAfter == 0
			l.Allowed = l.Allowed && allowed
			l.Banned = max(l.Banned, r.Banned)
			l.Rules[j] = RuleDecision{
				Rule: req.Rules[j], Allowed: allowed,
				Remaining: r.Remaining, RetryAfter: r.RetryAfter, ResetAfter: r.ResetAfter, Delay: r.Delay,
			}
			d.RetryAfter = max(d.RetryAfter, r.RetryAfter)
		}
		out.Rules = out.Rules[len(req.Rules):]
	}
	if out.Allowed {
		g.grant(permit, c, from, out.Receipt)
	}
	return nil
}

// said is what a limit has said to req before any of its rules has denied it.
func (g *Guard) said(of asked, req *store.Request) LimitDecision {
	l := LimitDecision{Index: of.index, Key: req.Key, Cost: req.Cost, Allowed: true}
	if of.Limit != g.limits[of.index].Limit {
		l.Computed = of.Rules
	}
	return l
}

// grant makes permit that of a call which from has charged.
func (g *Guard) grant(permit *Permit, c *call, from store.Store, receipt store.Receipt) {
	permit.store, permit.receipt = from, receipt
	if g.ends {
		permit.ending = &ending{guard: g, rates: c.limits}
	}
}

// sources says who decided each limit of a call that was answered.
func (d *Decision) sources(out *store.Outcome) {
	for i := range d.Limits {
		switch {
		case out.Ahead&(1<<i) != 0:
			d.Limits[i].Source = SourcePrefetch
		case out.Cached:
			d.Limits[i].Source = SourceCache
		}
	}
}

// merge adds limits that nobody decided, in the policy's order.
func (d *Decision) merge(open []LimitDecision) {
	for _, l := range open {
		at := 0
		for at < len(d.Limits) && d.Limits[at].Index < l.Index {
			at++
		}
		d.Limits = append(d.Limits[:at], append([]LimitDecision{l}, d.Limits[at:]...)...)
	}
}

// denied returns the error of a call that d denies, nil if it is allowed.
func (g *Guard) denied(d *Decision) error {
	if d.Allowed {
		return nil
	}
	i, j := d.worst()
	if i < 0 {
		return g.failUnnamed()
	}
	worst := &d.Limits[i].Rules[j]
	e := g.exceed(d.Limits[i].Index, worst.Rule, worst.RetryAfter)
	e.Banned, e.Crowded = d.Limits[i].bars(worst.RetryAfter), d.Crowded
	return e
}

// deny returns the error of a call that the store has denied, where nobody wants to know more.
func (g *Guard) deny(c *call, out *store.Outcome) error {
	if err := c.answers(g, out); err != nil {
		return err
	}
	limit, rule, worst, banned, answers := -1, 0, time.Duration(0), time.Duration(0), out.Rules
	for n := range c.requests {
		longest := time.Duration(0)
		for j := range c.requests[n].Rules {
			if wait := answers[j].RetryAfter; wait > worst {
				limit, rule, worst = n, j, wait
			}
			longest = max(longest, answers[j].Banned)
		}
		if limit == n {
			banned = longest
		}
		answers = answers[len(c.requests[n].Rules):]
	}
	if limit < 0 {
		return g.failUnnamed()
	}
	e := g.exceed(c.limits[limit].index, c.requests[limit].Rules[rule], worst)
	e.Banned = banned > 0 && banned >= worst
	return e
}

// exceed returns the error of a call that a rule of a limit denies for so long.
func (g *Guard) exceed(limit int, rule rules.Rule, wait time.Duration) *ExceededError {
	return &ExceededError{
		Type: g.policy.Type, Method: g.policy.Method, Limit: g.limits[limit].called, Kind: g.policy.Limits[limit].Kind,
		Rule: rule, RetryAfter: wait,
	}
}

// failUnnamed is the error of a denial by no rule.
func (g *Guard) failUnnamed() error {
	return g.fail(-1, ErrMisconfigured, errors.New("the store denied the call and named no rule"))
}
