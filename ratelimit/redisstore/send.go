package redisstore

import (
	"context"
	"errors"

	"github.com/rlgen/rlgen/ratelimit/internal/rediscall"
	"github.com/rlgen/rlgen/ratelimit/store"
)

// flight is a batch on its way to the server and back. Its verdicts and err are valid once done is closed.
type flight struct {
	batch  batch
	server *rediscall.Server
	pass   *rediscall.Pass // by which it asks; nil if it needs none
	call   rediscall.Call

	done     chan struct{}
	verdicts []verdict
	err      error // a [store.Error]
}

// flight makes a flight of a batch whose keys are of one group.
func (s *Store) flight(b batch, mayRepeat bool) *flight {
	return &flight{batch: b, server: s.server(&b[0]), call: rediscall.Call{MayRepeat: mayRepeat}, done: make(chan struct{})}
}

// launch sends the batch in a goroutine that ends when the client returns, at the latest after the client's own
// timeouts. ctx is the client's; it does not end the wait for a reply.
func (s *Store) launch(ctx context.Context, f *flight) {
	go func() {
		defer close(f.done)
		s.fly(ctx, f)
	}()
}

// launchUnlessResting launches a flight that needs no pass, and fails it where its server is at rest.
func (s *Store) launchUnlessResting(ctx context.Context, f *flight) {
	if f.server.Resting() {
		f.err = f.server.Rest()
		close(f.done)
		return
	}
	s.launch(ctx, f)
}

// fly sends f's batch and reads the answer.
func (s *Store) fly(ctx context.Context, f *flight) {
	reply, err := s.send(ctx, f)
	if err == nil {
		f.verdicts, err = f.batch.decode(reply)
	}
	f.err = f.server.At(err)
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
// is done. What has not been sent by then never is. Of a caller whose deadline is sooner than the budget, the server has the budget to answer all the same.
func (f *flight) wait(ctx context.Context, limited term) (verdict, error) {
	v, err := f.end(ctx, limited)
	switch {
	case f.pass == nil:
	case errors.Is(err, context.DeadlineExceeded) && !errors.As(err, new(*store.Error)):
		f.pass.ReportLater(f.done, f.told, limited.budget)
	default:
		f.pass.Report(err)
	}
	return v, err
}

// told is how f has landed, and false where that may be because its caller has gone.
func (f *flight) told() (error, bool) { return f.err, !ofContext(f.err) || f.call.Sent() }

func (f *flight) end(ctx, limited context.Context) (verdict, error) {
	select {
	case <-f.done:
	case <-limited.Done():
		if !f.landed() {
			return verdict{}, f.expired(ctx)
		}
	}
	if f.err == nil {
		return f.verdicts[0], nil
	}
	if limited.Err() != nil && ofContext(f.err) {
		return verdict{}, f.expired(ctx)
	}
	return verdict{}, f.err
}

// expired is the error of a flight that ctx or its budget ended.
func (f *flight) expired(ctx context.Context) error {
	sent := !f.call.Abandon()
	return f.server.At(expired(ctx, sent || f.call.Repeated()))
}

// send sends a flight's batch until it is executed, or may have been.
func (s *Store) send(ctx context.Context, f *flight) ([]int64, error) {
	f.call.Package, f.call.Client, f.call.Server = "redisstore", s.client, f.server
	f.call.Script = rediscall.Script{Evalsha: s.script.evalsha, Eval: s.script.eval}
	f.call.Nonce = rediscall.NewNonce()
	f.call.Words = s.args(f.batch, &f.call.Nonce)
	return f.call.Run(ctx)
}

// args are the words of the command that runs the script on b, after two places for how.
func (s *Store) args(b batch, nonce *uint64) []any {
	keys := b.countKeys()
	args := make([]any, 2, 3+keys+b.size()+3)
	args = append(args, keys)
	args = b.keys(args)
	args = append(b.argv(args), nonce)
	if s.clock != nil {
		now := s.clock().UnixMicro()
		args = append(args, now%1e6, now/1e6)
	}
	return args
}
