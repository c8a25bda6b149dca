package redisstore

import (
	"context"

	"github.com/rlgen/rlgen/ratelimit/internal/rediscall"
	"github.com/rlgen/rlgen/ratelimit/store"
)

var _ store.Breaker = (*Store)(nil)

// Resting says whether a server is given a rest, in which calls that need it fail at once.
func (s *Store) Resting() bool { return len(s.servers.Resting()) > 0 }

// server is the one that decides d, whose keys are of one group.
func (s *Store) server(d *decision) *rediscall.Server {
	key := ""
	if len(d.requests) > 0 {
		key = d.requests[0].Key
	}
	return s.servers.Of(key)
}

// permit lets the flights of one call ask their servers, or fails where one of them is at rest: then none is asked. Those that ask the same
// server have one pass, which the first of them to end reports.
func permit(flights []*flight) error {
	for i, f := range flights {
		if f.pass = passOf(f.server, flights[:i]); f.pass != nil {
			continue
		}
		pass, err := f.server.Permit()
		if err != nil {
			for _, earlier := range flights[:i] {
				earlier.pass.Report(context.Canceled)
			}
			return err
		}
		f.pass = &pass
	}
	return nil
}

// passOf returns the pass that one of the flights has for a server, nil if none has.
func passOf(server *rediscall.Server, flights []*flight) *rediscall.Pass {
	for _, f := range flights {
		if f.server == server {
			return f.pass
		}
	}
	return nil
}
