package ratelimit

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rlgen/rlgen/ratelimit/internal/recall"
	"github.com/rlgen/rlgen/ratelimit/memstore"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// debts is what this process has let through alone, while the store could not decide, and has not told the store of yet: the counts of the local store, as long as their
// windows have them. They are charged to the store before it decides the next call under their keys, so that it knows of them then: each at most once, and no more than
// there is room for. What may have been charged counts as charged.
//
// A permit of a log is charged as of when it was let through, or at most an eighth of the longest window later; of other algorithms, what counts at the time of the
// charge as of then.
//
// It is safe for concurrent use. A nil *debts has none.
type debts struct {
	store  store.Store // to be told
	local  *memstore.Store
	recall *recall.Table
	clock  func() time.Duration
	budget time.Duration // of a call that settles
	until  atomic.Int64  // when no debt is left, ns of clock

	mu       sync.Mutex
	settling map[string]*settlement // by key
}

// settlingBudget is how long a call may last that settles debts with a store that does not say how long its calls last.
const settlingBudget = 100 * time.Millisecond

// settlement is debts of one key on their way to the store. err is valid once done is closed.
type settlement struct {
	done chan struct{}
	err  error
}

// newDebts returns those to s, nil where nobody knows what the local store has let through.
func newDebts(l *Limiter, s store.Store) *debts {
	local, ok := l.local.(*memstore.Store)
	if !ok || l.recall == nil {
		return nil
	}
	d := &debts{store: s, local: local, recall: l.recall, clock: l.now, budget: settlingBudget, settling: make(map[string]*settlement)}
	if s, ok := s.(store.Budgeted); ok {
		d.budget = s.Budget()
	}
	return d
}

// owe takes note that the local store has charged requests.
func (d *debts) owe(requests []store.Request) {
	if d == nil {
		return
	}
	until := int64(d.clock())
	for i := range requests {
		until = max(until, int64(d.clock()+lasts(&requests[i])))
	}
	for {
		old := d.until.Load()
		if until <= old || d.until.CompareAndSwap(old, until) {
			return
		}
	}
}

// lasts is how long a charge counts at most.
func lasts(req *store.Request) time.Duration {
	longest := 0.0
	for _, r := range req.Rules {
		longest = max(longest, float64(r.Window)*max(1, float64(req.Capacity(r))/float64(r.Count)))
	}
	return time.Duration(min(longest, float64(2*store.MaxWindow)))
}

// settle charges to the store what is owed under the keys of c, or waits until another call has. It returns how long c may last from then on: ctx, unless it has
// settled something. An error is the store's, or that of time which has run out.
func (d *debts) settle(ctx context.Context, g *Guard, c *call) (context.Context, context.CancelFunc, error) {
	if d == nil || d.until.Load() <= int64(d.clock()) {
		return ctx, nil, nil
	}
	var all []*settlement
	for n, i := range c.indexes {
		if a, req := g.limits[i].alone, &c.requests[n]; a != nil && !req.Queue {
			if s := d.begin(ctx, req, a.shareOf(c.whole(n))); s != nil {
				all = append(all, s)
			}
		}
	}
	if all == nil {
		return ctx, nil, nil
	}
	limited, cancel := context.WithTimeoutCause(ctx, d.budget, errUnsettled)
	for _, s := range all {
		if err := s.wait(limited); err != nil {
			cancel()
			return ctx, nil, err
		}
	}
	return limited, cancel, nil
}

var errUnsettled = errors.New("the store has not been told in time of what this process let through without it")

func (s *settlement) wait(ctx context.Context) error {
	select {
	case <-s.done:
		return s.err
	case <-ctx.Done():
		return store.Ended(ctx)
	}
}

// begin begins to settle what is owed under the key of req, of which share is this process's share. It returns nil where nothing is.
func (d *debts) begin(ctx context.Context, req *store.Request, of *share) *settlement {
	own := store.NewRequest(&of.Limit, req.Key, 0)
	own.Ban, own.After = 0, 0 // which say that nothing remains
	if len(d.owed(req, own)) == 0 {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if s := d.settling[req.Key]; s != nil {
		return s
	}
	s := &settlement{done: make(chan struct{})}
	d.settling[req.Key] = s
	whole := *req
	go func() {
		defer close(s.done)
		s.err = d.charge(context.WithoutCancel(ctx), &whole, d.owed(&whole, own))
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.settling, whole.Key)
	}()
	return s
}

// debt is permits of one time.
type debt struct {
	charge store.Request // to the store
	back   store.Request // what the local store then forgets
	rule   int           // of the limit's; -1 for all that see it
	age    time.Duration // how long ago it was let through
}

// owed returns what is owed under a key, of which whole is a request to the store and own one to the local store.
func (d *debts) owed(whole *store.Request, own store.Request) []debt {
	if own.Algorithm.Logs() {
		return d.logged(whole, own)
	}
	var out store.Outcome
	if d.local.Peek(context.Background(), []store.Request{own}, &out) != nil {
		return nil
	}
	var all []debt
	for i := range min(len(own.Rules), len(whole.Rules)) {
		if cost := own.Capacity(own.Rules[i]) - out.Rules[i].Remaining; cost > 0 {
			all = append(all, newDebt(whole, own, whole.Rules[i], own.Rules[i], i, cost))
		}
	}
	return all
}

// logged returns what a log has, by when it was let through: each rule sees as much of it in the store as in the log.
func (d *debts) logged(whole *store.Request, own store.Request) []debt {
	longest := longestRule(whole.Rules)
	own.Rules = bands(whole.Rules)
	var out store.Outcome
	if d.local.Peek(context.Background(), []store.Request{own}, &out) != nil {
		return nil
	}
	var all []debt
	last := len(own.Rules) - 1
	age, before := own.Rules[last].Window-out.Rules[last].ResetAfter, int64(0) // of the newest
	for i, band := range own.Rules {
		used := band.Count - out.Rules[i].Remaining
		if used > before {
			owed := newDebt(whole, own, longest, own.Rules[last], -1, used-before)
			owed.age, owed.charge.Ahead = age, -age
			all = append(all, owed)
		}
		age, before = max(age, band.Window), used
	}
	return all
}

func newDebt(whole *store.Request, own store.Request, to, from rules.Rule, rule int, cost int64) debt {
	owed := debt{charge: *whole, back: own, rule: rule}
	owed.charge.Rules, owed.charge.Cost, owed.charge.Prefetch, owed.charge.Ban, owed.charge.After = []rules.Rule{to}, cost, 0, 0, 0
	owed.back.Rules, owed.back.Cost = []rules.Rule{from}, cost
	return owed
}

func longestRule(of []rules.Rule) rules.Rule {
	return slices.MaxFunc(of, func(a, b rules.Rule) int { return int(a.Window - b.Window) })
}

// bands are rules that see what a log has by when it was let through: of every window of the rules, and of the eighths of the longest.
func bands(of []rules.Rule) []rules.Rule {
	const unlimited, parts = 1 << 40, 8
	longest := longestRule(of).Window
	all := make([]rules.Rule, 0, parts+len(of))
	for i := range parts {
		if w := (longest * time.Duration(i+1) / parts).Truncate(time.Microsecond); w > 0 {
			all = append(all, rules.Rule{Count: unlimited, Window: w})
		}
	}
	for _, r := range of {
		all = append(all, rules.Rule{Count: unlimited, Window: r.Window})
	}
	slices.SortFunc(all, func(a, b rules.Rule) int { return int(a.Window - b.Window) })
	return slices.CompactFunc(all, func(a, b rules.Rule) bool { return a.Window == b.Window })
}

// charge charges debts of one key, and forgets those that the store has been told of. Its error says that it could not be told of some.
func (d *debts) charge(ctx context.Context, whole *store.Request, all []debt) error {
	errs := make([]error, len(all))
	var wait sync.WaitGroup
	for i := range all {
		wait.Go(func() { errs[i] = d.tell(ctx, all[i].charge) })
	}
	wait.Wait()
	var first error
	for i, err := range errs {
		var failed *store.Error
		if !errors.As(err, &failed) || failed.Class == store.Indeterminate {
			d.settled(ctx, whole, &all[i])
		}
		if first == nil {
			first = err
		}
	}
	return first
}

// settled makes a debt what the store knows of.
func (d *debts) settled(ctx context.Context, whole *store.Request, of *debt) {
	d.recall.Settle(d.clock(), whole, of.rule, of.charge.Cost, of.age)
	_ = d.local.Grant(ctx, []store.Request{of.back}) // which is no queue, and costs no more than its rule allows
}

const mostTellings = 3

// tell charges req to the store, as far as there is room.
func (d *debts) tell(ctx context.Context, req store.Request) error {
	var out store.Outcome
	for range mostTellings { // others may take the room meanwhile
		err := d.store.Take(ctx, []store.Request{req}, true, &out)
		if err != nil || out.Allowed || len(out.Rules) == 0 || out.Rules[0].Remaining <= 0 {
			return err
		}
		req.Cost = min(req.Cost, out.Rules[0].Remaining)
	}
	return nil
}
