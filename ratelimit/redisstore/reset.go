package redisstore

import (
	"context"

	"github.com/rlgen/rlgen/ratelimit/store"
)

// Reset forgets what the keys of requests have counted. It is sent again while it is not known whether the server has done it, as far as
// the budget and ctx permit, and fails at once where a server is at rest. Keys that lie in several places are
// reset one after the other.
func (s *Store) Reset(ctx context.Context, requests []store.Request) error {
	if err := validate(requests); err != nil {
		return misconfigured(err)
	}
	return s.all(ctx, decision{op: reset, requests: requests})
}

// all does d, which may be repeated, in every group of its keys, and returns the first error.
func (s *Store) all(ctx context.Context, d decision) error {
	return s.each(ctx, d, true, func(group, verdict) {})
}

// each does d in one group of its keys after the other, until one fails, and hands on what each says.
func (s *Store) each(ctx context.Context, d decision, mayRepeat bool, said func(group, verdict)) error {
	if ctx.Err() != nil {
		return expired(ctx, false)
	}
	limited, cancel := s.within(ctx)
	defer cancel()
	for _, g := range s.groups(d.requests) {
		f := s.flight(batch{d.part(g)}, mayRepeat)
		s.launchUnlessResting(limited, f)
		v, err := f.wait(ctx, limited)
		if err != nil {
			return err
		}
		said(g, v)
	}
	return nil
}
