package redislock

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/internal/rediscall"
	"github.com/rlgen/rlgen/ratelimit/lock"
	"github.com/rlgen/rlgen/ratelimit/store"
)

// inbox is the channel on which a store hears that it may be one of its waiters' turn: one for all names. It is listened to
// from the first waiting on.
type inbox struct {
	channel string
	life    context.Context // until it is closed
	end     context.CancelFunc

	mu        sync.Mutex
	opening   *opening // by the first waiter; nil before, and where that was refused
	pubsub    *redis.PubSub
	listening sync.WaitGroup
	closed    bool
	waiters   map[string]*waiter
	joined    int64
}

// opening is how the listening begins, which may take as long as a new connection does. err is valid once done is closed.
type opening struct {
	began time.Time
	done  chan struct{}
	err   error
}

// waiter is one who waits.
type waiter struct {
	woken  chan struct{} // receives when it may be his turn
	stands bool          // a server may have been asked to put him in a queue
}

func (b *inbox) init(prefix string) {
	b.channel = prefix + ":wake:" + strconv.FormatUint(rand.Uint64(), 36) + strconv.FormatUint(rand.Uint64(), 36)
	b.life, b.end = context.WithCancel(context.Background())
	b.waiters = map[string]*waiter{}
}

// Join returns a new waiter. The first one has a connection of its own to Redis opened, which [Store.Close] closes. Until it is there, for which nobody waits beyond the
// budget, and where that fails, waiters ask now and then.
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

// open has somebody listen, if nobody does yet, and waits for that as long as the budget is since it began. An error says that Redis refuses it.
func (b *inbox) open(ctx context.Context, s *Store) error {
	o, err := b.begin(s)
	if err != nil {
		return err
	}
	timer := time.NewTimer(s.budget - time.Since(o.began))
	defer timer.Stop()
	select {
	case <-o.done:
		return o.err
	case <-ctx.Done():
	case <-timer.C:
	}
	return nil
}

// begin returns the opening, which it begins where nobody has.
func (b *inbox) begin(s *Store) (*opening, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, rediscall.Fail("redislock", store.Misconfigured, errors.New("the store is closed"), "close it after the last Lock")
	}
	if b.opening == nil {
		o := &opening{began: time.Now(), done: make(chan struct{})}
		b.opening = o
		b.listening.Go(func() {
			defer close(o.done)
			if o.err = b.listen(s); o.err != nil {
				b.mu.Lock()
				defer b.mu.Unlock()
				b.opening = nil // the next one may
			}
		})
	}
	return b.opening, nil
}

// listen subscribes to the channel, and wakes who is called on it.
func (b *inbox) listen(s *Store) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = rediscall.Fail("redislock", store.Misconfigured, fmt.Errorf("the client panics: %v", p), "mend the Redis client's hooks and dialer")
		}
	}()
	pubsub := s.client.Subscribe(b.life, b.channel)
	if _, err := pubsub.ReceiveTimeout(b.life, s.budget); err != nil && rediscall.Refused(err) {
		pubsub.Close()
		return rediscall.Fail("redislock", store.Misconfigured, err, "give the Redis user the permissions that the documentation of the package lists")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return pubsub.Close()
	}
	b.pubsub = pubsub
	messages := pubsub.ChannelWithSubscriptions()
	b.listening.Go(func() {
		for m := range messages {
			b.hear(m)
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

// leave takes note that a server has put a waiter out of its queue, or of none.
func (b *inbox) leave(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if w := b.waiters[id]; w != nil {
		w.stands = false
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

// hear wakes who is called, and everybody where the listening begins anew: what was said before is lost.
func (b *inbox) hear(m any) {
	switch m := m.(type) {
	case *redis.Message:
		id, _, _ := strings.Cut(m.Payload, "/")
		b.wake(id)
	case *redis.Subscription:
		for _, id := range b.all() {
			b.wake(id)
		}
	}
}

// all are those who wait.
func (b *inbox) all() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Collect(maps.Keys(b.waiters))
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
	b.end()
	var err error
	if pubsub != nil {
		err = pubsub.Close()
	}
	b.listening.Wait()
	return err
}
