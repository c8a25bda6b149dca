package redislock

import (
	"context"
	"sync"
	"time"
)

// deadline is a context that is done at a time, or once cancelled, for a parent that never is. It sets no timer before
// somebody asks for Done again: a timer costs a lone caller more than all else that he does here, and of go-redis only those calls
// ask again that wait for a connection.
type deadline struct {
	context.Context
	at time.Time

	mu    sync.Mutex
	done  chan struct{}
	asked int
	timer *time.Timer
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
		}
	}
	if d.asked++; d.asked == 2 && d.err == nil {
		d.timer = time.AfterFunc(time.Until(d.at), func() { d.end(context.DeadlineExceeded) })
	}
	return d.done
}

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
	if d.timer != nil {
		d.timer.Stop()
	}
	if d.done != nil {
		close(d.done)
	}
}
