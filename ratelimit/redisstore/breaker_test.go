package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/redisstore"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
	"github.com/rlgen/rlgen/testdata/suite"
)

// A server that does not decide is asked five times, and then by one call at a time until it decides again.
func TestBreaker(t *testing.T) {
	t.Parallel()
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

// shards are servers of which each decides some keys, through one client.
type shards struct {
	client redis.UniversalClient
	ill    *redistest.Server // one of them, which freezes
	nodes  []*redistest.Server
	of     func(key string) string // the address of the server that decides on a key
}

// soon has a client find out soon that a server does not answer, and others not take one for such that is only slow.
const soon = 2 * time.Second

// masters are those of a Cluster, which nobody replaces in the time of a test.
func masters(t *testing.T) shards {
	cluster := redistest.StartCluster(t)
	for _, n := range append(cluster.Masters[:3:3], cluster.Replicas...) {
		admin := n.Client(t)
		for _, option := range [][2]string{{"cluster-require-full-coverage", "no"}, {"cluster-node-timeout", "600000"}} {
			if err := admin.ConfigSet(t.Context(), option[0], option[1]).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	client := cluster.Client(t, func(o *redis.ClusterOptions) { o.ReadTimeout, o.DialTimeout, o.DialerRetries = soon, soon, 1 })
	return shards{client, cluster.Masters[0], cluster.Masters, func(key string) string { return masterOf(t, client, key) }}
}

// TestBreakerOfEachServer freezes one of the servers that share the keys: calls that the others decide are decided, all of them, and those
// that only the frozen one could decide fail without asking it, in the words that name it. Once it is back, it decides again.
func TestBreakerOfEachServer(t *testing.T) {
	t.Parallel()
	all := masters(t)
	s := newStore(t, all.client, redisstore.WithBudget(3*time.Second)) // which calls of the frozen one wait for
	var ill, well []string
	for i := 0; len(ill) < 60 || len(well) < 60; i++ {
		key := fmt.Sprintf("rl:key=%d", i)
		if all.of(key) == all.ill.Addr() {
			ill = append(ill, key)
		} else {
			well = append(well, key)
		}
	}
	var warm tally // a connection for each of those who call at once
	everyone := func(calls *tally, keys []string, more ...string) {
		var callers sync.WaitGroup
		for _, key := range keys {
			callers.Go(func() {
				requests := []store.Request{request(key, 1000, 1)}
				for _, other := range more {
					requests = append(requests, request(other, 1000, 1))
				}
				calls.take(s, requests...)
			})
		}
		callers.Wait()
	}
	everyone(&warm, well)
	everyone(&warm, ill)
	warm.wantDecided(t)
	quick := newStore(t, all.client, redisstore.WithBudget(short))
	decidesAgain(t, quick, well[0]) // and has learnt of the servers with it

	all.ill.Freeze(t)
	var first tally
	everyone(&first, ill[:10])
	if got := first.allowed.Load(); got != 0 {
		t.Errorf("a frozen server has decided %d calls", got)
	}
	var decided, refused, mixed tally
	rounds := 2
	if suite.Long() {
		rounds = 3
	}
	for range rounds {
		var all sync.WaitGroup
		all.Go(func() { everyone(&refused, ill) })
		all.Go(func() { everyone(&decided, well) })
		all.Go(func() { everyone(&mixed, well[:5], ill[0]) })
		all.Wait()
	}
	decided.wantDecided(t)
	t.Logf("%d calls of the others decided; of the frozen one: %v; of both: %v", decided.allowed.Load(), &refused, &mixed)
	for _, calls := range []*tally{&refused, &mixed} {
		if calls.allowed.Load() > 0 || calls.rest == nil || !strings.Contains(calls.rest.Error(), all.ill.Addr()) {
			t.Errorf("calls that need the frozen server: %v, %v, want none allowed, and an error that it is not asked, with its name", calls, calls.rest)
		}
	}

	rests(t, quick, ill[0], all.ill.Addr()) // soon and often, which of a longer budget might be missed

	all.ill.Resume(t)
	for _, key := range ill[:3] {
		decidesAgain(t, s, key)
	}
}

// rests fails the test unless the store comes to give the server named want a rest, and no other, once it has failed calls of key.
func rests(t *testing.T, s *redisstore.Store, key, want string) {
	t.Helper()
	if err := redistest.Poll(func() error { // a rest is over after a while, and a further call that fails begins it anew
		var calls tally
		var all sync.WaitGroup
		for range 5 { // at once, for each may last as long as its budget
			all.Go(func() { calls.take(s, request(key, 1000, 1)) })
		}
		all.Wait()
		if got := s.Resting(); !slices.Equal(got, []string{want}) {
			return fmt.Errorf("Resting() = %q after %v: %v, %v; want %s", got, &calls, calls.err, calls.rest, want)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

// TestRestingHasNames holds that a store says which server it does not ask, even where the client knows of one alone, or has found none yet.
func TestRestingHasNames(t *testing.T) {
	t.Parallel()
	hangUp := func(net.Conn) {}
	one, two := listen(t, hangUp), listen(t, hangUp)
	for name, test := range map[string]struct {
		client redis.UniversalClient
		want   string
	}{
		"client":         {redis.NewClient(&redis.Options{Addr: one, DialerRetries: 1}), one},
		"socket":         {redis.NewClient(&redis.Options{Network: "unix", Addr: "/nowhere/redis.sock", DialerRetries: 1}), "/nowhere/redis.sock"},
		"Sentinels":      {redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "main", SentinelAddrs: []string{one}, DialerRetries: 1}), "the master that the Sentinels name"},
		"Cluster":        {redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{one, two}, DialerRetries: 1}), one + ", " + two},
		"another client": {another{redis.NewClient(&redis.Options{Addr: one, DialerRetries: 1})}, "Redis"},
	} {
		t.Cleanup(func() { test.client.Close() })
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStore(t, test.client, redisstore.WithBudget(short))
			if got := s.Resting(); len(got) > 0 {
				t.Errorf("Resting() = %q before the first call, want none", got)
			}
			rests(t, s, "rl:a", test.want)
		})
	}
}

// another is a client that a program has made itself.
type another struct{ redis.UniversalClient }
