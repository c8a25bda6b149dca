package redisstore_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/redisstore"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
)

// A server that does not decide is asked five times, and then by one call at a time until it decides again.
func TestBreaker(t *testing.T) {
	server := redistest.Standalone(t)
	proxy := redistest.NewProxy(t, server.Addr())
	client := redis.NewClient(&redis.Options{Addr: proxy.Addr()})
	t.Cleanup(func() { client.Close() })
	s := newStore(t, client, redisstore.WithBudget(short))
	key := redistest.Prefix(t)
	ask := func() (store.Outcome, error) {
		return store.Take(context.Background(), s, []store.Request{request(key, 10_000, 1)}, false)
	}
	out, err := ask()
	if err != nil {
		t.Fatal(err)
	}

	sent := proxy.Seen("evalsha")
	proxy.Always(redistest.CutAfter, "evalsha")
	for range 5 {
		if _, err := ask(); classOf(err) != store.Indeterminate {
			t.Fatalf("Take without an answer = %v, want an error of class %v", err, store.Indeterminate)
		}
	}
	if _, err := ask(); classOf(err) != store.Unavailable || !strings.Contains(err.Error(), "not asked") {
		t.Errorf("Take after five failures = %v, want that the server is not asked", err)
	}
	if err := s.GiveBack(context.Background(), out.Receipt); classOf(err) != store.Unavailable {
		t.Errorf("GiveBack after five failures = %v, want that the server is not asked", err)
	}
	if n := proxy.Seen("evalsha") - sent; n != 5 {
		t.Errorf("the server was asked %d times, want 5", n)
	}

	proxy.Always(redistest.Stall, "evalsha")
	sent = proxy.Seen("evalsha")
	probe := make(chan error, 1)
	if err := redistest.Poll(func() error { // until a call is let through, and hangs
		go func() { _, err := ask(); probe <- err }()
		for proxy.Seen("evalsha") == sent {
			select {
			case <-probe:
				return errors.New("no call asks")
			default:
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	var calls sync.WaitGroup
	for range 1000 {
		calls.Go(func() { ask() })
	}
	calls.Wait()
	if n := proxy.Seen("evalsha") - sent; n != 1 {
		t.Errorf("%d calls have asked at once after the rest, want 1", n)
	}
	<-probe

	proxy.Always(redistest.Pass)
	if err := redistest.Poll(func() error { _, err := ask(); return err }); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if _, err := ask(); err != nil {
			t.Errorf("Take after one that was decided = %v, want a decision", err)
		}
	}
}

// Neither a server that refuses nor callers who go away keep calls from the server.
func TestBreakerKeepsFromRefusalsAndCallers(t *testing.T) {
	server := redistest.Standalone(t)
	client := server.Client(t)
	s := newStore(t, client)
	key := redistest.Prefix(t)
	client.Set(t.Context(), key, "another program's", 0)
	for i := range 20 {
		if _, err := store.Take(context.Background(), s, []store.Request{request(key, 10, 1)}, false); classOf(err) != store.Misconfigured {
			t.Fatalf("Take %d of another's key = %v, want an error of class %v", i, err, store.Misconfigured)
		}
	}

	proxy := redistest.NewProxy(t, server.Addr())
	behind := redis.NewClient(&redis.Options{Addr: proxy.Addr(), PoolSize: 30})
	t.Cleanup(func() { behind.Close() })
	s = newStore(t, behind, redisstore.WithBudget(120*short)) // callers go away before it ends
	key += "own"
	take(t, s, request(key, 100, 1))
	proxy.Always(redistest.Stall, "evalsha")
	for range 20 {
		sent := proxy.Seen("evalsha")
		ctx, cancel := context.WithCancel(context.Background())
		go func() {
			for proxy.Seen("evalsha") == sent {
				runtime.Gosched()
			}
			cancel()
		}()
		if _, err := store.Take(ctx, s, []store.Request{request(key, 100, 1)}, false); !errors.Is(err, context.Canceled) {
			t.Fatalf("Take of a caller who goes away = %v, want %v", err, context.Canceled)
		}
	}
	proxy.Always(redistest.Pass)
	if out := take(t, s, request(key, 100, 1)); !out.Allowed {
		t.Error("a call is denied, want it allowed")
	}
}
