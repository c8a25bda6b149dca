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
	waiters   map[string]chan struct{}
	joined    int64
}

func (b *inbox) init(prefix string) {
	b.channel = prefix + ":wake:" + strconv.FormatUint(rand.Uint64(), 36) + strconv.FormatUint(rand.Uint64(), 36)
	b.waiters = map[string]chan struct{}{}
}

// Join returns a new waiter. The first one opens a connection of its own to Redis, which [Store.Close] closes. Where that fails,
// waiters ask now and then.
func (s *Store) Join(ctx context.Context) (lock.Waiter, error) {
	if err := s.inbox.open(ctx, s); err != nil {
		return lock.Waiter{}, err
	}
	id, woken := s.inbox.join()
	return lock.Waiter{ID: id, Woken: woken, Close: func(c lock.Claim, met bool) {
		s.inbox.part(id)
		if !met {
			s.behind.Go(func() { s.release(context.Background(), c) })
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
	b.waiters[id] = woken
	return id, woken
}

func (b *inbox) part(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.waiters, id)
}

// woken is what tells a waiter that it may be its turn; nil for nobody.
func (b *inbox) woken(id string) chan struct{} {
	if id == "" {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.waiters[id]
}

func (b *inbox) wake(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case b.waiters[id] <- struct{}{}:
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
