package ratelimit

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/rlgen/rlgen/rules"
)

// RulesFunc returns the rules of one limit of a policy for the caller of ctx, such as what a tenant's contract says; nil for those
// that the policy has. It is asked at each call that the limit applies to, and concurrently: it is to look up what is at hand. The rules are not changed
// afterwards.
type RulesFunc func(ctx context.Context, p *rules.Policy, limit int) ([]rules.Rule, error)

// WithRules makes compute say by which rules each caller is limited. The policy that it gets is the one that holds now, with overrides ([Limiter.Override]), whose numbers
// hold where it returns nil or what it finds there: what else it returns holds in place of them, while an override's off, mode and other options hold whatever
// it returns. Key and algorithm stay those of the limit, so that counts survive other
// numbers as they survive a change of plan. An error of compute is the call's, an [ErrUnavailable], whatever onfail says; rules that are not valid for the limit
// are an [ErrMisconfigured]; a shadow does not apply to a call of which either is so. Limits that share a bucket are to have the same. The default is the rules of the policies. A concurrency and a lock
// have none.
func WithRules(compute RulesFunc) Option {
	return optionFunc(func(l *Limiter) { l.computes = compute })
}

// contract is a limit with rules that were computed for a caller.
type contract struct {
	*rules.Limit
	most int64
}

// maxContracts is how many contracts of one limit are known to be valid.
const maxContracts = 64

// contracts are those of one limit that were asked for lately. The zero contracts are none.
type contracts struct{ known atomic.Pointer[[]contract] }

// compute returns limit i with the rules that it has for a caller.
func (g *Guard) compute(ctx context.Context, i int) (contract, error) {
	l := &g.limits[i]
	computed, err := g.limiter.computes(ctx, g.policy, i)
	switch {
	case err != nil:
		return contract{}, g.fail(i, ErrUnavailable, err)
	case computed == nil:
		return contract{l.Limit, l.most}, nil
	}
	if known := l.computed.known.Load(); known != nil {
		for _, k := range *known {
			if slices.Equal(k.Rules, computed) {
				return k, nil
			}
		}
	}
	limit, err := l.WithRules(slices.Clone(computed))
	if err != nil {
		return contract{}, g.fail(i, ErrMisconfigured, err)
	}
	k := contract{limit, smallest(limit)}
	l.computed.learn(k)
	return k, nil
}

// learn adds a contract, and forgets the others where they are many. Of two that are learnt at once, one may be lost.
func (c *contracts) learn(k contract) {
	list := []contract{k}
	if known := c.known.Load(); known != nil && len(*known) < maxContracts {
		list = append(list, *known...)
	}
	c.known.Store(&list)
}

// shareOf returns the share of now of the limit, as of has it: its rules may be computed.
func (a *alone) shareOf(of *rules.Limit) *share {
	s := a.share()
	if of == a.whole {
		return s
	}
	s = &share{Limit: shareOf(of, s.instances), instances: s.instances}
	s.most = smallest(&s.Limit)
	return s
}
