package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rlgen/rlgen/ratelimit/internal/owed"
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
	all     []int // the limits' places; never changed
	off     []bool
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
	// reuses says that calls have their requests of those that are decided: they ask one limit, and it does not matter how they end.
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
func (g *Guard) Take(ctx context.Context, in ...Input) (Permit, error) {
	if err := g.onlyRates(); err != nil {
		return Permit{}, err
	}
	_, d, permit, err := g.decide(ctx, in, len(g.limiter.observers) > 0)
	if err == nil {
		err = g.denied(&d)
	}
	return permit, err
}

// Decide is Take for callers who want to know what each rule said. A denied call is a Decision, not an error.
func (g *Guard) Decide(ctx context.Context, in ...Input) (Decision, Permit, error) {
	if err := g.onlyRates(); err != nil {
		return Decision{Policy: g.policy, Off: g.off}, Permit{}, err
	}
	_, d, permit, err := g.decide(ctx, in, true)
	if decided(err) {
		err = nil
	}
	return d, permit, err
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

// exceed returns the error of a call that a rule of a limit denies for so long.
func (g *Guard) exceed(limit int, rule rules.Rule, wait time.Duration) *ExceededError {
	return &ExceededError{
		Type: g.policy.Type, Method: g.policy.Method, Limit: g.limits[limit].called, Kind: g.policy.Limits[limit].Kind,
		Rule: rule, RetryAfter: wait,
	}
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
	e := g.exceed(c.indexes[limit], c.requests[limit].Rules[rule], worst)
	e.Banned = banned > 0 && banned >= worst
	return e
}

// failUnnamed is the error of a denial by no rule.
func (g *Guard) failUnnamed() error {
	return g.fail(-1, ErrMisconfigured, errors.New("the store denied the call and named no rule"))
}

// decide takes one call through identity, key, store and fallback to its decision. The error of one that is denied is an [ExceededError], or nil: see denied.
func (g *Guard) decide(ctx context.Context, in []Input, detail bool) (context.Context, Decision, Permit, error) {
	if ctx == nil {
		ctx = context.Background()
	}
	g = g.now()
	watch := watchIn(ctx)
	if detail || watch != nil {
		return g.tell(ctx, in, watch)
	}
	d := Decision{Policy: g.policy, Off: g.off}
	inner, permit, err := g.ask(ctx, in, false, &d)
	return inner, d, permit, err
}

// tell decides one call, and tells of it.
func (g *Guard) tell(ctx context.Context, in []Input, watch *watch) (context.Context, Decision, Permit, error) {
	d := Decision{Policy: g.policy, Off: g.off}
	start := time.Now()
	inner, permit, err := g.ask(ctx, in, true, &d)
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
	return inner, d, permit, err
}

// ask asks the rates, and then for what the call is to hold. The context that it returns is ctx, or the one of what is held.
func (g *Guard) ask(ctx context.Context, in []Input, detail bool, d *Decision) (context.Context, Permit, error) {
	if err := store.Ended(ctx); err != nil {
		return ctx, Permit{}, g.ended(err)
	}
	c, err := g.call(ctx, in)
	if err != nil {
		return ctx, Permit{}, err
	}
	inner, permit, err := g.enforce(ctx, c, detail, d)
	if c.shadow != nil && (err == nil || errors.Is(err, ErrExceeded)) {
		inner = g.askShadow(ctx, c, detail, d, &permit).in(inner)
	}
	return inner, permit, err
}

// enforce asks the limits that are no shadows.
func (g *Guard) enforce(ctx context.Context, c call, detail bool, d *Decision) (context.Context, Permit, error) {
	permit, err := g.rate(ctx, c, detail, d)
	if permit.ending != nil {
		permit.ending.ctx = ctx
	}
	if err != nil || !d.Allowed || len(c.holds) == 0 {
		return ctx, permit, err
	}
	return g.hold(ctx, c, permit, d)
}

// rate decides the rates of a call.
func (g *Guard) rate(ctx context.Context, c call, detail bool, d *Decision) (Permit, error) {
	if len(c.requests) == 0 {
		d.Allowed = true
		return Permit{}, nil
	}
	if g.waits {
		return g.await(ctx, c, detail, d)
	}
	return g.once(ctx, c, detail, d)
}

// once asks the store, and where it cannot decide, whatever takes its place.
func (g *Guard) once(ctx context.Context, c call, detail bool, d *Decision) (Permit, error) {
	out := outcomes.Get().(*store.Outcome)
	defer outcomes.Put(out)
	if l := g.limiter; l.owed != nil && !l.owed.Empty() {
		return g.onceTold(ctx, c, detail, d, out)
	}
	err := g.limiter.asked.Take(ctx, c.requests, detail, out)
	if err == nil {
		permit, err := g.answered(c, detail, d, out)
		if decided(err) {
			g.release(&c, &permit)
		}
		return permit, err
	}
	if err := store.Ended(ctx); err != nil {
		return Permit{}, g.ended(err)
	}
	return g.withoutStore(ctx, c, err, owed.Always, detail, d)
}

// outcomes are those that nobody reads any more.
var outcomes = sync.Pool{New: func() any { return new(store.Outcome) }}

// answered takes what the store has said to the decision, and the receipt out of it. Nobody reads what a call's rules have said unless they asked for
// detail or are to wait: a call that is denied has its error at once then.
func (g *Guard) answered(c call, detail bool, d *Decision, out *store.Outcome) (permit Permit, err error) {
	from := g.limiter.remembering
	switch {
	case detail || g.waits:
		permit, err = g.answer(d, c, from, *out)
		d.sources(out)
	case out.Allowed:
		d.Allowed = true
		permit = g.permit(c, from, out.Receipt)
	default:
		err = g.deny(&c, out)
	}
	if decided(err) && !out.Cached && out.Ahead != allAhead(c) {
		g.limiter.decided()
		g.remember(c, out)
	}
	out.Receipt = store.Receipt{}
	return permit, err
}

// decided says whether a call that ends so was decided: whether it is allowed or denied.
func decided(err error) bool {
	if err == nil {
		return true
	}
	_, denied := err.(*ExceededError)
	return denied
}

// ones are the requests of calls of one limit that nobody reads any more.
var ones = sync.Pool{New: func() any { return new([1]store.Request) }}

// release lets another call have the requests of c, which is decided and was granted permit. What a store has charged keeps no more of them than it takes to make them anew when it is
// given back. Those that somebody else may still read, as whoever takes back what was charged by a receipt of his own, stay: see [store.Store]'s Take.
func (g *Guard) release(c *call, permit *Permit) {
	if c.one == nil || permit.receipt.From != nil {
		return
	}
	if charged := permit.receipt.Requests; len(charged) > 0 {
		if len(charged) != 1 || &charged[0] != &c.one[0] {
			return
		}
		permit.charged = charge{of: g.limits[c.indexes[0]].Limit, key: charged[0].Key, cost: charged[0].Cost}
		if c.computed != nil && c.computed[0] != nil {
			permit.charged.of = c.computed[0]
		}
		permit.receipt.Requests = nil
	}
	c.one[0] = store.Request{}
	ones.Put(c.one)
}

// allAhead is the [store.Outcome.Ahead] of a call for which the store was not asked at all.
func allAhead(c call) uint64 { return 1<<len(c.requests) - 1 }

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

// call is what one call asks: a request per rate that applies, and which limits those are; and what it is to hold.
type call struct {
	requests []store.Request
	one      *[1]store.Request // where these are, if they are to be used again; else nil
	indexes  []int
	holds    []wanted
	shadow   *call // what is asked of shadows; nil where none applies
	// computed has for each request the limit whose rules were computed, nil where they are as written; it is nil where none were.
	computed []*rules.Limit
}

// rules is the number of rules that the call asks.
func (c call) rules() int {
	n := 0
	for i := range c.requests {
		n += len(c.requests[i].Rules)
	}
	return n
}

// answers reports an outcome that is none of the call's.
func (c *call) answers(g *Guard, out *store.Outcome) error {
	if n := c.rules(); len(out.Rules) != n {
		return g.fail(-1, ErrMisconfigured, fmt.Errorf("the store answered %d rules of %d", len(out.Rules), n))
	}
	return nil
}

// call makes the requests of one call.
func (g *Guard) call(ctx context.Context, in []Input) (call, error) {
	if g.same != nil && len(in) == 0 {
		return *g.same, nil
	}
	if len(in) != len(g.limits) && (len(in) != 0 || g.inputs) {
		return call{}, g.fail(-1, ErrMisconfigured,
			fmt.Errorf("the wrapper gives %d inputs for %d limits, want it generated again", len(in), len(g.limits)))
	}
	who := identityFrom(ctx)
	if err := g.knowPlan(who.plan, in); err != nil {
		return call{}, err
	}
	c := call{indexes: g.all[:0:0]}
	if g.reuses {
		c.one = ones.Get().(*[1]store.Request)
		c.requests = c.one[:0]
	} else {
		c.requests = make([]store.Request, 0, len(g.limits))
	}
	for i := range g.limits {
		l := &g.limits[i]
		var input Input
		if len(in) > 0 {
			input = in[i]
		}
		if l.off || input.skipped() || l.Plan != "" && l.Plan != who.plan {
			continue
		}
		var id string
		byAddress := l.countsAddress(&input)
		if !byAddress {
			id = l.id(who, &input, g.limiter.ipv6)
		}
		if l.shadow {
			g.shade(ctx, &c, i, id, input.permits())
			continue
		}
		if id == "" && l.Whose() != rules.Global && !(byAddress && who.ip.IsValid()) {
			if l.Missing == rules.MissingAllow {
				continue
			}
			return call{}, g.fail(i, ErrNoIdentity, nil)
		}
		of, most := l.Limit, l.most
		if l.computed != nil {
			contract, err := g.compute(ctx, i)
			if err != nil {
				return call{}, err
			}
			of, most = contract.Limit, contract.most
		}
		cost := input.permits()
		if cost < 0 || cost > most {
			return call{}, &CostError{Type: g.policy.Type, Method: g.policy.Method, Limit: g.policy.Name(i), Kind: l.Kind, Cost: cost, Most: most}
		}
		if l.holds != nil {
			c.want(l, i, id, cost)
			continue
		}
		c.indexes = g.indexes(c.indexes, i)
		key := ""
		if byAddress {
			key = l.addressKey(who.ip, g.limiter.ipv6)
		} else {
			key = l.key(id)
		}
		req := store.NewRequest(of, key, cost)
		req.Returns = req.Returns || g.queues || g.holding
		c.requests = append(c.requests, req)
		c.computes(l, of)
	}
	c.sortHolds()
	return c, nil
}

// indexes appends i. While those of a call are the first ones of the policy, they are a part of all.
func (g *Guard) indexes(of []int, i int) []int {
	if n := len(of); n == i {
		return g.all[: i+1 : i+1]
	}
	return append(of, i)
}

// countsAddress says whether a rate counts a call by the address that its context carries, whose text nobody needs but in the key.
func (l *limit) countsAddress(in *Input) bool {
	return l.Whose() == rules.IP && in.given&givenID == 0 && !l.shadow && l.holds == nil
}

// id returns what the call counts by, empty if it carries no id.
func (l *limit) id(who identity, in *Input, ipv6 ipv6Prefix) string {
	given := in.given&givenID != 0
	switch l.Whose() {
	case rules.IP:
		if given {
			return ipv6.parse(in.id)
		}
		return ipv6.id(who.ip)
	case rules.User:
		if given {
			return in.id
		}
		return who.user
	case rules.Key:
		return in.id
	}
	return ""
}

// misconfigured reports whether err is one that somebody must mend.
func misconfigured(err error) bool {
	var failed *store.Error
	return errors.As(err, &failed) && failed.Class == store.Misconfigured
}

// answer writes the outcome of c into d, as that of the limiter's store.
func (g *Guard) answer(d *Decision, c call, from store.Store, out store.Outcome) (Permit, error) {
	if err := c.answers(g, &out); err != nil {
		return Permit{}, err
	}
	d.Allowed = out.Allowed
	d.Limits = make([]LimitDecision, len(c.requests))
	answers := make([]RuleDecision, len(out.Rules))
	for n := range c.requests {
		req := &c.requests[n]
		l := &d.Limits[n]
		*l = LimitDecision{Index: c.indexes[n], Key: req.Key, Cost: req.Cost, Allowed: true}
		if c.computed != nil && c.computed[n] != nil {
			l.Computed = c.computed[n].Rules
		}
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
	if !out.Allowed {
		return Permit{}, nil
	}
	return g.permit(c, from, out.Receipt), nil
}

// permit is what a call is granted that from has charged.
func (g *Guard) permit(c call, from store.Store, receipt store.Receipt) Permit {
	permit := Permit{store: from, receipt: receipt}
	if g.ends {
		permit.ending = &ending{guard: g, rates: c.indexes}
	}
	return permit
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

func (g *Guard) fail(limit int, class, cause error) error {
	return &callError{policy: g.policy, limit: limit, class: class, cause: cause}
}

// ended is the error of a call whose context has ended with err.
func (g *Guard) ended(err error) error {
	return fmt.Errorf("%s %s: %w", g.policy.Type, g.policy.Method, err)
}
