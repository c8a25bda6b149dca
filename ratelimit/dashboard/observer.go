package dashboard

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/rules"
)

// Observer counts decisions for a [Dashboard]. Give it to the limiter with [ratelimit.WithObserver], and then to [New] with that limiter. It
// is safe for concurrent use, keeps five minutes, and its memory is bounded: some 15 KB for each limit. The zero Observer is not valid;
// [NewObserver] makes one.
type Observer struct {
	clock   func() time.Time
	book    book
	latency *lane
	denied  ranking
	bans    bans
	trouble atomic.Pointer[trouble]
	reload  atomic.Pointer[trouble]

	mu       sync.Mutex // of who adds to policies
	policies atomic.Pointer[map[*rules.Policy]*lanes]
}

var _ ratelimit.ReloadObserver = (*Observer)(nil)

// trouble is what last went wrong.
type trouble struct {
	at   time.Time
	text string
}

// NewObserver returns an observer that has seen nothing yet.
func NewObserver() *Observer { return newObserver(time.Now) }

func newObserver(clock func() time.Time) *Observer {
	o := &Observer{clock: clock}
	o.latency = o.book.lane(latencyLane)
	return o
}

// lanes are those of a policy.
type lanes struct {
	whole  *lane // the calls of the method
	limits []*lane
	names  []string
}

// laneOf is the name of the lane of a limit: the method's and the limit's.
func laneOf(p *rules.Policy, limit int) string { return methodOf(p) + " " + p.Name(limit) }

func methodOf(p *rules.Policy) string { return p.Type + "." + p.Method }

// maxPolicies is how many policies are known by their address, of which each change of overrides makes new ones.
const maxPolicies = 1 << 10

// of returns the lanes of a policy.
func (o *Observer) of(p *rules.Policy) *lanes {
	before := o.policies.Load()
	if before != nil {
		if l, ok := (*before)[p]; ok {
			return l
		}
	}
	l := &lanes{whole: o.book.lane(methodOf(p))}
	for i := range p.Limits {
		name := laneOf(p, i)
		l.names = append(l.names, name)
		l.limits = append(l.limits, o.book.lane(name))
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	grown := make(map[*rules.Policy]*lanes)
	if before = o.policies.Load(); before != nil && len(*before) < maxPolicies {
		maps.Copy(grown, *before)
	}
	grown[p] = l
	o.policies.Store(&grown)
	return l
}

// Observe counts a decision.
func (o *Observer) Observe(ctx context.Context, d *ratelimit.Decision, err error) {
	result := resultOf(err)
	if result == none || len(d.Limits) == 0 && err == nil {
		return // the caller is gone, or no limit applies
	}
	now := o.clock()
	second, of := now.Unix(), o.of(d.Policy)
	of.whole.add(second, result)
	if cause := undecided(d, err); cause != nil {
		of.whole.add(second, degraded)
		o.trouble.Store(&trouble{now, cause.Error()})
	}
	if result == failed {
		of.fail(ctx, d, second, err)
		return
	}
	if asked(d) {
		o.latency.add(second, bucket(d.Elapsed-d.Waited))
	}
	for i := range d.Limits {
		o.observe(now, &d.Limits[i], of, result)
	}
}

// decidesLately says whether the store has decided a call in the last seconds.
func (o *Observer) decidesLately() bool {
	now := o.clock().Unix()
	return !zeros(o.latency.sum(now-4, now+1))
}

// none is the result of a call whose context has ended.
const none = -1

func resultOf(err error) int {
	switch {
	case err == nil:
		return allowed
	case errors.Is(err, ratelimit.ErrExceeded):
		return denied
	}
	for _, class := range []error{
		ratelimit.ErrMisconfigured, ratelimit.ErrUnavailable, ratelimit.ErrNoIdentity,
		ratelimit.ErrUnknownPlan, ratelimit.ErrCost,
	} {
		if errors.Is(err, class) {
			return failed
		}
	}
	return none
}

// undecided is why the store has not decided; nil if it has, or was not asked.
func undecided(d *ratelimit.Decision, err error) error {
	if d.Degraded != nil {
		return d.Degraded
	}
	if errors.Is(err, ratelimit.ErrUnavailable) || errors.Is(err, ratelimit.ErrMisconfigured) {
		return err
	}
	return nil
}

// asked reports whether the store has decided.
func asked(d *ratelimit.Decision) bool {
	for i := range d.Limits {
		if d.Limits[i].Source == ratelimit.SourceStore {
			return d.Degraded == nil
		}
	}
	return false
}

// fail counts a call that nobody has decided for each limit that it may have met.
func (l *lanes) fail(ctx context.Context, d *ratelimit.Decision, second int64, err error) {
	for i := range d.Policy.Limits {
		if !d.Concerns(ctx, i) {
			continue
		}
		l.limits[i].add(second, failed)
		if undecided(d, err) != nil {
			l.limits[i].add(second, degraded)
		}
	}
}

// observe counts what one limit said.
func (o *Observer) observe(now time.Time, l *ratelimit.LimitDecision, of *lanes, result int) {
	lane, second := of.limits[l.Index], now.Unix()
	switch {
	case !l.Allowed && l.Mode == rules.Shadow:
		lane.add(second, shadowed)
	case !l.Allowed:
		lane.add(second, denied)
		if w := of.who(l); w.id != "" {
			o.denied.add(now, w)
		}
	case result == allowed || l.Mode == rules.Shadow:
		lane.add(second, allowed)
	}
	if l.Source == ratelimit.SourceLocal || l.Source == ratelimit.SourceOpen {
		lane.add(second, degraded)
	}
	switch {
	case l.Banned > 0:
		o.bans.see(of.who(l), now.Add(l.Banned))
	case l.Allowed && l.Source == ratelimit.SourceStore && o.bans.some():
		o.bans.none(of.who(l))
	}
}

// who is whom a limit has counted.
func (l *lanes) who(d *ratelimit.LimitDecision) who { return who{l.names[d.Index], idOf(d.Key)} }

// idOf is the id in a limit's key; empty for the one that all callers share.
func idOf(key string) string {
	_, rest, _ := strings.Cut(key, ":")
	id, _, _ := strings.Cut(rest, ":")
	if !strings.Contains(id, "=") {
		return ""
	}
	return id
}

// Reloaded takes note of whether other overrides are in force.
func (o *Observer) Reloaded(_ context.Context, err error) {
	t := &trouble{at: o.clock()}
	if err != nil {
		t.text = err.Error()
	}
	o.reload.Store(t)
}
