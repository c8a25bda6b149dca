package ratelimit

import (
	"context"
	"crypto/rand"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rlgen/rlgen/ratelimit/store"
)

const (
	// attendEvery is how long after it has attended a process that calls its store attends again.
	attendEvery = 5 * time.Second
	// attendBudget is how long that may last, which no call waits for.
	attendBudget = time.Second
)

// fleet is the processes that share counts under one prefix, as far as a limiter knows. It is safe for concurrent use.
type fleet struct {
	at     store.Fleet
	prefix string
	member string
	due    atomic.Int64 // when to attend, ns of the limiter's clock

	mu              sync.Mutex
	latest, earlier int           // the most members since, and in the period before
	since           time.Duration // of the limiter's clock
}

// fleet returns the one of a prefix, nil where the program says how many there are or the store cannot count them.
func (l *Limiter) fleet(prefix string) *fleet {
	at, ok := l.store.(store.Fleet)
	if !ok || !l.counted {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fleets == nil {
		l.fleets, l.member = make(map[string]*fleet), rand.Text()
	}
	f, ok := l.fleets[prefix]
	if !ok {
		f = &fleet{at: at, prefix: prefix, member: l.member}
		l.fleets[prefix] = f
	}
	return f
}

// attend attends beside a call that the store has decided at now, where it is time for it. The goroutine that it starts then ends
// within attendBudget.
func (f *fleet) attend(now time.Duration) {
	if f == nil {
		return
	}
	due := f.due.Load()
	if int64(now) >= due && f.due.CompareAndSwap(due, int64(now+attendEvery)) {
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), attendBudget)
			defer cancel()
			_ = f.attendNow(ctx, now) // the last number holds; Limiter.Check tells of errors
		}()
	}
}

// attend attends now in every fleet.
func (l *Limiter) attend(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, attendBudget)
	defer cancel()
	for _, f := range l.joined() {
		if err := f.attendNow(ctx, l.now()); err != nil {
			l.log.Warn("rate limit store cannot count the instances; while it cannot decide, each takes its share by the last number it knows", "error", err)
		}
	}
}

func (l *Limiter) joined() []*fleet {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Values(l.fleets))
}

func (f *fleet) attendNow(ctx context.Context, now time.Duration) error {
	n, err := f.at.Attend(ctx, f.prefix, f.member)
	if err == nil {
		f.count(now, n)
	}
	return err
}

// count takes note that there are n members at now. Fewer than before are believed once no more have been seen for as long as a member that is
// gone is counted: a store that has lost its keys knows only of those that have attended since.
func (f *fleet) count(now time.Duration, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now-f.since >= store.Attendance {
		f.earlier, f.latest, f.since = f.latest, 0, now
	}
	f.latest = max(f.latest, n)
}

// instances is how many members are known, 1 before any are.
func (f *fleet) instances() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return max(1, f.latest, f.earlier)
}

// sharers is how many instances share what f counts, or as many as the program says where f is nil.
func (l *Limiter) sharers(f *fleet) int {
	if f == nil {
		return l.instances
	}
	return f.instances()
}
