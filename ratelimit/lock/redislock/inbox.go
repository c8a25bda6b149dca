package redislock

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/internal/rediscall"
	"github.com/rlgen/rlgen/ratelimit/lock"
	"github.com/rlgen/rlgen/ratelimit/store"
)

// inbox is the channel on which a store hears that it may be one of its waiters' turn: one for all names. It is listened to
// from the first waiting on.
type inbox struct {
	channel string

	opening sync.Mutex // held while the first waiter opens it

	mu        sync.Mutex
	pubsub    *redis.PubSub
	listening sync.WaitGroup
	closed    bool
	waiters   map[string]*waiter
	joined    int64
}

// waiter is one who waits.
type waiter struct {
	woken  chan struct{} // receives when it may be his turn
	stands bool          // a server may have been asked to put him in a queue
}

func (b *inbox) init(prefix string) {
	b.channel = prefix + ":wake:" + strconv.FormatUint(rand.Uint64(), 36) + strconv.FormatUint(rand.Uint64(), 36)
	b.waiters = map[string]*waiter{}
}

// Join returns a new waiter. The first one opens a connection of its own to Redis, which [Store.Close] closes. Where that fails,
// waiters ask now and then.
func (s *Store) Join(ctx context.Context) (lock.Waiter, error) {
	if err := s.inbox.open(ctx, s); err != nil {
		return lock.Waiter{}, err
	}
	id, woken := s.inbox.join()
	return lock.Waiter{ID: id, Woken: woken, Close: func(c lock.Claim, met bool) {
		if stood := s.inbox.part(id); stood && !met {
			s.leave(c, lock.WaiterLife)
		}
	}}, nil
}

// open listens, if nobody does yet.
func (b *inbox) open(ctx context.Context, s *Store) error {
	b.opening.Lock()
	defer b.opening.Unlock()
	b.mu.Lock()
	open, closed := b.pubsub != nil, b.closed
	b.mu.Unlock()
	if closed {
		return rediscall.Fail("redislock", store.Misconfigured, errors.New("the store is closed"), "close it after the last Lock")
	}
	if open {
		return nil
	}
	pubsub := s.client.Subscribe(context.WithoutCancel(ctx), b.channel)
	if _, err := pubsub.ReceiveTimeout(ctx, s.budget); err != nil && rediscall.Refused(err) {
		pubsub.Close()
		return rediscall.Fail("redislock", store.Misconfigured, err, "give the Redis user the permissions that the documentation of the package lists")
	}
	return b.listen(pubsub)
}

func (b *inbox) listen(pubsub *redis.PubSub) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return pubsub.Close()
	}
	b.pubsub = pubsub
	messages := pubsub.Channel()
	b.listening.Go(func() {
		for m := range messages {
			b.wake(m.Payload)
		}
	})
	return nil
}

func (b *inbox) join() (string, chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.joined++
	id, woken := b.channel+":"+strconv.FormatInt(b.joined, 10), make(chan struct{}, 1)
	b.waiters[id] = &waiter{woken: woken}
	return id, woken
}

// part ends a waiter, and reports whether he may stand in a queue.
func (b *inbox) part(id string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	w := b.waiters[id]
	delete(b.waiters, id)
	return w != nil && w.stands
}

// stand takes note that a server is asked to put a waiter in a queue; an empty id is nobody's.
func (b *inbox) stand(id string) {
	if id == "" {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if w := b.waiters[id]; w != nil {
		w.stands = true
	}
}

// woken is what tells a waiter that it may be its turn; nil for nobody.
func (b *inbox) woken(id string) chan struct{} {
	if id == "" {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if w := b.waiters[id]; w != nil {
		return w.woken
	}
	return nil
}

func (b *inbox) wake(id string) {
	select {
	case b.woken(id) <- struct{}{}:
	default:
	}
}

func (b *inbox) close() error {
	b.mu.Lock()
	pubsub := b.pubsub
	b.closed, b.pubsub = true, nil
	b.mu.Unlock()
	if pubsub == nil {
		return nil
	}
	err := pubsub.Close()
	b.listening.Wait()
	return err
}
