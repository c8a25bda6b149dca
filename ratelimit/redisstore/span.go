package redisstore

import (
	"context"
	"sync"
	"time"

	"github.com/rlgen/rlgen/ratelimit/internal/rediscall"
)

// span is the context of a ride: that of its first rider, but for its end. The deadlines of callers do not cut it short: a server has the budget to answer, and a client that
// heeds contexts would break the connection.
type span struct {
	context.Context
	deadline time.Time // the end of the latest budget of its riders'

	mu    sync.Mutex
	done  chan struct{} // made when somebody asks for it
	ended bool
}

// include is called before the ride.
func (s *span) include(budget time.Time) {
	if s.deadline.Before(budget) {
		s.deadline = budget
	}
}

func (s *span) Deadline() (time.Time, bool) { return s.deadline, true }

func (s *span) Done() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done == nil {
		s.done = make(chan struct{})
		if s.ended {
			close(s.done)
		}
	}
	return s.done
}

func (s *span) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return context.Canceled
	}
	return nil
}

// end says that nobody waits for the ride, nor for what it says of the server.
func (s *span) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	s.ended = true
	if s.done != nil {
		close(s.done)
	}
}

// term is the context of a call, whose deadline is the end of the budget, be it that the caller's own comes before: that ends his wait, and not the client's.
type term struct {
	context.Context
	budget time.Time
}

// within returns the term of a call that begins now, and what ends it.
func (s *Store) within(ctx context.Context) (term, context.CancelFunc) {
	ends := time.Now().Add(s.budget)
	limited, cancel := context.WithDeadlineCause(ctx, ends, rediscall.ErrBudget)
	return term{limited, ends}, cancel
}

func (t term) Deadline() (time.Time, bool) { return t.budget, true }
