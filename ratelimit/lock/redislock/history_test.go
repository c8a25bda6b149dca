package redislock_test

import (
	"cmp"
	"context"

	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/lock"
	"github.com/rlgen/rlgen/ratelimit/lock/redislock"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
	"github.com/rlgen/rlgen/testdata/suite"
)

// stay is a time in which somebody surely held what he had: from when he learned of it until he last saw that he has not lost it.
type stay struct {
	from, to    time.Time
	token, cost int64
}

// history is who held something when. It is safe for concurrent use.
type history struct {
	mu    sync.Mutex
	stays []stay
	want  int           // of stays
	done  chan struct{} // closed when there are so many
}

func newHistory(want int) *history { return &history{want: want, done: make(chan struct{})} }

// visit is recorded for as long as work takes, or until ctx is done.
func (h *history) visit(ctx context.Context, token, cost int64, work time.Duration) {
	s := stay{from: time.Now(), token: token, cost: cost}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for now := s.from; ctx.Err() == nil && now.Sub(s.from) < work; now = time.Now() {
		s.to = now
		<-tick.C
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !s.to.After(s.from) {
		return
	}
	if h.stays = append(h.stays, s); len(h.stays) == h.want {
		close(h.done)
	}
}

// check holds that never more than limit was held at once, and that tokens grow.
func (h *history) check(t *testing.T, name string, limit int64) {
	type step struct {
		at   time.Time
		cost int64
	}
	var steps []step
	slices.SortFunc(h.stays, func(a, b stay) int { return a.from.Compare(b.from) })
	last := int64(0)
	for _, s := range h.stays {
		if s.token < last { // those of holds that nest are the same
			t.Errorf("%s: token %d after %d, want more", name, s.token, last)
		}
		last = s.token
		steps = append(steps, step{s.from, s.cost}, step{s.to, -s.cost})
	}
	slices.SortFunc(steps, func(a, b step) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.cost, b.cost)) })
	held, most := int64(0), int64(0)
	for _, s := range steps {
		held += s.cost
		most = max(most, held)
	}
	if most > limit {
		t.Errorf("%s: %d held at once, want %d at most", name, most, limit)
	}
	t.Logf("%s: %d stays, %d at once at most", name, len(h.stays), most)
}

// TestHistory lets callers of three stores lock, nest, give up, and go away without letting go, while replies are lost, connections are cut,
// answers come late, scripts are forgotten and the server is stopped for moments. What they saw is a history in which a lock has one holder at
// a time, with growing tokens, and a semaphore as many as it may have.
func TestHistory(t *testing.T) {
	t.Parallel()
	const limit = 3
	stays := 4
	if suite.Long() {
		stays = 40
	}
	server := redistest.Start(t)
	running, stop := context.WithCancel(context.Background())
	defer stop()
	var callers, faults sync.WaitGroup
	locks, permits := newHistory(stays), newHistory(stays)
	for range 3 {
		p := redistest.NewProxy(t, server.Addr())
		client := redis.NewClient(&redis.Options{Addr: p.Addr(), ReadTimeout: 200 * time.Millisecond, DialerRetries: 1})
		t.Cleanup(func() { client.Close() })
		s := newStore(t, client, redislock.WithBudget(300*time.Millisecond))
		for range 3 {
			callers.Go(func() { lockOften(t, running, s, locks) })
			callers.Go(func() { acquireOften(t, running, s, limit, permits) })
		}
		faults.Go(func() { breakOften(running, p) })
	}
	faults.Go(func() { troubleOften(t, running, server) })
	<-locks.done
	<-permits.done
	stop()
	callers.Wait()
	faults.Wait()
	locks.check(t, "lock", 1)
	permits.check(t, "semaphore", limit)
}

// moment is a time at random.
func moment(most time.Duration) time.Duration { return rand.N(most) }

// lockOften locks, nests sometimes, and lets go mostly. What fails is tried again.
func lockOften(t *testing.T, running context.Context, s *redislock.Store, h *history) {
	l := newLocker(t, s, lock.WithLease(200*time.Millisecond+moment(300*time.Millisecond).Truncate(time.Millisecond)))
	for running.Err() == nil {
		ctx, cancel := context.WithTimeout(running, moment(time.Second))
		inner, hold, err := l.Lock(ctx, "it")
		if err == nil {
			h.visit(inner, hold.Token(), 1, moment(20*time.Millisecond))
			if nested, again, err := l.Lock(inner, "it"); err == nil {
				h.visit(nested, again.Token(), 1, moment(20*time.Millisecond))
				again.Unlock()
			}
			if rand.IntN(8) > 0 {
				hold.Unlock()
			}
		}
		cancel()
		pause(running, 10*time.Millisecond) // a server at rest fails at once
	}
}

// acquireOften is lockOften for a semaphore.
func acquireOften(t *testing.T, running context.Context, s *redislock.Store, limit int64, h *history) {
	sem, err := lock.NewSemaphore(s, limit, lock.WithLease(300*time.Millisecond))
	if err != nil {
		t.Error(err)
		return
	}
	for running.Err() == nil {
		ctx, cancel := context.WithTimeout(running, moment(time.Second))
		cost := 1 + rand.Int64N(limit)
		if inner, p, err := sem.AcquireN(ctx, "it", cost); err == nil {
			h.visit(inner, 0, cost, moment(20*time.Millisecond))
			if rand.IntN(8) > 0 {
				p.Release()
			}
		}
		cancel()
		pause(running, 10*time.Millisecond)
	}
}

// pause waits for a moment, or for the end of ctx.
func pause(ctx context.Context, most time.Duration) {
	timer := time.NewTimer(moment(most))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// breakOften breaks what goes through p.
func breakOften(ctx context.Context, p *redistest.Proxy) {
	for ctx.Err() == nil {
		switch fault := []redistest.Fault{redistest.DropReply, redistest.CutBefore, redistest.CutAfter}[rand.IntN(3)]; rand.IntN(4) {
		case 0:
			p.Next(1+rand.IntN(3), fault, "evalsha", "hdel")
		case 1:
			p.Cut()
		case 2:
			p.Delay(moment(30 * time.Millisecond))
		case 3:
			p.Always(fault, "evalsha", "hdel")
			pause(ctx, 300*time.Millisecond)
			p.Always(redistest.Pass)
			p.Delay(0)
		}
		pause(ctx, 500*time.Millisecond)
	}
}

// troubleOften makes the server forget its scripts, and stops it.
func troubleOften(t *testing.T, ctx context.Context, server *redistest.Server) {
	admin := server.Client(t)
	for ctx.Err() == nil {
		pause(ctx, time.Second)
		if err := admin.ScriptFlush(context.Background()).Err(); err != nil {
			t.Error(err)
		}
		server.Freeze(t)
		pause(ctx, 300*time.Millisecond)
		server.Resume(t)
	}
}
