package redisstore_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/redisstore"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
)

// elapsed fails the test if f takes longer than a budget of 50 ms permits, with room for a busy machine.
func elapsed(t *testing.T, f func()) {
	t.Helper()
	begin := time.Now()
	f()
	if d := time.Since(begin); d > 2*time.Second {
		t.Errorf("took %v, want the budget of 50ms", d)
	}
}

func TestFrozenServer(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client(t, func(o *redis.Options) { o.ReadTimeout = 10 * time.Second })
	s := newStore(t, client)
	brief := newStore(t, client, redisstore.WithBudget(50*time.Millisecond))
	key := "rl:frozen"
	out := take(t, s, request(key, 10, 1))
	server.Freeze(t)
	elapsed(t, func() {
		_, err := brief.Take(context.Background(), []store.Request{request(key, 10, 1)}, true)
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
		_, err := s.Take(ctx, []store.Request{request(key, 10, 1)}, true)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("Take with a cancelled context = %v, want %v", err, context.Canceled)
		}
	})
	cause := errors.New("shutting down")
	elapsed(t, func() {
		ctx, cancel := context.WithTimeoutCause(context.Background(), 20*time.Millisecond, cause)
		defer cancel()
		_, err := s.Take(ctx, []store.Request{request(key, 10, 1)}, true)
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
	s := newStore(t, client, redisstore.WithBudget(50*time.Millisecond))
	take(t, newStore(t, client), request("k", 10, 1))
	server.Kill(t)
	for range 5 {
		elapsed(t, func() {
			if _, err := s.Take(context.Background(), []store.Request{request("k", 10, 1)}, true); err == nil {
				t.Error("Take from a dead server succeeds, want an error")
			}
		})
	}
	_, err := s.Take(context.Background(), []store.Request{request("k", 10, 1)}, true)
	var op *net.OpError
	if classOf(err) != store.Unavailable || !errors.As(err, &op) {
		t.Errorf("Take from a dead server = %v, want the dial's error, of class %v", err, store.Unavailable)
	}
}

func TestExhaustedPool(t *testing.T) {
	f := &faults{}
	client := redistest.Standalone(t).Client(t, func(o *redis.Options) {
		o.PoolSize, o.Dialer, o.ReadTimeout = 1, f.dial, 10*time.Second
	})
	s := newStore(t, client, redisstore.WithBudget(50*time.Millisecond))
	key := redistest.Prefix(t)
	take(t, newStore(t, client), request(key, 10, 1))
	f.next.Store(int32(stall))
	elapsed(t, func() { s.Take(context.Background(), []store.Request{request(key, 10, 1)}, true) })
	elapsed(t, func() {
		_, err := s.Take(context.Background(), []store.Request{request(key, 10, 1)}, true)
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
	if _, err := redisstore.New(nil); err == nil {
		t.Error("New without a client succeeds, want an error")
	}
}
