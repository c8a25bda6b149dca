package redisstore

import (
	"context"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/internal/rediscall"
	"github.com/rlgen/rlgen/ratelimit/store"
)

var _ store.Breaker = (*Store)(nil)

// Resting returns the addresses of the servers that are given a rest, in which calls that need them fail at once, and of those which one call at a time
// asks since, until one of these is answered. That of a Cluster which has decided nothing yet is every address that its client was given.
func (s *Store) Resting() []string {
	names := s.servers.Resting()
	if i := slices.Index(names, ""); i >= 0 {
		names[i] = title(s.client)
	}
	return names
}

// title says where a client's servers are.
func title(client redis.UniversalClient) string {
	if c, ok := client.(*redis.Client); ok {
		if addr := c.Options().Addr; addr != failover {
			return addr
		}
		return "the master that the Sentinels name"
	}
	if c, ok := client.(*redis.ClusterClient); ok {
		return strings.Join(c.Options().Addrs, ", ")
	}
	return "Redis"
}

// failover is what a client has for an address whose master is found by Sentinels.
const failover = "FailoverClient"

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
