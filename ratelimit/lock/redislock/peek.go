package redislock

import (
	"context"
	_ "embed"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/internal/rediscall"
	"github.com/rlgen/rlgen/ratelimit/lock"
	"github.com/rlgen/rlgen/ratelimit/store"
)

//go:embed peek.lua
var peekLua string

var peekScript = redis.NewScript(peekLua)

var _ lock.Peeker = (*Store)(nil)

// Peek says who holds the name of c. It returns within the budget, or within the timeouts of a client that heeds no context.
func (s *Store) Peek(ctx context.Context, c lock.Claim) (lock.Standing, error) {
	limited, cancel := context.WithTimeout(ctx, s.budget)
	defer cancel()
	k := s.keys(&c)
	keys := []string{k.held.(string), k.queue.(string)}
	if c.Limit == 0 {
		keys = append(keys, k.token.(string))
	}
	reply, err := peekScript.Run(limited, s.client, keys, lock.MaxLeases).Slice()
	switch ended := store.Ended(ctx); {
	case ended != nil:
		return lock.Standing{}, ended
	case err != nil:
		return lock.Standing{}, rediscall.Explain("redislock", err)
	}
	standing, ok := readStanding(c, reply)
	if !ok {
		return lock.Standing{}, rediscall.Fail("redislock", store.Misconfigured, errors.New("the reply is not one of the script's"), "nothing between client and server may change replies")
	}
	standing.Waiting += lock.Behind(s, c)
	return standing, nil
}

// readStanding reads the reply of peek.lua.
func readStanding(c lock.Claim, reply []any) (s lock.Standing, ok bool) {
	if len(reply) < 3 || len(reply)%2 == 0 {
		return s, false
	}
	waiting, ok1 := reply[0].(int64)
	units, ok2 := reply[1].(int64)
	token, ok3 := reply[2].(string)
	s.Waiting, s.Cost = waiting, units
	if c.Limit == 0 {
		s.Cost = min(1, units)
		s.Token, _ = strconv.ParseInt(token, 10, 64)
	}
	for i := 3; i < len(reply); i += 2 {
		id, isText := reply[i].(string)
		left, isNumber := reply[i+1].(string)
		micros, err := strconv.ParseInt(left, 10, 64)
		if !isText || !isNumber || err != nil {
			return s, false
		}
		s.Leases = addUnit(s.Leases, c, id, time.Duration(micros)*time.Microsecond)
	}
	return s, ok1 && ok2 && ok3
}

// addUnit adds a hold of a lock, or a unit of a semaphore, which is named after its hold and its number in it.
func addUnit(leases []lock.Lease, c lock.Claim, id string, left time.Duration) []lock.Lease {
	if c.Limit > 0 {
		id = id[:max(0, strings.LastIndexByte(id, ':'))]
		if i := slices.IndexFunc(leases, func(l lock.Lease) bool { return l.ID == id }); i >= 0 {
			leases[i].Cost++
			return leases
		}
	}
	return append(leases, lock.Lease{ID: id, Cost: 1, Left: left})
}

// Keys are the hash or the set of what is held, the queue, and of a lock the last token.
func (s *Store) Keys(c lock.Claim) []string {
	k := s.keys(&c)
	keys := []string{k.held.(string), k.queue.(string)}
	if c.Limit == 0 {
		keys = append(keys, k.token.(string))
	}
	return keys
}
