package lock

import (
	"context"
	"maps"
	"slices"
	"time"
)

// Peeker is a [Store] that can say who holds a name, and how many wait for it.
type Peeker interface {
	Store
	// Peek says how the name of c stands, of which only Name and Limit matter, and changes nothing.
	Peek(ctx context.Context, c Claim) (Standing, error)
	// Keys are where the store keeps what c's name is held by; none where it has no keys.
	Keys(c Claim) []string
}

// Standing is how a name stands.
type Standing struct {
	// Leases has those who hold the name, the one that ends first first, up to [MaxLeases] of them. Those of a lock end together.
	Leases []Lease
	// Cost is what all of them hold of a semaphore; of a lock it is 1 while somebody has it.
	Cost int64
	// Waiting is how many stand in the queue, of each process the first few of those who wait; and how many of this process stand behind them ([Behind]).
	Waiting int64
	// Token is the last fencing token of a lock; 0 where it is not known.
	Token int64
}

// MaxLeases is how many leases a [Standing] has at most.
const MaxLeases = 1000

// Lease is one hold.
type Lease struct {
	// ID names the hold. It is made at random, and says nothing of whose it is but to the process that made it.
	ID   string
	Cost int64         // of a semaphore's limit; 1 of a lock
	Left time.Duration // how long it runs, unless it is renewed
}

// Peek says who holds the name of c.
func (m *Memory) Peek(_ context.Context, c Claim) (Standing, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.clock()
	p := m.places[placeKey{c.Name, c.Limit == 0}]
	if p == nil {
		return Standing{}, nil
	}
	p.expire(now)
	s := Standing{Waiting: int64(len(p.queue)) + Behind(m, c)}
	for _, id := range slices.Sorted(maps.Keys(p.leases)) {
		l := p.leases[id]
		cost := max(1, l.cost)
		s.Cost += cost
		s.Leases = append(s.Leases, Lease{ID: id, Cost: cost, Left: l.until - now})
	}
	if c.Limit == 0 {
		s.Cost, s.Token = min(1, s.Cost), p.token
	}
	slices.SortStableFunc(s.Leases, func(a, b Lease) int { return int(a.Left - b.Left) })
	s.Leases = s.Leases[:min(len(s.Leases), MaxLeases)]
	return s, nil
}

// Keys are none.
func (m *Memory) Keys(Claim) []string { return nil }
