package redislock

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/internal/rediscall"
	"github.com/rlgen/rlgen/ratelimit/lock"
)

// leavers are claims that are released behind their callers' backs. However many leave together, each server is asked to release but a few at once, those of
// one name by one script, so that they leave the client's connections to others. The zero leavers has none. It is safe for concurrent use.
type leavers struct {
	mu sync.Mutex
	of map[*rediscall.Server]*leaving
}

// leaving are the leavers of one server, in the order in which they came.
type leaving struct {
	claims  []leaver
	workers int
}

// leaver is a claim, and until when its release is tried.
type leaver struct {
	lock.Claim
	until time.Time
}

// most is how many claims one script releases.
const most = 100

// leave releases c, and leaves the queue that it stands in, unless that takes longer than life.
func (s *Store) leave(c lock.Claim, life time.Duration) {
	s.enlist(s.server(s.keys(&c)), leaver{c, time.Now().Add(life)})
}

func (s *Store) enlist(server *rediscall.Server, l leaver) {
	if s.leavers.add(server, l) {
		s.behind.Go(func() { s.see(server) })
	}
}

// see sees a server's leavers off, until there are none.
func (s *Store) see(server *rediscall.Server) {
	for {
		together := s.leavers.next(server)
		if together == nil {
			return
		}
		if !s.seeOff(server, together) {
			for _, l := range together {
				s.enlist(server, l)
			}
		}
	}
}

// seeOff releases claims of one name, and reports whether that is to be left at that: not where a later try may be answered.
func (s *Store) seeOff(server *rediscall.Server, together []leaver) bool {
	claims := make([]lock.Claim, len(together))
	for i, l := range together {
		claims[i] = l.Claim
	}
	latest := slices.MaxFunc(together, func(a, b leaver) int { return a.until.Compare(b.until) })
	ctx, cancel := context.WithDeadline(context.Background(), latest.until)
	defer cancel()
	urgent := true
	place, err := server.Enter(ctx, settleTimeout, &urgent, nil)
	if err != nil {
		return true
	}
	f := s.launchFor(ctx, s.budget, s.scriptsOf(&claims[0]).release, s.releaseWords(claims[0], claims[1:]...))
	_, err = f.wait(ctx)
	s.vacate(place, f)
	return err == nil || !mayPass(err) || errors.Is(err, redis.ErrClosed)
}

// add adds l to those of a server, and reports whether one more is to see them off.
func (ls *leavers) add(server *rediscall.Server, l leaver) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.of == nil {
		ls.of = map[*rediscall.Server]*leaving{}
	}
	those := ls.of[server]
	if those == nil {
		those = &leaving{}
		ls.of[server] = those
	}
	those.claims = append(those.claims, l)
	if those.workers == server.Few() {
		return false
	}
	those.workers++
	return true
}

// next takes the first of a server's leavers for whom it is not too late, and those of the same name. Where there are none, whoever asks is not to ask again.
func (ls *leavers) next(server *rediscall.Server) (together []leaver) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	those, now := ls.of[server], time.Now()
	those.claims = slices.DeleteFunc(those.claims, func(l leaver) bool {
		if l.until.Before(now) {
			return true
		}
		takes := len(together) == 0 || len(together) < most && together[0].with(l.Claim)
		if takes {
			together = append(together, l)
		}
		return takes
	})
	if together == nil {
		if those.workers--; those.workers == 0 {
			delete(ls.of, server)
		}
	}
	return together
}

// with says whether a script can release both.
func (l leaver) with(c lock.Claim) bool {
	return l.Name == c.Name && (l.Limit == 0) == (c.Limit == 0)
}
