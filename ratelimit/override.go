package ratelimit

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/rlgen/rlgen/rules"
)

// ReloadObserver is an [Observer] that is also told when overrides are read anew.
type ReloadObserver interface {
	Observer
	// Reloaded is told of each time that other overrides come into force, and of each that they cannot: err is why. It is told of one after the other, and may
	// ask the limiter.
	Reloaded(ctx context.Context, err error)
}

// overriding is overrides in force.
type overriding struct {
	layers   [][]rules.Override
	policies map[*rules.Policy]*rules.Overridden
}

// overriddenGuard is what overrides make of a guard.
type overriddenGuard struct {
	by *overriding
	*Guard
}

// Override makes layers of overrides hold in place of those that have held, for every call that is decided from then on: a later layer in place of an
// earlier one of the same limit, and no layers for none. Each name must be that of a limit which is prepared, and
// each text fit it: see [rules.Resolve]. Otherwise the error says all that is wrong, and what has held holds on. No call meets two versions, and none
// waits for another; a call that is decided keeps the version by which it was, until it ends.
//
// Counts go on under the new numbers: those of a log whatever they are, those of the others as far as a rule has a window that the limit had
// before, and calls in flight.
//
// Rules that are computed for a caller ([WithRules]) hold in place of an override's numbers, of which the log warns.
//
// The log has a line of it, and observers that are a [ReloadObserver] are told.
func (l *Limiter) Override(ctx context.Context, layers ...[]rules.Override) error {
	l.mu.Lock()
	defer l.unlock()
	o, err := l.resolve(l.policies, layers)
	if err != nil {
		err = fmt.Errorf("ratelimit: overrides: %w", err)
		l.keep(ctx, err)
		return err
	}
	l.overrides.Store(o)
	l.refused = ""
	names := o.numbered(l.policies)
	l.news = append(l.news, func() {
		l.log.InfoContext(ctx, "rate limit overrides are in force", "limits", o.limits())
		if l.computes != nil && len(names) > 0 {
			l.log.WarnContext(ctx, "rate limit overrides have numbers, in place of which those hold that the program computes for a caller", "limits", strings.Join(names, " "))
		}
		l.tellReload(ctx, nil)
	})
	return nil
}

// unlock unlocks l.mu, and tells without it what there is to tell, in the order in which it came to be: whoever is told may ask the limiter, and make it tell more.
func (l *Limiter) unlock() {
	defer l.mu.Unlock()
	if l.telling {
		return // it is told by whoever does that
	}
	l.telling = true
	defer func() { l.telling = false }()
	for len(l.news) > 0 {
		tell := l.news[0]
		l.news = l.news[1:]
		func() {
			l.mu.Unlock()
			defer l.mu.Lock()
			tell()
		}()
	}
}

// KeepOverrides says that overrides could not be read because of err, and that those which are in force stay so: it logs that, once while err
// says the same, and tells observers that are a [ReloadObserver]. It is for whoever reads them for [Limiter.Override].
func (l *Limiter) KeepOverrides(ctx context.Context, err error) {
	l.mu.Lock()
	defer l.unlock()
	l.keep(ctx, err)
}

// mostLogged is how many bytes of an error a line of the log has, of which texts that people have written may be most.
const mostLogged = 4000

func (l *Limiter) keep(ctx context.Context, err error) {
	first := err.Error() != l.refused
	l.refused = err.Error()
	l.news = append(l.news, func() {
		if first {
			l.log.ErrorContext(ctx, "rate limit overrides cannot be used; those before them stay in force", "error", rules.Brief(err.Error(), mostLogged))
		}
		l.tellReload(ctx, err)
	})
}

func (l *Limiter) tellReload(ctx context.Context, err error) {
	for _, o := range l.observers {
		if o, ok := o.(ReloadObserver); ok {
			o.Reloaded(ctx, err)
		}
	}
}

// resolve finds out what layers of overrides make of policies; nil for no layers.
func (l *Limiter) resolve(policies []*rules.Policy, layers [][]rules.Override) (*overriding, error) {
	if len(layers) == 0 {
		return nil, nil
	}
	resolved, err := rules.Resolve(policies, layers...)
	if err != nil {
		return nil, err
	}
	return &overriding{slices.Clone(layers), resolved}, nil
}

// limits is how many limits are overridden.
func (o *overriding) limits() int {
	n := 0
	if o != nil {
		for _, p := range o.policies {
			n += len(p.By) - countNil(p.By)
		}
	}
	return n
}

// numbered are the names of the rates whose rules are overridden, in the order of policies.
func (o *overriding) numbered(policies []*rules.Policy) (names []string) {
	if o == nil {
		return nil
	}
	for _, p := range policies {
		now := o.policies[p]
		for i := 0; now != nil && i < len(p.Limits); i++ {
			if !now.Off[i] && !slices.Equal(now.Policy.Limits[i].Rules, p.Limits[i].Rules) {
				names = append(names, p.Type+"."+p.Name(i))
			}
		}
	}
	return names
}

func countNil(by []*rules.Override) int {
	n := 0
	for _, o := range by {
		if o == nil {
			n++
		}
	}
	return n
}

// extend makes the overrides that are in force hold for what was prepared since, too.
func (l *Limiter) extend() {
	now := l.overrides.Load()
	if now == nil {
		return
	}
	o, err := l.resolve(l.policies, now.layers)
	if err != nil {
		l.keep(context.Background(), fmt.Errorf("ratelimit: overrides: %w", err))
		return
	}
	l.overrides.Store(o)
}

// now returns the guard that decides in g's place while overrides are in force, and else g.
func (g *Guard) now() *Guard {
	o := g.limiter.overrides.Load()
	if o == nil {
		return g
	}
	if latest := g.latest.Load(); latest != nil && latest.by == o {
		return latest.Guard
	}
	return g.override(o)
}

// override makes the guard that decides by o.
func (g *Guard) override(o *overriding) *Guard {
	made := &overriddenGuard{o, g}
	if p := o.policies[g.policy]; p != nil {
		if guard, err := g.limiter.compile(p.Written, p.Policy, p.Off); err != nil {
			g.limiter.KeepOverrides(context.Background(), err)
		} else {
			made.Guard = guard
		}
	}
	g.latest.Store(made)
	return made.Guard
}
