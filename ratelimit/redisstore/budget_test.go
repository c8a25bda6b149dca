package redisstore_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/redisstore"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
)

// short is a budget that ends well before the client's own timeouts, and in which a busy machine still gets to send.
const short = 500 * time.Millisecond

// elapsed fails the test if f waits for the client's timeouts, 10 s here, and not for its budget.
func elapsed(t *testing.T, f func()) {
	t.Helper()
	d := timed(f)
	wantPrompt(t, d.over(short))
}

func TestFrozenServer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client(t, func(o *redis.Options) { o.ReadTimeout = 10 * time.Second })
	s := newStore(t, client)
	brief := newStore(t, client, redisstore.WithBudget(short))
	key := "rl:frozen"
	out := take(t, s, request(key, 10, 1))
	server.Freeze(t)
	elapsed(t, func() {
		_, err := store.Take(context.Background(), brief, []store.Request{request(key, 10, 1)}, true)
		if classOf(err) != store.Indeterminate {
			t.Errorf("Take = %v, want an error of class %v", err, store.Indeterminate)
		}
	})
	elapsed(t, func() {
		if err := brief.GiveBack(context.Background(), out.Receipt); err == nil {
			t.Error("GiveBack to a frozen server succeeds, want an error")
		}
	})
	elapsed(t, func() {
		ctx, cancel := context.WithCancel(context.Background())
		time.AfterFunc(10*time.Millisecond, cancel)
		_, err := store.Take(ctx, s, []store.Request{request(key, 10, 1)}, true)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("Take with a cancelled context = %v, want %v", err, context.Canceled)
		}
	})
	cause := errors.New("shutting down")
	elapsed(t, func() {
		ctx, cancel := context.WithTimeoutCause(context.Background(), 20*time.Millisecond, cause)
		defer cancel()
		_, err := store.Take(ctx, s, []store.Request{request(key, 10, 1)}, true)
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, cause) {
			t.Errorf("Take past its deadline = %v, want %v and %v", err, context.DeadlineExceeded, cause)
		}
	})
	server.Resume(t)
	take(t, s, request(key, 10, 1))
}

func TestDeadServer(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client(t, func(o *redis.Options) { o.PoolSize = 3; o.DialerRetries = 1 })
	s := newStore(t, client, redisstore.WithBudget(short))
	take(t, newStore(t, client), request("k", 10, 1))
	server.Kill(t)
	for range 3 {
		elapsed(t, func() {
			if _, err := store.Take(context.Background(), s, []store.Request{request("k", 10, 1)}, true); err == nil {
				t.Error("Take from a dead server succeeds, want an error")
			}
		})
	}
	_, err := store.Take(context.Background(), s, []store.Request{request("k", 10, 1)}, true)
	var op *net.OpError
	if classOf(err) != store.Unavailable || !errors.As(err, &op) {
		t.Errorf("Take from a dead server = %v, want the dial's error, of class %v", err, store.Unavailable)
	}
}

func TestExhaustedPool(t *testing.T) {
	t.Parallel()
	f := &faults{}
	client := redistest.Standalone(t).Client(t, func(o *redis.Options) {
		o.PoolSize, o.Dialer, o.ReadTimeout = 1, f.dial, 10*time.Second
	})
	s := newStore(t, client, redisstore.WithBudget(short))
	key := redistest.Prefix(t)
	take(t, newStore(t, client), request(key, 10, 1))
	f.next.Store(int32(stall))
	elapsed(t, func() { store.Take(context.Background(), s, []store.Request{request(key, 10, 1)}, true) })
	elapsed(t, func() {
		_, err := store.Take(context.Background(), s, []store.Request{request(key, 10, 1)}, true)
		if classOf(err) != store.Unavailable {
			t.Errorf("Take without a connection = %v, want an error of class %v: nothing was sent", err, store.Unavailable)
		}
	})
}

func TestBudget(t *testing.T) {
	client := redistest.Standalone(t).Client(t)
	if _, err := redisstore.New(client, redisstore.WithBudget(0)); err == nil {
		t.Error("New with a budget of 0 succeeds, want an error")
	}
	for _, nobody := range []redis.UniversalClient{nil, (*redis.Client)(nil), (*redis.ClusterClient)(nil)} {
		if _, err := redisstore.New(nobody); err == nil {
			t.Errorf("New without a client (%T) succeeds, want an error", nobody)
		}
	}
}

// hook calls before each command.
type hook func(ctx context.Context)

func (hook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		h(ctx)
		return next(ctx, cmd)
	}
}

func (hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// The budget is what the client is told, too, so that a client that heeds deadlines gives up with the call.
func TestClientIsToldTheBudget(t *testing.T) {
	for _, test := range []struct {
		name string
		opts []redisstore.Option
		want time.Duration
	}{
		{"default", nil, 100 * time.Millisecond},
		{"7s", []redisstore.Option{redisstore.WithBudget(7 * time.Second)}, 7 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			client := redistest.Standalone(t).Client(t)
			var begin time.Time
			told := make(chan time.Duration, 10)
			client.AddHook(hook(func(ctx context.Context) {
				deadline, _ := ctx.Deadline()
				told <- deadline.Sub(begin)
			}))
			s, err := redisstore.New(client, test.opts...)
			if err != nil {
				t.Fatal(err)
			}
			begin = time.Now()
			store.Take(context.Background(), s, []store.Request{request(redistest.Prefix(t), 10, 1)}, false)
			after := time.Since(begin)
			if got := <-told; got < test.want || got > test.want+after {
				t.Errorf("the client's deadline is %v after the call began, want %v", got, test.want)
			}
		})
	}
}

// A hook that panics fails the call, and not the program.
func TestPanickingClient(t *testing.T) {
	client := redistest.Standalone(t).Client(t)
	client.AddHook(hook(func(context.Context) { panic("a bug in a hook") }))
	_, err := store.Take(context.Background(), newStore(t, client), []store.Request{request(redistest.Prefix(t), 10, 1)}, false)
	if classOf(err) != store.Misconfigured || !strings.Contains(err.Error(), "a bug in a hook") {
		t.Errorf("Take = %v, want an error of class %v that says what panicked", err, store.Misconfigured)
	}
}
