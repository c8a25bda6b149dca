package redisstore

import (
	"context"
	"sync/atomic"
	"time"
)

// rider is one caller's decision, on its way through a lane.
type rider struct {
	decision
	ctx     context.Context
	budget  time.Time // when it ends
	answers uint64    // that the server had given when the rider came

	state  atomic.Int32
	car    *car          // that it is in; under the lane's mu, until it has landed
	landed chan struct{} // gets one value when verdict and err are valid, or the rider is overdue
	alone  bool          // the answer is that of a script with nobody else

	verdict verdict
	err     error
	overdue bool // the budget has ended before there was an answer
	sent    bool // and the server may have the decision

	// In the lane's roster, under its mu.
	waits          bool
	hasty          bool // its caller has left at its own deadline, and the budget goes on, which is the server's
	previous, next *rider
}

const (
	queued  = iota // or on a ride that has not been written
	loaded         // written, or about to be: the server may have it
	arrived        // with an answer
	gone           // its caller left before it was loaded, and it never will be
	left           // its caller left when the server may have had it
)

// newRider makes a rider whose budget begins now.
func (l *lane) newRider(ctx context.Context, d decision) *rider {
	r, ok := l.idle.Get().(*rider)
	if !ok {
		r = &rider{landed: make(chan struct{}, 1)}
	}
	r.decision, r.ctx, r.budget = d, ctx, time.Now().Add(l.store.budget)
	return r
}

// free gives back a rider whom no ride uses any more.
func (l *lane) free(r *rider) {
	r.decision, r.ctx, r.car, r.verdict, r.err, r.alone = decision{}, nil, nil, verdict{}, nil, false
	l.idle.Put(r)
}

// units is the decision's cost.
func (d *decision) units() int64 {
	n := int64(0)
	for i := range d.requests {
		n += min(d.requests[i].Cost, mostUnits)
	}
	return n
}

// leave ends the wait of a rider's caller, unless there is an answer or it has ended. With sent, the server may have the decision.
func (r *rider) leave() (sent, ok bool) {
	for {
		switch {
		case r.state.CompareAndSwap(queued, gone):
			return false, true
		case r.state.CompareAndSwap(loaded, left):
			return true, true
		case r.state.Load() >= arrived:
			return false, false
		}
	}
}

// arrive keeps the rider's caller from leaving, the first time, and returns false if it has left.
func (r *rider) arrive() bool {
	for {
		state := r.state.Load()
		if state >= arrived {
			return false
		}
		if r.state.CompareAndSwap(state, arrived) {
			return true
		}
	}
}
