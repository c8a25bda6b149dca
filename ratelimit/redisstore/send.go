package redisstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/store"
)

const (
	attempts  = 4                      // sendings of a decision that the server did not execute
	firstWait = 2 * time.Millisecond   // before the second of them; doubled before each further one
	mostWait  = 100 * time.Millisecond // between those of a give-back, which go on while there is time
)

// flight is a batch on its way to the server and back. Its verdicts and err are valid once done is closed.
type flight struct {
	batch     batch
	mayRepeat bool        // executing the batch twice does what executing it once does
	sent      atomic.Bool // the server may have it

	done     chan struct{}
	verdicts []verdict
	err      error // a [store.Error]
}

// command is an EVALSHA or EVAL that the client must not send twice on its own: the server may have executed it.
type command struct {
	*redis.IntSliceCmd
	flight *flight
}

func (c command) NoRetry() bool { return !c.flight.mayRepeat }

// Args marks the flight as sent: the client asks for the arguments of a command when it writes them.
func (c command) Args() []any {
	c.flight.sent.Store(true)
	return c.IntSliceCmd.Args()
}

func newFlight(b batch, mayRepeat bool) *flight {
	return &flight{batch: b, done: make(chan struct{}), mayRepeat: mayRepeat}
}

// launch sends the batch in a goroutine that ends when the client returns, at the latest after the client's own
// timeouts. ctx is the client's; it does not end the wait for a reply.
func (s *Store) launch(ctx context.Context, b batch, mayRepeat bool) *flight {
	f := newFlight(b, mayRepeat)
	go func() {
		defer close(f.done)
		s.fly(ctx, f)
	}()
	return f
}

// fly sends f's batch and reads the answer. It runs in a goroutine of its own, where a panic of the client, or of a hook in it,
// would end the program past every recover of the caller's: it becomes the flight's error.
func (s *Store) fly(ctx context.Context, f *flight) {
	defer func() {
		if p := recover(); p != nil {
			f.err = meaning{class: store.Misconfigured, mend: "mend the Redis client, or its hooks"}.
				fail(fmt.Errorf("the client panicked: %v\n%s", p, debug.Stack()))
		}
	}()
	reply, err := s.send(ctx, f)
	if err == nil {
		f.verdicts, err = f.batch.decode(reply)
	}
	f.err = err
}

// landed says whether f has its verdicts or its error.
func (f *flight) landed() bool {
	select {
	case <-f.done:
		return true
	default:
		return false
	}
}

// wait returns the verdict of a flight of one decision, or an error once limited, which is ctx within the budget,
// is done.
func (f *flight) wait(ctx, limited context.Context) (verdict, error) {
	select {
	case <-f.done:
	case <-limited.Done():
		if !f.landed() {
			return verdict{}, expired(ctx, f.sent.Load())
		}
	}
	if f.err == nil {
		return f.verdicts[0], nil
	}
	if limited.Err() != nil && (errors.Is(f.err, context.Canceled) || errors.Is(f.err, context.DeadlineExceeded)) {
		return verdict{}, expired(ctx, f.sent.Load())
	}
	return verdict{}, f.err
}

// send sends a flight's batch until it is executed, or may have been.
func (s *Store) send(ctx context.Context, f *flight) ([]int64, error) {
	how := s.script.evalsha[:]
	for attempt, wait := 1, firstWait; ; attempt++ {
		f.sent.Store(false)
		cmd := command{redis.NewIntSliceCmd(ctx, s.args(how, f.batch)...), f}
		err := s.client.Process(ctx, cmd)
		if err == nil {
			return cmd.Val(), nil
		}
		m := inspect(err, f.sent.Load())
		s.refresh(ctx, m)
		if m.reaction == load && attempt < attempts {
			how = s.script.eval[:]
			continue
		}
		if attempt == attempts && !f.mayRepeat || !f.mayGoAgain(m) {
			return nil, m.fail(err)
		}
		f.sent.Store(false)
		if !sleep(ctx, wait/2+rand.N(wait)) {
			return nil, m.fail(err)
		}
		wait = min(2*wait, mostWait)
	}
}

// mayGoAgain says whether a flight may be sent again after an error.
func (f *flight) mayGoAgain(m meaning) bool {
	return m.reaction == again || f.mayRepeat && m.class != store.Misconfigured
}

// refresh makes a cluster's client look for the masters anew: it does so by itself only where it may send again.
func (s *Store) refresh(ctx context.Context, m meaning) {
	if cluster, ok := s.client.(*redis.ClusterClient); ok && m.class != store.Misconfigured && m.reaction != load {
		cluster.ReloadState(ctx)
	}
}

// args are the words of the command that runs the script on b, how being the first of them.
func (s *Store) args(how []any, b batch) []any {
	keys := b.countKeys()
	args := make([]any, 0, len(how)+1+keys+b.size()+2)
	args = append(args, how...)
	args = append(args, keys)
	args = b.keys(args)
	args = b.argv(args)
	if s.clock != nil {
		now := s.clock().UnixMicro()
		args = append(args, now%1e6, now/1e6)
	}
	return args
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
