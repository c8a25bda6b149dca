package redislock

import (
	"context"
	"sync/atomic"
	"time"
)

// limited is a context that is done when a term is, for a parent that never is.
type limited struct {
	context.Context
	term *term
}

func (l *limited) Deadline() (time.Time, bool) { return l.term.ends, true }

func (l *limited) Done() <-chan struct{} { return l.term.done }

func (l *limited) Err() error {
	select {
	case <-l.term.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// term is the time until calls end that begin one shortly after the other, which share its timer and channel: of their own, these
// cost a lone caller more than all else that he does here.
type term struct {
	begins, ends time.Time
	done         chan struct{}
}

// sharing is the part of a budget within which a call is to begin to share a term. It may last longer by as much.
const sharing = 16

// longest is how long a call may last.
func longest(budget time.Duration) time.Duration { return budget + budget/sharing }

// terms has the term of calls that begin now. It is safe for concurrent use.
type terms struct{ latest atomic.Pointer[term] }

// get returns a term that ends when the budget does, or a little later.
func (t *terms) get(budget time.Duration) *term {
	if now := t.latest.Load(); now != nil && time.Since(now.begins) < budget/sharing {
		return now
	}
	next := &term{begins: time.Now(), done: make(chan struct{})}
	next.ends = next.begins.Add(longest(budget))
	time.AfterFunc(longest(budget), func() { close(next.done) })
	time.AfterFunc(budget/sharing, func() { t.latest.CompareAndSwap(next, nil) })
	t.latest.Store(next)
	return next
}
