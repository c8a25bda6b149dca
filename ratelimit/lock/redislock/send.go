package redislock

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/rlgen/rlgen/ratelimit/internal/rediscall"
	"github.com/rlgen/rlgen/ratelimit/lock"
	"github.com/rlgen/rlgen/ratelimit/store"
)

// flight is a script on its way to the server and back. Its reply and err are valid once it has landed.
type flight struct {
	call     rediscall.Call
	ctx      context.Context    // ends when the budget does
	cancel   context.CancelFunc // nil where ctx is shared
	shared   limited
	words    [9]any // what call.Words begin in
	silent   *atomic.Bool
	outlasts bool // its caller, who may go away before the budget ends

	done  chan struct{} // nil if it has landed before anybody has it
	reply []int64
	err   error
}

// errBudget is the error of a call that ends because its budget does.
var errBudget = rediscall.ErrBudget

// launch sends a script. It does so in a goroutine, which ends when the client returns, at the latest after the client's own
// timeouts, unless the client can be told the budget, which spares a lone caller a third of his time. Such a client heeds ctx's deadline, but not that it is
// cancelled, so it has a goroutine, too, once its server has left a call without an answer.
//
// A caller who goes away before the budget ends does not take the call with him, which has a goroutine, too: the client would close the connection, and need a new one for the next
// call, of which a crowd who wait for little longer than the way to the server would then have none in time; and a release on another one could overtake what it is to release.
//
// Each script may be sent twice: what names a hold is no other's.
func (s *Store) launch(ctx context.Context, script rediscall.Script, words ...any) *flight {
	return s.launchFor(ctx, s.budget, script, words)
}

func (s *Store) launchFor(ctx context.Context, budget time.Duration, script rediscall.Script, words []any) *flight {
	f := &flight{silent: &s.silent}
	f.within(ctx, s, budget)
	f.call.Package, f.call.Client, f.call.Script = "redislock", s.client, script
	f.call.MayRepeat = true
	f.call.Words = append(f.words[:0], words...)
	if script.Eval[0] != nil {
		f.call.Nonce = rediscall.NewNonce()
		f.call.Words = append(f.call.Words, &f.call.Nonce)
	}
	if s.prompt != nil && budget == s.budget {
		f.call.Client = s.prompt
		if !f.outlasts && (ctx.Done() == nil || !s.silent.Load()) {
			f.fly()
			return f
		}
	}
	f.done = make(chan struct{})
	go func() {
		if f.outlasts {
			defer f.cancel() // once it has landed: else its caller would take the end of its context for that of the budget
		}
		defer close(f.done)
		f.fly()
	}()
	return f
}

// within gives the flight a budget, and the end of ctx, unless it is to outlast that because of ctx's deadline.
func (f *flight) within(ctx context.Context, s *Store, budget time.Duration) {
	if deadline, ok := ctx.Deadline(); ok && budget == s.budget && time.Until(deadline) < budget {
		f.outlasts = true
		f.ctx, f.cancel = context.WithTimeout(context.WithoutCancel(ctx), budget)
		return
	}
	if ctx.Done() != nil || budget != s.budget {
		f.ctx, f.cancel = context.WithTimeout(ctx, budget)
		return
	}
	f.shared = limited{ctx, s.terms.get(budget)}
	f.ctx = &f.shared
}

// end frees what the budget needs.
func (f *flight) end() {
	if f.cancel != nil && !f.outlasts {
		f.cancel()
	}
}

func (f *flight) fly() { f.reply, f.err = f.call.Run(f.ctx) }

// wait returns the reply, or an error once ctx or the budget ends.
func (f *flight) wait(ctx context.Context) ([]int64, error) {
	defer f.end()
	if f.landed() {
		return f.result(ctx)
	}
	select {
	case <-f.done:
	case <-f.ctx.Done():
	case <-ctx.Done():
	}
	if f.landed() {
		return f.result(ctx)
	}
	if f.outlasts {
		f.call.Abandon() // where it still waits for a connection
	}
	return nil, f.expired(ctx)
}

func (f *flight) result(ctx context.Context) ([]int64, error) {
	if f.err == nil {
		if f.silent.Load() {
			f.silent.Store(false)
		}
		return f.reply, nil
	}
	over := errors.Is(f.err, context.Canceled) || errors.Is(f.err, context.DeadlineExceeded) || mayPass(f.err) && ended(ctx) != nil
	if over && (ended(ctx) != nil || ended(f.ctx) != nil) {
		return nil, f.expired(ctx)
	}
	return f.reply, f.err
}

// told is how f has landed, and false where its caller has gone before it was sent.
func (f *flight) told() (error, bool) { return f.err, f.err == nil || f.call.Sent() }

func (f *flight) landed() bool {
	if f.done == nil {
		return true
	}
	select {
	case <-f.done:
		return true
	default:
		return false
	}
}

// expired is the error of a flight that ctx or its budget ended.
func (f *flight) expired(ctx context.Context) error {
	f.silent.Store(true)
	if err := ended(ctx); err != nil {
		return fmt.Errorf("redislock: %w", err)
	}
	class := store.Unavailable
	if f.call.Sent() || f.call.Repeated() {
		class = store.Indeterminate
	}
	return rediscall.Fail("redislock", class, errBudget, "")
}

// ended is why ctx has ended, nil if it has not. A connection's deadline, which is that of ctx, may pass before ctx is done.
func ended(ctx context.Context) error {
	if err := store.Ended(ctx); err != nil {
		return err
	}
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		return context.DeadlineExceeded
	}
	return nil
}

// settleTimeout is how long a release is tried after its call.
const settleTimeout = 10 * time.Second

// settle releases c after the call that left that open, and leaves the queue that it stands in, if nobody stands there any more. It begins
// once f has landed, so that it is not overtaken.
func (s *Store) settle(f *flight, c lock.Claim) {
	s.behind.Go(func() {
		if f.done != nil {
			<-f.done
		}
		if s.inbox.woken(c.Waiter) != nil {
			c.Waiter = "" // who leaves later does so by himself
		}
		s.leave(c, settleTimeout)
	})
}
