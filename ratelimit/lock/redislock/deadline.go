package redislock

import (
	"context"
	"sync"
	"time"

	"github.com/rlgen/rlgen/ratelimit/internal/due"
)

// deadline is a context that is done at a time, or once cancelled, for a parent that never is. It shares a timer with the
// others of its list: one of its own costs a lone caller more than all else that he does here.
type deadline struct {
	context.Context
	list *due.List
	at   time.Time

	mu    sync.Mutex
	done  chan struct{}
	entry due.Entry // in list from when somebody asks for done
	err   error
}

func (d *deadline) Deadline() (time.Time, bool) { return d.at, true }

func (d *deadline) Done() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.done == nil {
		d.done = make(chan struct{})
		if d.err != nil {
			close(d.done)
		} else {
			d.list.Add(&d.entry, d, d.at)
		}
	}
	return d.done
}

// Due ends it where its list says so.
func (d *deadline) Due() { d.end(context.DeadlineExceeded) }

func (d *deadline) Err() error {
	if !time.Now().Before(d.at) {
		d.end(context.DeadlineExceeded)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.err
}

func (d *deadline) cancel() { d.end(context.Canceled) }

func (d *deadline) end(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err != nil {
		return
	}
	d.err = err
	if d.done != nil {
		d.list.Remove(&d.entry)
		close(d.done)
	}
}
