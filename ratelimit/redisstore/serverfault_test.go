package redisstore_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/redisstore"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/ratelimit/storetest"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
)

// do sends a command that must succeed.
func do(t *testing.T, client *redis.Client, words ...any) {
	t.Helper()
	if err := client.Do(context.Background(), words...).Err(); err != nil {
		t.Fatalf("%v: %v", words, err)
	}
}

func scriptFlushes(t *testing.T) string {
	server := redistest.Start(t)
	admin := server.Client(t)
	s := newStore(t, server.Client(t))
	var calls tally
	flushes := 0
	calls.during(func() {
		for ; flushes < 50; flushes++ {
			do(t, admin, "script", "flush")
			calls.take(s, request("rl:a", 1_000_000, 1))
		}
	}, s, request("rl:a", 1_000_000, 1))
	calls.wantDecided(t)
	calls.wantCharged(t, charged(t, admin, "rl:a"))
	return fmt.Sprintf("%d flushes; %v", flushes, &calls)
}

func flushAll(t *testing.T) string {
	server := redistest.Start(t)
	s := newStore(t, server.Client(t))
	var calls tally
	calls.load(20, s, request("rl:a", 50, 1))
	do(t, server.Client(t), "flushall")
	calls.load(20, s, request("rl:a", 50, 1))
	calls.wantDecided(t)
	if n := calls.allowed.Load(); n != 100 {
		t.Errorf("%d admitted, want 100: the limit of 50 before and after", n)
	}
	return calls.String()
}

func eviction(t *testing.T) string {
	server := redistest.Start(t, "--maxmemory-policy", "allkeys-random")
	admin := server.Client(t)
	ctx := context.Background()
	s := newStore(t, server.Client(t))
	const limit = 5
	var calls tally
	calls.load(5, s, request("rl:a", limit, 1))
	do(t, admin, "config", "set", "maxmemory", "4mb")
	evictions := int64(0)
	for i := range 20_000 {
		do(t, admin, "set", fmt.Sprint("other:", i), strings.Repeat("x", 10_000))
		if admin.Exists(ctx, "rl:a").Val() == 1 {
			continue
		}
		evictions++
		do(t, admin, "config", "set", "maxmemory", "0") // or else the calls evict the key themselves
		calls.load(5, s, request("rl:a", limit, 1))
		do(t, admin, "config", "set", "maxmemory", "4mb")
		if evictions == 3 {
			break
		}
	}
	if evictions == 0 {
		t.Fatal("the key was never evicted")
	}
	calls.wantDecided(t)
	if n := calls.allowed.Load(); n > limit*(1+evictions) {
		t.Errorf("%d admitted, want at most %d in %d evictions", n, limit*(1+evictions), evictions)
	}
	return fmt.Sprintf("%d evictions; %v of %d", evictions, &calls, limit)
}

func misconf(t *testing.T) string {
	server := redistest.Start(t)
	admin := server.Client(t)
	s := newStore(t, server.Client(t))
	take(t, s, request("rl:a", 10, 1))
	dir := admin.ConfigGet(context.Background(), "dir").Val()["dir"]
	obstacle := filepath.Join(dir, "dump.rdb") // a directory, which no file can replace
	if err := os.Mkdir(obstacle, 0o700); err != nil {
		t.Fatal(err)
	}
	do(t, admin, "config", "set", "save", "3600 1")
	do(t, admin, "bgsave")
	err := wantMisconf(t, s, admin)
	if err := os.Remove(obstacle); err != nil {
		t.Fatal(err)
	}
	do(t, admin, "bgsave")
	if err := redistest.Poll(func() error {
		_, err := store.Take(context.Background(), s, []store.Request{request("rl:a", 1_000_000, 1)}, false)
		return err
	}); err != nil {
		t.Errorf("calls fail for good afterwards: %v", err)
	}
	return err.Error()
}

// wantMisconf is [wantRefused] of calls that charge, which are all that MISCONF keeps out.
func wantMisconf(t *testing.T, s store.Store, admin *redis.Client) error {
	t.Helper()
	var calls tally
	if err := redistest.Poll(func() error {
		err := calls.take(s, request("rl:a", 1_000_000, 1))
		if err == nil || !strings.Contains(err.Error(), "MISCONF") {
			return fmt.Errorf("Take = %w, want an error with MISCONF", err)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if calls.indeterminate.Load()+calls.misconfigured.Load() > 0 {
		t.Errorf("%v, want every failure of class %v; the last: %v", &calls, store.Unavailable, calls.err)
	}
	if n := charged(t, admin, "rl:a"); n != 1+calls.allowed.Load() {
		t.Errorf("%d charged, want the %d admitted", n, 1+calls.allowed.Load())
	}
	return calls.err
}

func loading(t *testing.T) string {
	server := redistest.Start(t, "--enable-debug-command", "local", "--loading-process-events-interval-bytes", "1024")
	admin := server.Client(t, func(o *redis.Options) { o.ReadTimeout = time.Minute })
	s := newStore(t, server.Client(t))
	take(t, s, request("rl:a", 10, 1))
	do(t, admin, "eval", "for i = 1, 2000 do redis.call('SET', 'k' .. i, string.rep('x', 100)) end return 1", 0)
	do(t, admin, "config", "set", "key-load-delay", "1000") // µs
	loaded := make(chan error, 1)
	go func() { loaded <- admin.Do(context.Background(), "debug", "reload").Err() }()
	var calls tally
	if err := redistest.Poll(func() error {
		err := calls.take(s, request("rl:a", 1_000_000, 1))
		if err == nil || !strings.Contains(err.Error(), "LOADING") {
			return fmt.Errorf("Take = %w, want an error with LOADING", err)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	failed := calls.err
	if calls.indeterminate.Load()+calls.misconfigured.Load() > 0 {
		t.Errorf("%v, want every failure of class %v; the last: %v", &calls, store.Unavailable, calls.err)
	}
	if err := <-loaded; err != nil {
		t.Fatal(err)
	}
	decidesAgain(t, s, "rl:a")
	// What was admitted while the file was written before it was read is lost with it.
	if n := charged(t, admin, "rl:a"); n < 1 || n > 1+calls.allowed.Load() {
		t.Errorf("%d charged, want 1 to %d", n, 1+calls.allowed.Load())
	}
	return failed.Error()
}

func busy(t *testing.T) string {
	server := redistest.Start(t, "--busy-reply-threshold", "20")
	admin := server.Client(t, func(o *redis.Options) { o.ReadTimeout = time.Minute })
	s := newStore(t, server.Client(t))
	take(t, s, request("rl:a", 10, 1))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		admin.Do(context.Background(), "eval", "while true do end", 0)
	}()
	var calls tally
	err := redistest.Poll(func() error {
		err := calls.take(s, request("rl:a", 1_000_000, 0))
		if err == nil || !strings.Contains(err.Error(), "BUSY") {
			return fmt.Errorf("Take = %w, want an error with BUSY", err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	calls.take(s, request("rl:a", 1_000_000, 1))
	failed := calls.err
	if n := calls.unavailable.Load(); n != calls.failed() || n == 0 {
		t.Errorf("%v, want every failure of class %v; the last: %v", &calls, store.Unavailable, failed)
	}
	do(t, server.Client(t), "script", "kill")
	<-ended
	decidesAgain(t, s, "rl:a")
	if n := charged(t, admin, "rl:a"); n != 1 {
		t.Errorf("%d charged, want 1: none of the refused calls", n)
	}
	return failed.Error()
}

func paused(t *testing.T) string {
	server := redistest.Start(t)
	admin := server.Client(t, func(o *redis.Options) { o.ReadTimeout = time.Minute })
	client := server.Client(t, func(o *redis.Options) { o.ReadTimeout = time.Minute })
	happened := ""
	for _, what := range []string{"WRITE", "ALL"} {
		key := "rl:" + what
		s := newStore(t, client, redisstore.WithBudget(brief))
		decidesAgain(t, s, key)
		var calls tally
		if err := redistest.Poll(func() error { // a machine that stands still may sleep through a pause
			do(t, admin, "client", "pause", 1000, what)
			if calls.load(2, s, request(key, 100, 1)); calls.failed() == 0 {
				return fmt.Errorf("%v while the server pauses, want some that fail", &calls)
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
		calls.wantInTime(t, brief)
		decidesAgain(t, s, key)
		n := charged(t, admin, key)
		calls.wantCharged(t, n)
		happened += fmt.Sprintf("%s: %v, %d charged; ", what, &calls, n)
	}
	return strings.TrimSuffix(happened, "; ")
}

func persisted(t *testing.T) string {
	client := redistest.Standalone(t).Client(t)
	s, ctx := newStore(t, client), context.Background()
	requests := storetest.Requests(t, redistest.Prefix(t), 10_000, time.Hour)
	for name, req := range requests {
		take(t, s, req)
		if !client.Persist(ctx, req.Key).Val() {
			t.Errorf("%s: the key has no time to live", name)
		}
		if err := redistest.Poll(func() error { // a compact log looks at its expiry once a second
			take(t, s, req)
			if ttl := client.PTTL(ctx, req.Key).Val(); ttl <= 0 {
				return fmt.Errorf("%s: the key's time to live is %v after PERSIST and charges, want it set again", name, ttl)
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
	}
	return fmt.Sprintf("set again under %d of %d algorithms", len(requests), len(requests))
}

func requirepass(t *testing.T) string {
	server := redistest.Start(t)
	admin := server.Client(t)
	s := newStore(t, server.Client(t))
	take(t, s, request("rl:a", 10, 1))
	do(t, admin, "config", "set", "requirepass", "secret")
	do(t, admin, "client", "kill", "type", "normal", "skipme", "yes")
	var calls tally
	if err := redistest.Poll(func() error {
		if err := calls.take(s, request("rl:a", 10, 0)); classOf(err) != store.Misconfigured {
			return fmt.Errorf("Take = %w, want an error of class %v", err, store.Misconfigured)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	if n := calls.allowed.Load(); n != 0 {
		t.Errorf("%d calls were admitted without the password, want 0", n)
	}
	return fmt.Sprint(calls.err)
}
