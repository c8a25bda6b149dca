package otellimit

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/trace"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// Observer tells OpenTelemetry of decisions; give it to a limiter with [ratelimit.WithObserver]. One Observer serves any number
// of limiters. It is safe for concurrent use. The zero Observer is not valid: [New] makes one.
type Observer struct {
	instruments
	sets sets
}

var (
	_ ratelimit.EndObserver    = (*Observer)(nil)
	_ ratelimit.ReloadObserver = (*Observer)(nil)
)

// New returns an observer. Without options it measures nothing, and adds events to spans alone.
func New(opts ...Option) (*Observer, error) {
	c := newConfig()
	for _, o := range opts {
		o.apply(&c)
	}
	if err := c.validate(); err != nil {
		return nil, err
	}
	i, err := newInstruments(c.meters.Meter(scope))
	if err != nil {
		return nil, err
	}
	return &Observer{instruments: i}, nil
}

// Observe counts and measures a decision.
func (o *Observer) Observe(ctx context.Context, d *ratelimit.Decision, err error) {
	if len(d.Limits) == 0 && err == nil {
		return // no limit applied
	}
	call := resultOf(err)
	o.countRequests(ctx, d, call, err)
	o.countStore(ctx, d, err)
	measured := o.sets.of(key{policy: d.Policy, limit: wholeCall, result: call})
	o.duration.Record(ctx, max(0, d.Elapsed-d.Waited).Seconds(), measured.record...)
	if d.Waited > 0 {
		o.queued.Record(ctx, d.Waited.Seconds(), measured.record...)
	}
	if call == rejected {
		o.addEvent(ctx, d)
	}
}

// ObserveEnd counts what a call has let go of.
func (o *Observer) ObserveEnd(ctx context.Context, e *ratelimit.End) {
	for _, i := range e.Released {
		o.leases.Add(ctx, -1, o.sets.of(key{policy: e.Policy, limit: i}).add...)
	}
	if e.Err != nil {
		o.storeErrors.Add(ctx, 1, o.sets.of(key{failure: classOf(e.Err)}).add...)
	}
}

// Reloaded counts that other overrides are in force, or that they could not be used where err is not nil.
func (o *Observer) Reloaded(ctx context.Context, err error) {
	k := key{}
	if err != nil {
		k.failure = "_OTHER" // as the conventions call what has no class
	}
	o.reloads.Add(ctx, 1, o.sets.of(k).add...)
}

// countRequests counts the call for its limits.
func (o *Observer) countRequests(ctx context.Context, d *ratelimit.Decision, call result, err error) {
	switch call {
	case canceled, failed:
		for i := range d.Policy.Limits {
			if !d.Concerns(ctx, i) {
				continue
			}
			o.requests.Add(ctx, 1, o.sets.of(key{policy: d.Policy, limit: i, result: call, failure: failureOf(err)}).add...)
		}
		return
	}
	for i := range d.Limits {
		l := &d.Limits[i]
		switch {
		case !l.Allowed:
			o.requests.Add(ctx, 1, o.sets.of(limitKey(d.Policy, l, rejected)).add...)
		case call == acquired:
			o.requests.Add(ctx, 1, o.sets.of(limitKey(d.Policy, l, acquired)).add...)
			o.countLease(ctx, d.Policy, l)
		case l.Mode == rules.Shadow:
			o.requests.Add(ctx, 1, o.sets.of(limitKey(d.Policy, l, acquired)).add...)
		}
	}
}

// countLease counts what l lets the call hold.
func (o *Observer) countLease(ctx context.Context, p *rules.Policy, l *ratelimit.LimitDecision) {
	if p.Limits[l.Index].Kind.Holds() && l.Source != ratelimit.SourceOpen {
		o.leases.Add(ctx, 1, o.sets.of(key{policy: p, limit: l.Index}).add...)
	}
}

// countStore counts what the store could not decide, and who has decided that in its place.
func (o *Observer) countStore(ctx context.Context, d *ratelimit.Decision, err error) {
	for i := range d.Limits {
		if l := &d.Limits[i]; l.Source == ratelimit.SourceLocal || l.Source == ratelimit.SourceOpen {
			o.fallbacks.Add(ctx, 1, o.sets.of(limitKey(d.Policy, l, none)).add...)
		}
	}
	switch {
	case d.Degraded != nil:
		o.storeErrors.Add(ctx, 1, o.sets.of(key{failure: classOf(d.Degraded)}).add...)
	case errors.Is(err, ratelimit.ErrUnavailable), errors.Is(err, ratelimit.ErrMisconfigured):
		o.storeErrors.Add(ctx, 1, o.sets.of(key{failure: classOf(err)}).add...)
	}
}

// addEvent adds the event of a denied call to its caller's span.
func (o *Observer) addEvent(ctx context.Context, d *ratelimit.Decision) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	if l := longest(d); l != nil {
		k := limitKey(d.Policy, l, none)
		k.banned = l.Banned > 0
		span.AddEvent("rate_limiting.rejected", trace.WithAttributes(k.attributes()...))
	}
}

// longest is the limit that denies for the longest; nil if none denies.
func longest(d *ratelimit.Decision) *ratelimit.LimitDecision {
	var worst *ratelimit.LimitDecision
	for i := range d.Limits {
		if l := &d.Limits[i]; !l.Allowed && l.Mode == rules.Enforce && (worst == nil || wait(l) > wait(worst)) {
			worst = l
		}
	}
	return worst
}

func wait(l *ratelimit.LimitDecision) (longest int64) {
	for i := range l.Rules {
		longest = max(longest, int64(l.Rules[i].RetryAfter))
	}
	return longest
}

// resultOf is the result of a call whose error is err.
func resultOf(err error) result {
	switch {
	case err == nil:
		return acquired
	case errors.Is(err, ratelimit.ErrExceeded):
		return rejected
	case failureOf(err) != "":
		return failed
	}
	return canceled // what is left is the context's own error
}

// failureOf is why nobody decided a call; empty if the call was decided, or its context had ended.
func failureOf(err error) string {
	for _, f := range failures {
		if errors.Is(err, f.class) {
			return f.name
		}
	}
	return ""
}

var failures = []struct {
	class error
	name  string
}{
	{ratelimit.ErrMisconfigured, "misconfigured"},
	{ratelimit.ErrUnavailable, "unavailable"},
	{ratelimit.ErrNoIdentity, "no_identity"},
	{ratelimit.ErrUnknownPlan, "unknown_plan"},
	{ratelimit.ErrCost, "cost"},
}

// classOf is what kind of a store's error err is.
func classOf(err error) string {
	var failed *store.Error
	switch {
	case errors.As(err, &failed):
		return failed.Class.String()
	case errors.Is(err, ratelimit.ErrMisconfigured):
		return store.Misconfigured.String()
	}
	return store.Unavailable.String()
}
