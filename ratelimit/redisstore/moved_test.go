package redisstore_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/redisstore"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
)

// disputed has a slot move of which the master that had it is told before the one that gets it: each names the other. Calls are unavailable
// and not charged, whatever redirections the client follows, and are decided once both agree.
func disputed(t *testing.T) string {
	happened := ""
	for _, redirects := range []int{0, -1} { // go-redis's own number, and none
		cluster := redistest.StartCluster(t)
		client := cluster.Client(t, func(o *redis.ClusterOptions) { o.MaxRedirects = redirects })
		s, key := newStore(t, client), "rl:disputed"
		decidesAgain(t, s, key)
		from, to := owner(t, cluster, key)
		slot := redisstore.Slot(key)
		do(t, to.Client(t), "cluster", "setslot", slot, "importing", nodeID(t, from))
		do(t, from.Client(t), "cluster", "setslot", slot, "migrating", nodeID(t, to))
		do(t, from.Client(t), "cluster", "setslot", slot, "node", nodeID(t, to))
		var calls tally
		calls.load(5, s, request(key, 100, 1))
		if n := calls.unavailable.Load(); n != 20 {
			t.Errorf("MaxRedirects %d: %v, want 20 unavailable; the last error: %v", redirects, &calls, calls.err)
		}
		if resting := s.Resting(); len(resting) > 0 {
			t.Errorf("MaxRedirects %d: %q are given a rest, want none for one of their slots", redirects, resting)
		}
		do(t, to.Client(t), "cluster", "setslot", slot, "node", nodeID(t, to))
		decidesAgain(t, s, key)
		if n := charged(t, to.Client(t), key); n != 0 {
			t.Errorf("MaxRedirects %d: %d charged, want 0", redirects, n)
		}
		happened = fmt.Sprintf("%v; %v", &calls, calls.err)
	}
	return happened
}

// TestMovedWithoutRedirections holds that a client which follows no redirection finds a slot that has moved all the same.
func TestMovedWithoutRedirections(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	client := cluster.Client(t, func(o *redis.ClusterOptions) { o.MaxRedirects, o.DialerRetries = -1, 1 })
	s, key := newStore(t, client), "rl:moving"
	take(t, s, request(key, 100, 1))
	moveSlot(t, cluster, key)
	if err := redistest.Poll(func() error {
		_, err := store.Take(context.Background(), s, []store.Request{request(key, 100, 0)}, false)
		if err != nil && classOf(err) != store.Unavailable {
			t.Errorf("Take of a slot that has moved = %v, want an error of class %v until the client knows", err, store.Unavailable)
		}
		return err
	}); err != nil {
		t.Errorf("calls fail for good after their slot has moved: %v", err)
	}
	if n := charged(t, client, key); n != 1 {
		t.Errorf("%d charged, want 1", n)
	}
}

// TestRefusalOfOneServer holds that a server which no longer knows the client explains nothing of another one whose connections break.
func TestRefusalOfOneServer(t *testing.T) {
	t.Parallel()
	all := masters(t)
	locked, sound := all.nodes[0], all.nodes[1]
	proxy := redistest.NewProxy(t, sound.Addr())
	client := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs:         []string{all.nodes[2].Addr()},
		DialerRetries: 1,
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			if addr == sound.Addr() {
				addr = proxy.Addr()
			}
			return new(net.Dialer).DialContext(ctx, network, addr)
		},
	})
	t.Cleanup(func() { client.Close() })
	s := newStore(t, client)
	keyAt := func(addr string) string {
		for i := 0; ; i++ {
			key := fmt.Sprint("rl:", i)
			if masterOf(t, client, key) == addr {
				return key
			}
		}
	}
	of := map[string]string{"locked": keyAt(locked.Addr()), "sound": keyAt(sound.Addr())}
	ask := func(server string) error {
		_, err := store.Take(context.Background(), s, []store.Request{request(of[server], 1000, 1)}, false)
		return err
	}
	for server := range of {
		if err := ask(server); err != nil {
			t.Fatal(err)
		}
	}
	admin := locked.Client(t)
	do(t, admin, "config", "set", "requirepass", "new")
	do(t, admin, "auth", "new")
	do(t, admin, "client", "kill", "type", "normal", "skipme", "yes")
	if err := redistest.Poll(func() error {
		if err := ask("locked"); classOf(err) != store.Misconfigured {
			return fmt.Errorf("Take at a server that has a password now = %w, want an error of class %v", err, store.Misconfigured)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	proxy.Always(redistest.CutAfter, "evalsha", "eval")
	if err := redistest.Poll(func() error {
		ask("locked")
		if err := ask("sound"); classOf(err) == store.Misconfigured {
			t.Fatalf("Take whose connection breaks = %v, want no error of another server's", err)
		}
		if got := s.Resting(); !slices.Equal(got, []string{sound.Addr()}) {
			return fmt.Errorf("Resting() = %q, want %s, whose connections break", got, sound.Addr())
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}
