package lock

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/rlgen/rlgen/ratelimit/store"
)

// Memory is a [Store] inside the process: for tests, and for programs of one instance. It is safe for concurrent use, starts
// no goroutine and needs no closing. The zero Memory is not valid; [NewMemory] makes one.
type Memory struct {
	clock func() time.Duration

	mu      sync.Mutex
	places  map[placeKey]*place
	waiters map[string]chan struct{}
	tokens  int64 // of all locks
	joined  int64 // waiters that there ever were
}

type placeKey struct {
	name string
	lock bool
}

// place is who holds a name, and who waits for it.
type place struct {
	leases map[string]lease
	token  int64
	queue  []standing
}

// lease is one hold.
type lease struct {
	until time.Duration
	cost  int64
}

// standing is one waiter in a queue.
type standing struct {
	waiter string
	cost   int64         // that it waits for
	until  time.Duration // unless it asks again
}

// MemoryOption configures a [Memory].
type MemoryOption interface{ apply(*Memory) }

type memoryOption func(*Memory)

func (f memoryOption) apply(m *Memory) { f(m) }

// WithClock makes the store read the time from clock, which may be called concurrently. The default is the process's
// monotonic clock. Whoever waits or renews goes by the process's clock all the same.
func WithClock(clock func() time.Time) MemoryOption {
	return memoryOption(func(m *Memory) {
		start := clock()
		m.clock = func() time.Duration { return clock().Sub(start) }
	})
}

// NewMemory returns a store in which nothing is held.
func NewMemory(opts ...MemoryOption) *Memory {
	m := &Memory{places: map[placeKey]*place{}, waiters: map[string]chan struct{}{}}
	WithClock(time.Now).apply(m)
	for _, o := range opts {
		o.apply(m)
	}
	return m
}

func (m *Memory) Acquire(ctx context.Context, c Claim) (Answer, error) {
	if err := validate(ctx, c); err != nil {
		return Answer{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.clock()
	p := m.at(c, now)
	defer m.tidy(c, p)
	switch {
	case p.has(c.ID):
		p.hold(c, now)
		p.leave(c.Waiter)
		return p.held(c, now), nil
	case c.Outer != "":
		if !p.has(c.Outer) {
			return Answer{}, nil
		}
		p.hold(c, now)
		return p.held(c, now), nil
	case p.room(c):
		if c.Limit == 0 {
			m.tokens++
			p.token = m.tokens
		}
		p.leave(c.Waiter)
		p.hold(c, now)
		m.wake(p, c)
		return p.held(c, now), nil
	}
	switch {
	case c.Last:
		p.leave(c.Waiter)
	case c.Waiter != "":
		p.stand(c, now)
	}
	m.wake(p, c)
	return Answer{Left: p.left(now), First: c.Waiter != "" && p.next(c.Waiter)}, nil
}

func (m *Memory) Renew(ctx context.Context, c Claim) (Answer, error) {
	if c.Lease != 0 {
		if err := validate(ctx, c); err != nil {
			return Answer{}, err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.clock()
	p := m.at(c, now)
	defer m.tidy(c, p)
	if !p.has(c.ID) {
		return Answer{}, nil
	}
	if c.Lease > 0 {
		p.hold(c, now)
	}
	return p.held(c, now), nil
}

func (m *Memory) Release(_ context.Context, c Claim) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.at(c, m.clock())
	defer m.tidy(c, p)
	held := p.has(c.ID)
	delete(p.leases, c.ID)
	p.leave(c.Waiter)
	m.wake(p, c)
	return held, nil
}

func (m *Memory) Join(context.Context) (Waiter, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.joined++
	id, woken := strconv.FormatInt(m.joined, 10), make(chan struct{}, 1)
	m.waiters[id] = woken
	return Waiter{ID: id, Woken: woken, Close: m.part}, nil
}

// part ends the waiter of a claim.
func (m *Memory) part(c Claim, met bool) {
	if !met {
		m.Release(context.Background(), c)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.waiters, c.Waiter)
}

// at returns the place of c's name, without what has ended.
func (m *Memory) at(c Claim, now time.Duration) *place {
	key := placeKey{c.Name, c.Limit == 0}
	p, ok := m.places[key]
	if !ok {
		m.sweep(now)
		p = &place{leases: map[string]lease{}}
		m.places[key] = p
	}
	p.expire(now)
	return p
}

// sweep looks after two of the places, so that those which nobody asks for do not stay.
func (m *Memory) sweep(now time.Duration) {
	n := 0
	for key, p := range m.places {
		if p.expire(now); p.empty() {
			delete(m.places, key)
		}
		if n++; n == 2 {
			return
		}
	}
}

// tidy forgets a place that nobody holds or waits for.
func (m *Memory) tidy(c Claim, p *place) {
	if p.empty() {
		delete(m.places, placeKey{c.Name, c.Limit == 0})
	}
}

// wake wakes those of the queue for whom there is room as c's caller has it, and in any case the first, whose limit may be another: each then sees for
// himself. Who asks for c knows already.
func (m *Memory) wake(p *place, c Claim) {
	sum := p.used()
	for i, s := range p.queue {
		if sum += s.cost; i > 0 && sum > max(1, c.Limit) {
			return
		}
		if s.waiter != c.Waiter {
			m.tell(s.waiter)
		}
	}
}

func (m *Memory) tell(waiter string) {
	select {
	case m.waiters[waiter] <- struct{}{}:
	default:
	}
}

func (p *place) expire(now time.Duration) {
	for id, l := range p.leases {
		if l.until <= now {
			delete(p.leases, id)
		}
	}
	p.queue = slices.DeleteFunc(p.queue, func(s standing) bool { return s.until <= now })
}

func (p *place) empty() bool { return len(p.leases) == 0 && len(p.queue) == 0 }

func (p *place) has(id string) bool { _, ok := p.leases[id]; return ok }

// room says whether c can be met, and those who wait before it, too.
func (p *place) room(c Claim) bool {
	sum := p.used() + c.units()
	for _, s := range p.queue {
		if s.waiter == c.Waiter {
			break
		}
		sum += s.cost
	}
	return sum <= max(1, c.Limit)
}

// used is what is held of a semaphore's limit, or of a lock's, which is 1.
func (p *place) used() int64 {
	var sum int64
	for _, l := range p.leases {
		if sum += l.cost; l.cost == 0 {
			return 1
		}
	}
	return sum
}

// units are what c takes of its limit, of which a lock has 1.
func (c *Claim) units() int64 {
	if c.Limit == 0 {
		return 1
	}
	return c.Cost
}

// hold makes c held until its lease ends, counted from now. A lock has one end for all of its holds.
func (p *place) hold(c Claim, now time.Duration) {
	until := max(p.leases[c.ID].until, now+c.Lease)
	if c.Limit == 0 {
		until = max(until, now+p.left(now))
		for id := range p.leases {
			p.leases[id] = lease{until: until}
		}
	}
	p.leases[c.ID] = lease{until, c.Cost}
}

func (p *place) held(c Claim, now time.Duration) Answer {
	return Answer{Held: true, Token: p.token, Left: p.leases[c.ID].until - now}
}

// left is how long until the next lease ends.
func (p *place) left(now time.Duration) time.Duration {
	var first time.Duration
	for _, l := range p.leases {
		if d := l.until - now; first == 0 || d < first {
			first = d
		}
	}
	return first
}

// next says whether waiter, or nobody if it is empty, is the first of the queue.
func (p *place) next(waiter string) bool {
	return len(p.queue) == 0 || p.queue[0].waiter == waiter
}

// stand keeps the place in the queue of c's waiter, or gives it the last one.
func (p *place) stand(c Claim, now time.Duration) {
	at := slices.IndexFunc(p.queue, func(s standing) bool { return s.waiter == c.Waiter })
	if at < 0 {
		p.queue = append(p.queue, standing{waiter: c.Waiter, cost: c.units()})
		at = len(p.queue) - 1
	}
	p.queue[at].until = now + WaiterLife
}

func (p *place) leave(waiter string) {
	if waiter != "" {
		p.queue = slices.DeleteFunc(p.queue, func(s standing) bool { return s.waiter == waiter })
	}
}

// Validate reports what is wrong with a claim that is to be met or renewed. Stores begin with it.
func Validate(c Claim) error {
	if err := validateLease(c.Lease); err != nil {
		return err
	}
	if c.ID == "" {
		return fmt.Errorf("lock: claim without an ID, want one")
	}
	if c.Limit < 0 || c.Limit > MaxLimit {
		return fmt.Errorf("lock: limit %d, want 0 to %d", c.Limit, MaxLimit)
	}
	if c.Limit > 0 && (c.Cost < 1 || c.Cost > MaxCost) {
		return fmt.Errorf("lock: cost %d, want 1 to %d", c.Cost, MaxCost)
	}
	return nil
}

// validate is Validate as a store's error, or the end of ctx.
func validate(ctx context.Context, c Claim) error {
	if err := store.Ended(ctx); err != nil {
		return err
	}
	if err := Validate(c); err != nil {
		return &store.Error{Class: store.Misconfigured, Err: err}
	}
	return nil
}
