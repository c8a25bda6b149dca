// Package denycache answers calls from memory which a store has just denied, for as long as it would deny them again.
//
// What a store denies with a retry-after it denies until then, to every caller who asks as much or more: those who are denied charge nothing.
// So a caller who hammers at an empty limit need not reach the store. An answer from memory is "denied" or there is none; its retry-after is what
// is left of the store's, counted from before the store was asked, and hence never later than the store's would be.
//
// Where a caller wants to know what remains, the answer is what the store has said, for every limit of the call, the ones with room, too. While a limit denies a single permit
// nobody can charge it, so what its rules say remains is no more than what does: time only adds to it. Of a limit that others may charge meanwhile it is what
// remained when the store was asked, less what this process has charged since; what others have charged in that time, at most [MaxAge], nobody here knows.
//
// The store may have changed its mind meanwhile where somebody else has given permits back, has reset the key or has other rules for it, where its data was
// lost, or where its clock was set forward. A denial is remembered for [MaxAge] at most for that.
package denycache

import (
	"context"
	"hash/maphash"
	"time"

	"github.com/rlgen/rlgen/ratelimit/store"
)

// MaxAge is for how long a denial is remembered at most, and what the store has said beside it.
const MaxAge = time.Second

// MaxKeys is how many keys a store remembers at most. One more takes the place of another.
const MaxKeys = setCount * ways

// few is how many limits a call has at most that is answered or remembered.
const few = 4

// Store is a [store.Store] before another one. It is safe for concurrent use. The zero Store is not valid; [New] makes one.
type Store struct {
	next store.Store
	now  func() time.Duration
	seed maphash.Seed
	sets [setCount]set
}

// New returns a store that asks next what it does not remember. now is the time since an instant of the caller's choice, by a clock that is never set;
// nil for the process's monotonic clock.
func New(next store.Store, now func() time.Duration) *Store {
	if now == nil {
		began := time.Now()
		now = func() time.Duration { return time.Since(began) }
	}
	return &Store{next: next, now: now, seed: maphash.MakeSeed()}
}

// Take answers a call that is denied by what is remembered, without allocating, and asks the next store else.
//
// The rules of a remembered denial say what is left of their retry-after. With detail, a call is answered only if something is remembered of each of its limits; without, those
// of which nothing is are zero.
func (s *Store) Take(ctx context.Context, requests []store.Request, detail bool, out *store.Outcome) error {
	if len(requests) > few || ctx.Err() != nil {
		return s.ask(ctx, requests, detail, out)
	}
	sent := s.now()
	var room [few]place
	c := s.look(requests, sent, room[:0])
	if c.denies(detail) && store.Validate(requests) == nil {
		c.answer(sent, out)
		return nil
	}
	err := s.ask(ctx, requests, detail, out)
	if err == nil && !out.Allowed {
		c.remember(sent, detail, out.Rules)
	}
	return err
}

// ask asks the next store, and takes note of what that has charged, or may have.
func (s *Store) ask(ctx context.Context, requests []store.Request, detail bool, out *store.Outcome) error {
	err := s.next.Take(ctx, requests, detail, out)
	if err == nil && !out.Allowed {
		return nil
	}
	for i := range requests {
		s.setOf(s.hash(requests[i].Key)).charged.Add(requests[i].Cost)
	}
	return err
}

// GiveBack lets the next store give back, and forgets what it has denied under the receipt's keys: before, so that calls are decided by the store meanwhile, and
// after, as some of those may have been denied that it decided before.
func (s *Store) GiveBack(ctx context.Context, receipt store.Receipt) error {
	s.forget(receipt.Requests)
	defer s.forget(receipt.Requests)
	return s.next.GiveBack(ctx, receipt)
}

// Reset lets the next store reset, and forgets what it has denied under the keys, before and after.
func (s *Store) Reset(ctx context.Context, requests []store.Request) error {
	s.forget(requests)
	defer s.forget(requests)
	return s.next.Reset(ctx, requests)
}

// Grant lets the next store grant, and forgets what it has denied under the keys, before and after.
func (s *Store) Grant(ctx context.Context, requests []store.Request) error {
	s.forget(requests)
	defer s.forget(requests)
	return s.next.Grant(ctx, requests)
}

// Peek asks the next store, whatever is remembered.
func (s *Store) Peek(ctx context.Context, requests []store.Request, out *store.Outcome) error {
	return s.next.Peek(ctx, requests, out)
}

// Ban lets the next store ban, and forgets what it has denied under the keys, before and after.
func (s *Store) Ban(ctx context.Context, requests []store.Request, d time.Duration) error {
	s.forget(requests)
	defer s.forget(requests)
	return s.next.Ban(ctx, requests, d)
}

func (s *Store) forget(requests []store.Request) {
	for i := range requests {
		s.setOf(s.hash(requests[i].Key)).forget()
	}
}

func (s *Store) hash(key string) uint64 { return maphash.String(s.seed, key) }

func (s *Store) setOf(hash uint64) *set { return &s.sets[hash%setCount] }

// look finds what is remembered of requests at now.
func (s *Store) look(requests []store.Request, now time.Duration, room call) call {
	for i := range requests {
		req := &requests[i]
		p := place{req: req, hash: s.hash(req.Key)}
		p.set = s.setOf(p.hash)
		p.age, p.reserved, p.charged = p.set.age.Load(), p.set.reserved.Load(), p.set.charged.Load()
		if p.remembered() {
			p.find(now)
		}
		room = append(room, p)
	}
	return room
}
