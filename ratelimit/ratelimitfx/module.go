package ratelimitfx

import (
	"cmp"
	"errors"
	"log/slog"
	"slices"

	"go.uber.org/fx"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/rules"
)

// Module provides the app's *[ratelimit.Limiter], and [Policies].
var Module = fx.Module("ratelimit", fx.Provide(newPolicies, newLimiter))

// Options configure the limiter of [Module]:
//
//	fx.Supply(ratelimitfx.Options{ratelimit.WithInstances(4)})
//
// An app has one Options or none. What observes goes into the group "ratelimit.observers", from as many places as there are.
type Options []ratelimit.Option

// Policies are those of the app's limited methods, sorted by type and method.
type Policies []*rules.Policy

type policiesIn struct {
	fx.In

	Policies []*rules.Policy `group:"ratelimit.policies"`
}

func newPolicies(in policiesIn) (Policies, error) {
	if slices.Contains(in.Policies, nil) {
		return nil, errors.New(`ratelimitfx: the group "ratelimit.policies" has a nil *rules.Policy`)
	}
	slices.SortFunc(in.Policies, func(a, b *rules.Policy) int {
		return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.Method, b.Method), cmp.Compare(a.Package, b.Package))
	})
	return in.Policies, nil
}

type limiterIn struct {
	fx.In

	From      sources
	Lifecycle fx.Lifecycle
	Policies  Policies
	Options   Options              `optional:"true"`
	Overrides Overrides            `optional:"true"`
	Logger    *slog.Logger         `optional:"true"`
	Observers []ratelimit.Observer `group:"ratelimit.observers"`
}

// newLimiter makes the limiter, and fails now for what would make a service's constructor panic later. The store is asked when
// the app starts.
func newLimiter(in limiterIn) (*ratelimit.Limiter, error) {
	s, err := in.From.store()
	if err != nil {
		return nil, err
	}
	var opts []ratelimit.Option
	if in.Logger != nil {
		opts = append(opts, ratelimit.WithLogger(in.Logger))
	}
	for _, o := range in.Observers {
		opts = append(opts, ratelimit.WithObserver(o))
	}
	locks, closing, err := in.From.locks()
	if err != nil && slices.ContainsFunc(in.Policies, holds) {
		return nil, err
	}
	if locks != nil {
		opts = append(opts, ratelimit.WithLocks(locks))
	}
	if closing != nil {
		in.Lifecycle.Append(fx.StopHook(closing))
	}
	l, err := ratelimit.New(s, append(opts, in.Options...)...)
	if err != nil {
		return nil, err
	}
	if err := check(l, in.Policies); err != nil {
		return nil, err
	}
	in.Lifecycle.Append(fx.StartStopHook(l.Check, l.Close))
	if err := in.Overrides.watch(l, in.Lifecycle); err != nil {
		return nil, err
	}
	return l, nil
}

// holds reports whether a limit of p holds something while a call runs.
func holds(p *rules.Policy) bool {
	return slices.ContainsFunc(p.Limits, func(l rules.Limit) bool { return l.Kind.Holds() })
}

// check reports the policies that do not stand beside each other.
func check(l *ratelimit.Limiter, policies Policies) error {
	var errs []error
	for _, p := range policies {
		_, err := l.Prepare(p)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
