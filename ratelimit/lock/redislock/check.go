package redislock

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rlgen/rlgen/ratelimit/internal/rediscall"
	"github.com/rlgen/rlgen/ratelimit/lock"
	"github.com/rlgen/rlgen/ratelimit/store"
)

//go:embed check.lua
var checkLua string

var _ lock.Checker = (*Store)(nil)

// checkTime is how long a check may last, if a call may not last longer, where its context does not end it before.
const checkTime = 2 * time.Second

// patience is how long a check of the store may last.
func (s *Store) patience() time.Duration { return max(checkTime, s.budget) }

// checkLease is the lease of what a check holds.
const checkLease = time.Second

// Check finds out, before anybody depends on it, what would make claims fail: permissions that the Redis user lacks,
// keys that another program uses, scripts that the server refuses. It takes and lets go of a lock and a permit under names of its own, and
// of claims it only asks. It lasts two seconds at most, or the budget if that is longer. On a Redis Cluster it asks the servers of these names.
func (s *Store) Check(ctx context.Context, claims []lock.Claim) ([]store.Finding, error) {
	ctx, cancel := context.WithTimeout(ctx, s.patience())
	defer cancel()
	own := lock.Claim{Name: "check-" + s.inbox.channel, ID: "a:0", Lease: checkLease, Cost: 1}
	if err := s.permitted(ctx, own); err != nil {
		return nil, err
	}
	for own.Limit = 0; own.Limit < 2; own.Limit++ {
		if err := s.rehearse(ctx, own); err != nil {
			return nil, err
		}
	}
	for _, c := range claims {
		c.ID, c.Lease = own.ID, 0
		if _, err := s.Renew(ctx, c); err != nil {
			return nil, at(fmt.Sprint(s.keys(&c).held), err)
		}
	}
	return nil, nil
}

// at is a store's error with the key that it is about.
func at(key string, err error) error {
	var failed *store.Error
	if errors.As(err, &failed) {
		return &store.Error{Class: failed.Class, Err: fmt.Errorf("key %s: %w", key, failed.Err)}
	}
	return err
}

// keyCommands are what scripts and releases do to a key, which is to stand for KEY.
var keyCommands = strings.Split("exists KEY,incr KEY,set KEY a,hset KEY a b,get KEY,hdel KEY a,hexists KEY a,hkeys KEY,pexpire KEY 1,pttl KEY,"+
	"zadd KEY 1 a,zrem KEY a,zrange KEY 0 1,zrangebyscore KEY 0 1,zremrangebyscore KEY 0 1,zscore KEY a,zcount KEY 0 1,"+
	"eval a 1 KEY,evalsha a 1 KEY", ",")

// otherCommands are those of no key, where CHANNEL stands for a channel.
var otherCommands = strings.Split("publish CHANNEL a,subscribe CHANNEL,time", ",")

// permitted asks whether the user may send what the store does, and what its scripts do.
func (s *Store) permitted(ctx context.Context, c lock.Claim) error {
	key := fmt.Sprint(s.keys(&c).held)
	fill := strings.NewReplacer("KEY", key, "CHANNEL", s.inbox.channel)
	words := []any{nil, nil, 0}
	for _, command := range keyCommands {
		words = append(words, fill.Replace(command))
	}
	for _, command := range otherCommands {
		words = append(words, fill.Replace(command))
	}
	lacks, err := s.launchFor(ctx, s.patience(), rediscall.NewScript(checkLua), words).wait(ctx)
	if err != nil || len(lacks) == 0 {
		return err
	}
	what, mend := s.grant(lacks)
	return rediscall.Fail("redislock", store.Misconfigured, errors.New("the Redis user has no permission for "+what), "ACL SETUSER … "+mend)
}

// grant says of the numbers of commands what they are, and what permits them.
func (s *Store) grant(lacks []int64) (what, mend string) {
	var names []string
	onKeys, onChannels := 0, 0
	for _, n := range lacks {
		if int(n) <= len(keyCommands) {
			onKeys++
		} else if strings.Contains(otherCommands[int(n)-1-len(keyCommands)], "CHANNEL") {
			onChannels++
		}
		name, _, _ := strings.Cut(append(keyCommands[:len(keyCommands):len(keyCommands)], otherCommands...)[n-1], " ")
		names = append(names, "+"+name)
	}
	if onKeys == len(keyCommands) {
		return fmt.Sprintf("keys of the prefix %q", s.prefix), "~" + s.prefix + ":*"
	}
	what = strings.Join(names, " ")
	if onChannels > 0 {
		return what + fmt.Sprintf(" or channels of the prefix %q", s.prefix), what + " &" + s.prefix + ":*"
	}
	return what, what
}

// rehearse has c held, waited for and handed over.
func (s *Store) rehearse(ctx context.Context, c lock.Claim) error {
	next := c
	next.ID, next.Waiter = "b:0", s.inbox.channel+":0"
	steps := []func() error{
		func() error { _, err := s.Acquire(ctx, c); return err },
		func() error { _, err := s.Acquire(ctx, next); return err },
		func() error { _, err := s.Renew(ctx, c); return err },
		func() error { _, err := s.Release(ctx, c); return err },
		func() error { _, err := s.Acquire(ctx, next); return err },
		func() error { _, err := s.Release(ctx, next); return err },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}
