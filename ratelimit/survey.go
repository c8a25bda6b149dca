package ratelimit

import (
	"slices"
	"time"

	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// Survey is what a limiter says of itself at one moment.
type Survey struct {
	// Policies has what is prepared, in that order, each as it is written and as it is now: where nothing overrides a policy, its Policy is its Written, and
	// Off and By are empty. They are not to be changed.
	Policies []rules.Overridden
	// Overrides has the layers that are in force, as [Limiter.Override] was given them; none where none are. They are not to be changed.
	Overrides [][]rules.Override
	// Mode is what [WithMode] says.
	Mode rules.Mode
	// Computes says that the program computes the rules of each caller ([WithRules]): of rates, those that Policies have hold where it does not.
	Computes bool
	// Refused is why overrides that were read last are not in force; empty if they are.
	Refused string
	// Instances is by how many counts are divided while the store cannot decide.
	Instances int
	// Store is how the store of counts does.
	Store Health
}

// Health is how a store does, as the calls show that ask it.
type Health struct {
	// Remote says that the store is asked over a network.
	Remote bool
	// Down is since when it cannot decide, and Refused since when it will not until somebody mends it; zero where it decides.
	Down, Refused time.Time
	// Failed is when a call last went wrong; zero if none has since the store last came back.
	Failed time.Time
	// Resting has the addresses of its servers that are not asked for a moment, or by one call at a time since, because calls before failed: of a
	// Cluster, those that are down. It is empty where all are asked, and leaves out one that nobody has asked for a minute.
	Resting []string
}

// Survey says what is prepared, what overrides make of it, and how the store does. It asks nobody, and holds up no call.
func (l *Limiter) Survey() Survey {
	l.mu.Lock()
	s := Survey{Mode: l.mode, Computes: l.computes != nil, Refused: l.refused, Policies: l.standing()}
	if in := l.overrides.Load(); in != nil {
		s.Overrides = in.layers
	}
	l.mu.Unlock()
	s.Instances = l.instances
	for _, f := range l.joined() {
		s.Instances = max(s.Instances, f.instances())
	}
	s.Store = l.health.report()
	_, s.Store.Remote = l.store.(store.Remote)
	if b, ok := l.store.(store.Breaker); ok {
		s.Store.Resting = b.Resting()
	}
	return s
}

// standing is every policy that is prepared, with what is in force.
func (l *Limiter) standing() []rules.Overridden {
	in := l.overrides.Load()
	all := make([]rules.Overridden, len(l.policies))
	for i, p := range l.policies {
		all[i] = rules.Overridden{Written: p, Policy: p}
		if in == nil || in.policies[p] == nil {
			continue
		}
		now := in.policies[p]
		all[i] = rules.Overridden{Written: p, Policy: now.Policy, Off: slices.Clone(now.Off), By: slices.Clone(now.By)}
	}
	return all
}

// report is what h says to others.
func (h *health) report() Health {
	r := Health{Down: at(h.outage.since.Load()), Refused: at(h.refusal.since.Load())}
	if !r.Down.IsZero() {
		r.Failed = at(h.outage.latest.Load())
	}
	if latest := at(h.refusal.latest.Load()); !r.Refused.IsZero() && latest.After(r.Failed) {
		r.Failed = latest
	}
	return r
}

// at is a time that a trouble remembers.
func at(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns)
}
