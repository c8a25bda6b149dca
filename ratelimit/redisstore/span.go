package redisstore

import (
	"context"
	"sync"
	"time"
)

// span is the context of a ride: that of its first rider, but for its end.
type span struct {
	context.Context
	deadline time.Time // the latest of its riders'

	mu    sync.Mutex
	done  chan struct{} // made when somebody asks for it
	ended bool
}

// include is called before the ride.
func (s *span) include(deadline time.Time) {
	if s.deadline.Before(deadline) {
		s.deadline = deadline
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

// end says that all riders have left.
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
