package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/redisstore"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
)

// brief is the budget of calls in faults that outlast it.
const brief = 100 * time.Millisecond

// proxied returns a proxy before the shared server, and a client behind it.
func proxied(t *testing.T) (*redistest.Proxy, *redis.Client) {
	proxy := redistest.NewProxy(t, redistest.Standalone(t).Addr())
	client := redis.NewClient(&redis.Options{
		Addr: proxy.Addr(), ReadTimeout: time.Minute, WriteTimeout: time.Minute, PoolTimeout: time.Minute, DialerRetries: 1,
	})
	t.Cleanup(func() { client.Close() })
	return proxy, client
}

// charged is how many calls of cost 1 a log has recorded.
func charged(t *testing.T, client redis.Cmdable, key string) int64 {
	t.Helper()
	n, err := client.ZCard(context.Background(), key).Result()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// decidesAgain waits until a call of cost 0 is decided.
func decidesAgain(t *testing.T, s store.Store, key string) {
	t.Helper()
	if err := redistest.Poll(func() error {
		_, err := store.Take(context.Background(), s, []store.Request{request(key, 1, 0)}, false)
		return err
	}); err != nil {
		t.Errorf("calls fail for good afterwards: %v", err)
	}
}

func silentServer(t *testing.T) string {
	proxy, client := proxied(t)
	s, key := newStore(t, client, redisstore.WithBudget(brief)), redistest.Prefix(t)
	decidesAgain(t, s, key)
	proxy.Always(redistest.Stall, "evalsha", "eval")
	var calls tally
	calls.load(10, s, request(key, 100, 1))
	if n := calls.failed(); n != 40 {
		t.Errorf("%d of 40 calls failed, want all", n)
	}
	calls.wantInTime(t, brief)
	proxy.Always(redistest.Pass)
	proxy.Cut()
	decidesAgain(t, s, key)
	return calls.String()
}

func doneContext(t *testing.T) string {
	proxy, client := proxied(t)
	s, key := newStore(t, client), redistest.Prefix(t)
	take(t, s, request(key, 100, 1))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	before := proxy.Seen("evalsha")
	if _, err := store.Take(ctx, s, []store.Request{request(key, 100, 1)}, false); !errors.Is(err, context.Canceled) {
		t.Errorf("Take = %v, want %v", err, context.Canceled)
	}
	if n := proxy.Seen("evalsha") - before; n != 0 {
		t.Errorf("%d commands were sent, want 0", n)
	}
	return "the context's error, 0 commands sent"
}

// admitsItsLimit makes more calls than a limit has room for, of which none fails.
func admitsItsLimit(t *testing.T, client *redis.Client) string {
	t.Helper()
	s, key := newStore(t, client), redistest.Prefix(t)
	var calls tally
	calls.load(8, s, request(key, 20, 1))
	calls.wantDecided(t)
	if n := calls.allowed.Load(); n != 20 {
		t.Errorf("%d of 32 calls were admitted, want 20", n)
	}
	return calls.String()
}

func slowPackets(t *testing.T) string {
	proxy, client := proxied(t)
	proxy.Delay(20 * time.Millisecond)
	return admitsItsLimit(t, client)
}

func trickle(t *testing.T) string {
	proxy, client := proxied(t)
	proxy.Always(redistest.Trickle)
	return admitsItsLimit(t, client)
}

func farServer(t *testing.T) string {
	proxy, client := proxied(t)
	s, key := newStore(t, client, redisstore.WithBudget(brief)), redistest.Prefix(t)
	decidesAgain(t, s, key)
	proxy.Delay(200 * time.Millisecond)
	var calls tally
	calls.load(5, s, request(key, 1000, 1))
	if n := calls.failed(); n != 20 {
		t.Errorf("%d of 20 calls failed, want all", n)
	}
	calls.wantInTime(t, brief)
	proxy.Delay(0)
	decidesAgain(t, s, key)
	phantoms := charged(t, client, key)
	calls.wantCharged(t, phantoms)
	return fmt.Sprintf("%v; %d charged", &calls, phantoms)
}

func noDNS(t *testing.T) string {
	var gone atomic.Bool
	server := redistest.Standalone(t)
	resolver := &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("no name server answers")
	}}
	dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
		d := net.Dialer{}
		if gone.Load() {
			d.Resolver = resolver
			return d.DialContext(ctx, network, "redis.test:6379")
		}
		return d.DialContext(ctx, network, server.Addr())
	}
	client := redis.NewClient(&redis.Options{Dialer: dial, DialerRetries: 1})
	t.Cleanup(func() { client.Close() })
	s, key := newStore(t, client, redisstore.WithBudget(short)), redistest.Prefix(t)
	gone.Store(true)
	var calls tally
	calls.load(5, s, request(key, 1000, 1))
	if n := calls.unavailable.Load(); n != 20 {
		t.Errorf("%v, want 20 unavailable; the last error: %v", &calls, calls.err)
	}
	calls.wantInTime(t, short)
	gone.Store(false)
	decidesAgain(t, s, key)
	if n := charged(t, client, key); n != 0 {
		t.Errorf("%d charged, want 0", n)
	}
	return calls.String()
}

func restarted(t *testing.T) string {
	server := redistest.Start(t)
	client := server.Client(t, func(o *redis.Options) { o.PoolSize = 10 })
	s := newStore(t, client)
	var before, after tally
	before.load(20, s, request("rl:a", 1000, 1))
	before.wantDecided(t)
	idle := client.PoolStats().IdleConns
	server.Kill(t)
	server.Restart(t)
	for range 20 {
		after.take(s, request("rl:a", 1000, 1))
	}
	if n := after.failed(); n > 1 {
		t.Errorf("%v after a restart: %d calls failed, want at most 1; the last error: %v", &after, n, after.err)
	}
	after.wantCharged(t, charged(t, server.Client(t), "rl:a"))
	return fmt.Sprintf("%d idle connections; %v", idle, &after)
}

func maxClients(t *testing.T) string {
	server := redistest.Start(t)
	ctx := context.Background()
	admin := server.Client(t, func(o *redis.Options) { o.PoolSize = 1 })
	if err := admin.ConfigSet(ctx, "maxclients", "1").Err(); err != nil {
		t.Fatal(err)
	}
	s := newStore(t, server.Client(t, func(o *redis.Options) { o.DialerRetries = 1 }))
	var calls tally
	calls.take(s, request("rl:a", 10, 1))
	if calls.unavailable.Load() != 1 {
		t.Errorf("Take = %v, want an error of class %v", calls.err, store.Unavailable)
	}
	if n := charged(t, admin, "rl:a"); n != 0 {
		t.Errorf("%d charged, want 0", n)
	}
	if err := admin.ConfigSet(ctx, "maxclients", "100").Err(); err != nil {
		t.Fatal(err)
	}
	decidesAgain(t, s, "rl:a")
	return fmt.Sprint(calls.err)
}

func frozenAndResumed(t *testing.T) string {
	server := redistest.Start(t)
	client := server.Client(t, func(o *redis.Options) { o.ReadTimeout = time.Minute })
	s := newStore(t, client, redisstore.WithBudget(brief))
	decidesAgain(t, s, "rl:a")
	var calls tally
	calls.load(1, s, request("rl:a", 100, 1))
	server.Freeze(t)
	calls.load(3, s, request("rl:a", 100, 1))
	calls.wantInTime(t, brief)
	server.Resume(t)
	decidesAgain(t, s, "rl:a")
	n := charged(t, client, "rl:a")
	calls.wantCharged(t, n)
	return fmt.Sprintf("%v; %d charged", &calls, n)
}
