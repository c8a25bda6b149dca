// Package prefetch takes permits of a store ahead, many at once, and lets calls pass by them without asking it.
//
// A batch is charged as if all of it were used at the last moment at which it may be, and nothing of it is used later. So the store's rules hold for
// the calls that pass, in every window, whoever else takes permits ahead: of those that are used within a window, the one that was charged last was charged while
// all the others counted. A batch is as large as what is used of it in half of the time for which it is good, and there is none of a key that
// is called seldom. What is left of it then goes back to the store.
//
// Nobody waits for a batch: a call for which there is no permit at hand asks the store, and so does each one once the store is gone and the batches have ended.
package prefetch

import (
	"context"
	"hash/maphash"
	"sync"
	"time"

	"github.com/rlgen/rlgen/ratelimit/store"
)

// Store is a [store.Store] before another one, which takes permits ahead of requests that say so: [store.Request.Prefetch]. It is safe for concurrent
// use. It has goroutines and timers while it has permits, and none a moment later. The zero Store is not valid; [New] makes one.
type Store struct {
	store.Store
	seed maphash.Seed
	sets [setCount]set

	mu     sync.Mutex
	kept   map[*batch]struct{} // what is to be given back
	closed bool
	busy   sync.WaitGroup // what runs beside the calls
}

// New returns a store that asks next.
func New(next store.Store) *Store {
	return &Store{Store: next, seed: maphash.MakeSeed(), kept: make(map[*batch]struct{})}
}

// Take lets a call pass by permits that are at hand, and asks the next store for what is not. Where that denies the call, the permits
// are there for the next one.
//
// Of rules whose permits were taken ahead, what remains is what did when they were taken, less what was used of them since; others may have used more.
func (s *Store) Take(ctx context.Context, requests []store.Request, detail bool, out *store.Outcome) error {
	if !prefetches(requests) {
		return s.ask(ctx, requests, detail, out)
	}
	if err := store.Ended(ctx); err != nil {
		return err
	}
	if len(requests) == 1 {
		return s.takeOne(ctx, requests, detail, out)
	}
	return s.takeSeveral(ctx, requests, detail, out)
}

func prefetches(requests []store.Request) bool {
	for i := range requests {
		if requests[i].Prefetch > 0 {
			return true
		}
	}
	return false
}

func (s *Store) takeOne(ctx context.Context, requests []store.Request, detail bool, out *store.Outcome) error {
	h := s.hold(&requests[0])
	if h.batch == nil {
		return s.ask(ctx, requests, detail, out)
	}
	*out = store.Outcome{
		Allowed: true, Ahead: 1, Rules: h.batch.describe(out.Rules[:0], detail),
		Receipt: store.Receipt{Requests: requests, ID: uint64(h.serial), From: h.batch},
	}
	return nil
}

// ask asks the next store alone.
func (s *Store) ask(ctx context.Context, requests []store.Request, detail bool, out *store.Outcome) error {
	err := s.Store.Take(ctx, requests, detail, out)
	out.Ahead = 0
	return err
}

// GiveBack returns what an allowed call was charged: of permits that were taken ahead, to the batch that they are of, while that is good, and to the
// next store afterwards.
func (s *Store) GiveBack(ctx context.Context, receipt store.Receipt) error {
	if receipt.From != nil {
		return receipt.From.GiveBack(ctx, receipt)
	}
	return s.Store.GiveBack(ctx, receipt)
}

// Reset lets the next store reset, and drops what was taken ahead of the keys, before and after. None of it is given back: the store has forgotten it.
func (s *Store) Reset(ctx context.Context, requests []store.Request) error {
	s.forget(requests)
	defer s.forget(requests)
	return s.Store.Reset(ctx, requests)
}

func (s *Store) forget(requests []store.Request) {
	for i := range requests {
		for _, p := range s.pools(requests[i].Key) {
			p.forget()
		}
	}
}

// Grant lets the next store grant. What was taken ahead of the keys is given back before: it is what was charged last.
func (s *Store) Grant(ctx context.Context, requests []store.Request) error {
	s.Empty(ctx, requests)
	return s.Store.Grant(ctx, requests)
}

// Empty gives back what was taken ahead of the keys of requests, as far as it is not used.
func (s *Store) Empty(ctx context.Context, requests []store.Request) {
	for i := range requests {
		for _, p := range s.pools(requests[i].Key) {
			p.empty(ctx)
		}
	}
}

// Close gives back what is left of all that was taken ahead, and returns once that is done, or ctx is. The store goes on, and takes nothing ahead from then
// on.
func (s *Store) Close(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, b := range s.close() {
			s.busy.Go(func() { b.settle(ctx) })
		}
		s.busy.Wait()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return store.Ended(ctx)
	}
}

// close makes that nothing is begun any more, and returns what is to be given back.
func (s *Store) close() []*batch {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	batches := make([]*batch, 0, len(s.kept))
	for b := range s.kept {
		batches = append(batches, b)
	}
	return batches
}

// keep makes that b is given back when its time is over, unless the store is closed.
func (s *Store) keep(b *batch, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	b.timer = time.AfterFunc(b.until.Sub(now), func() { s.begin(func() { b.settle(context.Background()) }) })
	s.kept[b] = struct{}{}
	return true
}

// unkeep forgets b, which is over.
func (s *Store) unkeep(b *batch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.kept[b]; ok {
		b.timer.Stop()
		delete(s.kept, b)
	}
}

// begin runs f beside the calls, unless the store is closed.
func (s *Store) begin(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.busy.Go(f)
	return true
}
