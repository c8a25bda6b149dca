package ratelimit

import (
	"context"
	"time"

	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// Decision is the answer to one call.
type Decision struct {
	// Policy is what stands over the method that was called.
	Policy *rules.Policy
	// Allowed says whether the call may proceed. A call that was decided and denied is charged to no limit; one that was not
	// decided, because the store's answer was lost, may have been charged.
	Allowed bool
	// RetryAfter is how long until the same call would pass if nobody else called: the longest wait of all the
	// rules that deny it, zero if it is allowed. Where a concurrency or a lock denies it, nobody knows: see [ExceededError].
	RetryAfter time.Duration
	// Limits has the limits that applied, in the policy's order. Those whose Mode is rules.Shadow have no part in the fields above.
	Limits []LimitDecision
	// Off says which limits of the policy are switched off by overrides, by their place in it; nil where none can be. It is not to be changed.
	Off []bool
	// Waited is how long the call waited for room, as the limits' Wait lets it, and in the line of those that did.
	Waited time.Duration
	// Crowded says that the call is denied because as many calls wait already as [WithMaxWaiters] lets: it would have waited
	// else.
	Crowded bool
	// Degraded is why the store could not decide; nil if it did.
	Degraded error
	// Elapsed is how long the decision took, waiting included.
	Elapsed time.Duration
}

// Concerns says whether limit i of the policy may have a part in a call of ctx that nobody has decided, of which Limits says nothing: not a shadow, not one that is off, and
// not one of a plan that the caller is not on.
func (d *Decision) Concerns(ctx context.Context, i int) bool {
	l := &d.Policy.Limits[i]
	plan, _ := PlanFrom(ctx)
	return l.Mode != rules.Shadow && (l.Plan == "" || l.Plan == plan) && (d.Off == nil || !d.Off[i])
}

// LimitDecision is what one limit said.
type LimitDecision struct {
	// Index is the limit's place in the policy's Limits.
	Index int
	// Key is the key that the limit counts under. It holds the caller's id: keep it out of logs, metrics and answers.
	Key string
	// Cost is how many permits the call asked for.
	Cost int64
	// Mode says whether the limit denies calls: one that is rules.Shadow only says what it would do.
	Mode rules.Mode
	// Source says who decided.
	Source Source
	// Instances is by how many the limit was divided where Source is [SourceLocal], and else zero. Where they are more than a rule's
	// count, each of them lets one permit through, so that all of them together let through as many as they are.
	Instances int
	// Allowed says whether this limit had room.
	Allowed bool
	// Banned is for how much longer the id is banned, as the limit's Ban says; zero if it is not.
	Banned time.Duration
	// Computed has the limit's rules where [WithRules] has given others than the policy has; else it is nil.
	Computed []rules.Rule
	// Rules has the answers of the limit's rules, in their order; empty where Source is [SourceOpen], and for a concurrency and a
	// lock, which have no rules.
	Rules []RuleDecision
}

// bars says whether a ban is what denies for so long, and not a rule that has no room for longer.
func (l *LimitDecision) bars(wait time.Duration) bool { return l.Banned > 0 && l.Banned >= wait }

// RuleDecision is what one rule said.
type RuleDecision struct {
	// Rule is the rule as it was applied: where this process decided alone, its share of the count.
	Rule rules.Rule
	// Allowed says whether this rule had room.
	Allowed bool
	// Remaining is the cost that would pass now, after this call.
	Remaining int64
	// RetryAfter is how long until the same cost passes if nobody else asks, zero if it does now.
	RetryAfter time.Duration
	// ResetAfter is how long until all of the count is free again if nobody else asks.
	ResetAfter time.Duration
	// Delay is how long a queue made the call wait.
	Delay time.Duration
}

// Source says who decided a limit.
type Source uint8

const (
	// SourceStore: the limiter's store.
	SourceStore Source = iota
	// SourceLocal: this process alone, because the store could not decide.
	SourceLocal
	// SourceOpen: nobody; the store could not decide and the limit's onfail is open.
	SourceOpen
	// SourceCache: this process, which remembers for a second at most that the store has denied as much and would do so still. No wait is longer than the store
	// would say, and no more remains of a limit that denies one permit: nobody can charge it meanwhile, and what time has freed since may not be in it. Of a limit that
	// can be charged meanwhile, as one that has room for the call or denies more than one permit, what remains is what did then, less what this process has charged since: others may have charged more.
	SourceCache
	// SourcePrefetch: this process, by permits that it had taken from the store ahead. What its rules say remains is what did then, less what this process has
	// used of the permits since: others may have used more. It has no part in why a call is denied.
	SourcePrefetch
)

func (s Source) String() string {
	switch s {
	case SourceStore:
		return "store"
	case SourceLocal:
		return "local"
	case SourceOpen:
		return "open"
	case SourceCache:
		return "cache"
	case SourcePrefetch:
		return "prefetch"
	}
	return "unknown"
}

// Observer is told of every decision. Observe runs on the caller's goroutine before the call goes on, so it is to
// return at once; it is called concurrently.
type Observer interface {
	// Observe gets the decision and the error that the caller gets, nil if the call may proceed. Where the error is another than
	// [ErrExceeded], there was no decision, and d has no limits.
	Observe(ctx context.Context, d *Decision, err error)
}

// worst returns the rule that denies for the longest, as indexes into d.Limits and its Rules, -1 if none denies. Shadows deny nothing.
func (d *Decision) worst() (limit, rule int) {
	limit, rule = -1, -1
	var wait time.Duration
	for i := range d.Limits {
		if d.Limits[i].Mode == rules.Shadow {
			continue
		}
		for j := range d.Limits[i].Rules {
			if r := &d.Limits[i].Rules[j]; !r.Allowed && r.RetryAfter > wait {
				limit, rule, wait = i, j, r.RetryAfter
			}
		}
	}
	return limit, rule
}

// Permit is what an allowed call was granted. The zero Permit holds nothing.
type Permit struct {
	store   store.Store
	receipt store.Receipt
	charges [mostCharges]charge // what the receipt's requests were, where their memory is another call's by now; of the zero limit behind the last
	ending  *ending             // nil where it does not matter how the call ends
}

// mostCharges is how many limits charge a call at most whose requests' memory is another's afterwards: each takes room in every permit.
const mostCharges = 4

// charge is what a call was charged for one limit.
type charge struct {
	of   *rules.Limit
	key  string
	cost int64
}

// GiveBack returns the permits, as if the call had never been made, and lets go of what it holds. Giving back twice, after
// [Permit.Done], or after the rules' windows, does nothing. The error is the store's.
func (p Permit) GiveBack(ctx context.Context) error {
	if p.ending != nil {
		return p.ending.end(ctx, p, undone)
	}
	if p.store == nil {
		return nil
	}
	receipt := p.receipt
	if charged := p.charged(); charged > 0 {
		receipt.Requests = make([]store.Request, charged)
		for i := range receipt.Requests {
			c := &p.charges[i]
			receipt.Requests[i] = store.NewRequest(c.of, c.key, c.cost)
		}
	}
	return p.store.GiveBack(ctx, receipt)
}

// charged is how many charges there are.
func (p *Permit) charged() int {
	n := 0
	for n < mostCharges && p.charges[n].of != nil {
		n++
	}
	return n
}
