package redisstore

import (
	"context"

	"github.com/rlgen/rlgen/ratelimit/store"
)

// Peek says what Take would answer. It is sent again as [Store.Reset] is, and asks keys that lie in several places one after the other.
func (s *Store) Peek(ctx context.Context, requests []store.Request, out *store.Outcome) error {
	if err := validate(requests); err != nil {
		return misconfigured(err)
	}
	d := decision{op: peek, detail: true, requests: requests}
	answers := make([][]store.RuleOutcome, len(requests))
	if err := s.each(ctx, d, true, func(g group, v verdict) {
		rules := v.rules
		for _, i := range g {
			n := len(requests[i].Rules)
			answers[i], rules = rules[:n], rules[n:]
		}
	}); err != nil {
		return err
	}
	*out = store.Outcome{Allowed: true, Rules: out.Rules[:0]}
	for _, own := range answers {
		for _, r := range own {
			out.Allowed = out.Allowed && r.RetryAfter == 0
			out.Rules = append(out.Rules, r)
		}
	}
	return nil
}

// Grant gives the costs of requests back. It is sent again only where the server surely has not executed it. Keys that lie in several places are granted one after
// the other, and where one fails, those before it have been.
func (s *Store) Grant(ctx context.Context, requests []store.Request) error {
	if err := store.ValidateGrant(requests); err != nil {
		return misconfigured(err)
	}
	if err := validate(requests); err != nil {
		return misconfigured(err)
	}
	return s.each(ctx, decision{op: grant, requests: requests}, false, func(group, verdict) {})
}

// Keys are where the counts of a request are, and, where it has a ban, its denials and the ban.
func (s *Store) Keys(req *store.Request) []string {
	if req.Ban == 0 {
		return []string{req.Key}
	}
	return []string{req.Key, doorKey(req.Key)}
}
