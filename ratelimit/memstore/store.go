package memstore

import (
	"context"
	"fmt"
	"hash/maphash"
	"math"
	"slices"
	"time"

	"github.com/rlgen/rlgen/ratelimit/store"
)

// Store is a [store.Store] inside the process. It is safe for concurrent use, starts no goroutine and needs no
// closing. The zero Store is not valid; [New] makes one.
type Store struct {
	clock  clock
	most   int // keys of one shard
	seed   maphash.Seed
	shards [shardCount]shard
}

// Option configures a [Store].
type Option interface{ apply(*Store) }

type optionFunc func(*Store)

func (f optionFunc) apply(s *Store) { f(s) }

// WithClock makes the store read the time from clock, which may be called concurrently. The default is the
// process's monotonic clock, which no change of the system's time disturbs.
func WithClock(clock func() time.Time) Option {
	return optionFunc(func(s *Store) { s.clock.read = clock })
}

// DefaultMaxKeys is how many keys a store holds at most unless [WithMaxKeys] says otherwise.
const DefaultMaxKeys = 1 << 20

// WithMaxKeys sets how many keys the store holds at most, 64 or more; the default is [DefaultMaxKeys]. A new key beyond that takes the
// place of one that is about to expire, whose id then has its whole count again: raise it where more ids than that call
// within the longest window.
//
// The store also keeps bans, and denials that may lead to bans, for at most n other keys. Beyond
// that, a new denial takes the place of other denials, never that of a ban. Denials of new ids are
// not counted while there is no room for them.
//
// Memory grows with the keys that are there, by doubling: while one of the store's 64 parts copies its keys, calls of that part wait, for less than
// 1 ms at the default, and in proportion to n: for some 95 ms where n is 16 million.
func WithMaxKeys(n int) Option {
	return optionFunc(func(s *Store) { s.most = max(1, n/shardCount) })
}

// New returns an empty store.
func New(opts ...Option) *Store {
	s := &Store{clock: monotonic(), most: DefaultMaxKeys / shardCount, seed: maphash.MakeSeed()}
	for _, o := range opts {
		o.apply(s)
	}
	return s
}

// Take decides one call. It never waits, and fails only if ctx is done or a request is not valid. Where out has been an answer before
// and all keys are known, it allocates nothing.
func (s *Store) Take(ctx context.Context, requests []store.Request, detail bool, out *store.Outcome) error {
	if ctx.Err() != nil {
		return store.Ended(ctx)
	}
	if !one(requests, detail) {
		return s.takeSeveral(requests, detail, out)
	}
	req := &requests[0]
	hash := maphash.String(s.seed, req.Key)
	index := int(hash % shardCount)
	sh, steps := &s.shards[index], stepsOf(req)
	sh.mu.Lock()
	now := s.clock.now()
	if steps == bucketSteps && sh.takeBucket(now, hash, index, requests, out) {
		sh.mu.Unlock()
		return nil
	}
	p := place{req: req, hash: hash, shard: sh, index: index, steps: steps}
	err := p.take(now, s.most, requests, out)
	sh.mu.Unlock()
	return err
}

// takeSeveral is Take for calls of several requests, or with what few have.
func (s *Store) takeSeveral(requests []store.Request, detail bool, out *store.Outcome) error {
	var room [few]place
	c := s.call(requests, room[:0])
	if err := c.validate(requests); err != nil {
		return misconfigured(err)
	}
	c.lock()
	c.decide(s.clock.now(), detail, s.most, out)
	c.unlock()
	if out.Allowed {
		out.Receipt.Requests = requests
	}
	return nil
}

// GiveBack returns what receipt charged. It never fails.
func (s *Store) GiveBack(_ context.Context, receipt store.Receipt) error {
	var room [few]place
	c := s.call(receipt.Requests, room[:0])
	c.lock()
	c.giveBack(s.clock.now(), receipt)
	c.unlock()
	return nil
}

// Reset forgets what the keys of requests have counted. It fails only if ctx is done or a request is not valid.
func (s *Store) Reset(ctx context.Context, requests []store.Request) error {
	if err := store.Ended(ctx); err != nil {
		return err
	}
	var room [few]place
	c := s.call(requests, room[:0])
	if err := c.validate(requests); err != nil {
		return misconfigured(err)
	}
	c.lock()
	c.reset()
	c.unlock()
	return nil
}

// Grant gives the costs of requests back. It fails only if ctx is done or a request is not valid.
func (s *Store) Grant(ctx context.Context, requests []store.Request) error {
	if err := store.Ended(ctx); err != nil {
		return err
	}
	if err := store.ValidateGrant(requests); err != nil {
		return misconfigured(err)
	}
	var room [few]place
	c := s.call(requests, room[:0])
	if err := c.validate(requests); err != nil {
		return misconfigured(err)
	}
	c.lock()
	c.grant(s.clock.now())
	c.unlock()
	return nil
}

// Peek says what Take would answer. It fails only if ctx is done or a request is not valid.
func (s *Store) Peek(ctx context.Context, requests []store.Request, out *store.Outcome) error {
	if err := store.Ended(ctx); err != nil {
		return err
	}
	var room [few]place
	c := s.call(requests, room[:0])
	if err := c.validate(requests); err != nil {
		return misconfigured(err)
	}
	c.lock()
	c.peek(s.clock.now(), out)
	c.unlock()
	return nil
}

// Ban closes the keys of requests for d, or lifts their bans. It fails only if ctx is done or a request is not valid.
func (s *Store) Ban(ctx context.Context, requests []store.Request, d time.Duration) error {
	if err := store.Ended(ctx); err != nil {
		return err
	}
	if err := store.ValidateBan(requests, d); err != nil {
		return misconfigured(err)
	}
	var room [few]place
	c := s.call(requests, room[:0])
	c.lock()
	defer c.unlock()
	now := s.clock.now()
	for i := range c {
		if key := c[i].req.Key; d > 0 {
			c[i].shard.open(now, key, math.MaxInt).close(now, d) // what an operator asks for has room
		} else {
			delete(c[i].shard.doors, key)
		}
	}
	return nil
}

func (c call) validate(requests []store.Request) error {
	for i := range c {
		if c[i].steps == nil {
			return unknown(requests, i)
		}
	}
	return store.Validate(requests)
}

// unknown says that the store does not have the algorithm of request i.
func unknown(requests []store.Request, i int) error {
	return fmt.Errorf("limit %d of the call: algorithm %v, want one that the store has", i+1, requests[i].Algorithm)
}

func misconfigured(err error) error { return &store.Error{Class: store.Misconfigured, Err: err} }

// call finds the places of the requests' keys, and keeps them in room if they fit.
func (s *Store) call(requests []store.Request, room call) call {
	c := slices.Grow(room, len(requests))[:len(requests)]
	for i := range requests {
		c[i].locate(s, &requests[i])
	}
	return c
}

// Len is the number of keys that the store holds, expired ones that it has not dropped yet included.
func (s *Store) Len() int {
	n := 0
	for i := range s.shards {
		s.shards[i].mu.Lock()
		n += s.shards[i].len()
		s.shards[i].mu.Unlock()
	}
	return n
}
