package redisstore_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/redisstore"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/ratelimit/storetest"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
)

func resharding(t *testing.T) string {
	cluster := redistest.StartCluster(t)
	client := cluster.Client(t)
	s := newStore(t, client)
	req := request("rl:moving", 1_000_000, 1)
	take(t, s, req)
	var calls tally
	moves := 0
	calls.during(func() {
		for ; moves < 4; moves++ {
			moveSlot(t, cluster, req.Key)
			calls.take(s, req)
		}
	}, s, req)
	calls.wantDecided(t)
	calls.wantCharged(t, charged(t, client, req.Key)-1)
	return fmt.Sprintf("%d moves; %v", moves, &calls)
}

// moveSlot moves the slot of key, and key with it, from its master to another.
func moveSlot(t *testing.T, cluster *redistest.Cluster, key string) {
	t.Helper()
	ctx := context.Background()
	from, to := owner(t, cluster, key)
	set := func(node *redistest.Server, what string, id string) {
		t.Helper()
		do(t, node.Client(t), "cluster", "setslot", redisstore.Slot(key), what, id)
	}
	set(to, "importing", nodeID(t, from))
	set(from, "migrating", nodeID(t, to))
	host, port, _ := net.SplitHostPort(to.Addr())
	if err := from.Client(t).Migrate(ctx, host, port, key, 0, 10*time.Second).Err(); err != nil {
		t.Fatal(err)
	}
	set(to, "node", nodeID(t, to))
	set(from, "node", nodeID(t, to))
	if err := redistest.Poll(func() error { // until every master knows
		for _, node := range cluster.Masters {
			err := node.Client(t).Get(ctx, key).Err()
			if moved := redis.HasErrorPrefix(err, "MOVED"); moved != (node != to) || moved && !strings.HasSuffix(err.Error(), to.Addr()) {
				return fmt.Errorf("%s says %w of a slot that %s has", node.Addr(), err, to.Addr())
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func clusterDown(t *testing.T) string {
	cluster := redistest.StartCluster(t)
	client := cluster.Client(t)
	s := newStore(t, client)
	const key = "rl:a"
	take(t, s, request(key, 100, 1))
	master, _ := owner(t, cluster, key)
	do(t, master.Client(t), "cluster", "delslots", redisstore.Slot(key))
	var calls tally
	calls.load(5, s, request(key, 100, 1))
	if n := calls.unavailable.Load(); n != 20 {
		t.Errorf("%v, want 20 unavailable; the last error: %v", &calls, calls.err)
	}
	failed := calls.err
	do(t, master.Client(t), "cluster", "addslots", redisstore.Slot(key))
	decidesAgain(t, s, key)
	if n := charged(t, client, key); n != 1 {
		t.Errorf("%d charged, want 1: none of the refused calls", n)
	}
	return fmt.Sprintf("%v; %v", &calls, failed)
}

// lostGiveBacks has calls denied in one slot of three, while one node executes give-backs whose replies are lost: what
// nobody was admitted for is charged to no sliding log in the end, and to the compact log at most once for each script that was
// cut off, by reading the keys.
func lostGiveBacks(t *testing.T) string {
	f := &faults{}
	cluster := redistest.NewCluster(t)
	client := cluster.Client(t, func(o *redis.ClusterOptions) { o.Dialer, o.ReadTimeout = f.dial, patience })
	s, plain := newStore(t, client, redisstore.WithBudget(brief)), cluster.Client(t)
	p := redistest.Prefix(t)
	full, log := request(p+"full", 1, 1), request(p+"log", 1000, 1)
	packed := storetest.Requests(t, p, 1000, time.Hour)["algo=compact-log"]
	if packed.Key == "" {
		t.Fatal("there is no compact log")
	}
	take(t, newStore(t, plain), full)
	var scripts, cut atomic.Int64 // on one node
	var every atomic.Int64        // how many of them there are to each whose connection breaks
	node := masterOf(t, plain, log.Key)
	f.only = func(addr string) bool {
		n := every.Load()
		if addr != node || n == 0 || scripts.Add(1)%n != 0 {
			return false
		}
		cut.Add(1)
		return true
	}
	var calls tally
	for _, phase := range []struct {
		fault fault
		every int64 // 2 spares the reservation of a lone call and breaks its give-back, which is then repeated
	}{{cutBefore, 2}, {cutAfter, 2}, {cutAfter, 1}, {cutBefore, 1}, {cutBefore, 3}} {
		f.always.Store(int32(phase.fault))
		every.Store(phase.every)
		for range 5 {
			calls.take(s, full, log, packed)
		}
		calls.load(5, s, full, log, packed)
	}
	every.Store(0)
	if n := calls.allowed.Load(); n != 0 {
		t.Errorf("%d calls were admitted by a full limit, want 0", n)
	}
	if err := redistest.Poll(func() error {
		if n := plain.ZCard(context.Background(), log.Key).Val(); n != 0 {
			return fmt.Errorf("%d entries are charged for denied calls, want 0", n)
		}
		if n := plain.Exists(context.Background(), packed.Key).Val(); n != 0 {
			out := take(t, newStore(t, plain), peek(packed))
			if left := out.Rules[0].Remaining; 1000-left > cut.Load() {
				return fmt.Errorf("%d of 1,000 remaining in the compact log, want all but the %d at most that were cut off", left, cut.Load())
			}
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	return fmt.Sprintf("%d scripts cut off; %v; 0 charged to the sliding log in the end", cut.Load(), &calls)
}

func peek(req store.Request) store.Request {
	req.Cost = 0
	return req
}

// masterOf is the address of the master of key.
func masterOf(t *testing.T, client *redis.ClusterClient, key string) string {
	t.Helper()
	master, err := client.MasterForKey(context.Background(), key)
	if err != nil {
		t.Fatal(err)
	}
	return master.Options().Addr
}

func promotion(t *testing.T) string {
	sentinel := redistest.StartSentinel(t)
	return failOverUnderLoad(t, sentinel.Client(t), sentinel.Master, sentinel.Replica.Client(t), "rl:a")
}

func clusterPromotion(t *testing.T) string {
	cluster := redistest.StartCluster(t)
	const key = "rl:a"
	master, _ := owner(t, cluster, key)
	replica := cluster.Replicas[slices.Index(cluster.Masters, master)]
	next := replica.Client(t, func(o *redis.Options) {
		o.OnConnect = func(ctx context.Context, conn *redis.Conn) error { return conn.ReadOnly(ctx).Err() }
	})
	return failOverUnderLoad(t, cluster.Client(t), master, next, key)
}

// failOverUnderLoad kills the master of key while 4 callers use up its limit, and has next, which follows it, come in its place. No more
// are admitted than the limit, and as many as next did not get to know of.
func failOverUnderLoad(t *testing.T, client redis.UniversalClient, master *redistest.Server, next *redis.Client, key string) string {
	s := newStore(t, client, redisstore.WithBudget(brief))
	const limit, callers = 2000, 4
	req := request(key, limit, 1)
	var calls tally
	lost := int64(0)
	calls.during(func() {
		if err := redistest.Poll(func() error {
			if n := calls.allowed.Load(); n < limit/4 {
				return fmt.Errorf("%d admitted, want a load", n)
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
		master.Kill(t)
		before, gone := calls.allowed.Load(), time.Now()
		decidesAgain(t, s, req.Key)
		lost = max(0, before+callers-chargedUntil(t, next, req.Key, gone)) // each caller may have one more that it has not counted yet
		if err := redistest.Poll(func() error {
			if calls.denied.Load() == 0 {
				return fmt.Errorf("%v, want the limit reached", &calls)
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
	}, s, req)
	if n := calls.allowed.Load(); n > limit+lost {
		t.Errorf("%d admitted, want at most %d and the %d writes lost", n, limit, lost)
	}
	if calls.failed() == 0 {
		t.Error("no call failed, want some: has the test killed the master?")
	}
	if n := calls.misconfigured.Load(); n > 0 {
		t.Errorf("%d calls were misconfigured, want 0; the last error: %v", n, calls.err)
	}
	return fmt.Sprintf("%v of %d; at most %d writes lost", &calls, limit, lost)
}

// chargedUntil is how many entries of a log are no later than a time.
func chargedUntil(t *testing.T, client redis.Cmdable, key string, until time.Time) int64 {
	t.Helper()
	n, err := client.ZCount(context.Background(), key, "-inf", fmt.Sprint(until.UnixMicro())).Result()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// replicated starts a master and a replica, and waits until the replica has n entries of key.
func replicated(t *testing.T, key string, n int64, s func(master *redistest.Server)) (master, replica *redistest.Server) {
	t.Helper()
	master = redistest.Start(t)
	host, port, _ := net.SplitHostPort(master.Addr())
	replica = redistest.Start(t, "--replicaof", host+" "+port)
	s(master)
	follower := replica.Client(t)
	if err := redistest.Poll(func() error {
		if got := follower.ZCard(context.Background(), key).Val(); got != n {
			return fmt.Errorf("the replica has %d entries, want %d", got, n)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return master, replica
}

func lostWrites(t *testing.T) string {
	const limit = 50
	req := request("rl:a", limit, 1)
	var calls tally
	master, replica := replicated(t, req.Key, 10, func(master *redistest.Server) {
		for s, i := newStore(t, master.Client(t)), 0; i < 10; i++ {
			calls.take(s, req)
		}
	})
	do(t, replica.Client(t), "replicaof", "no", "one")
	old := newStore(t, master.Client(t))
	for range 25 { // which the replica does not get to know of
		calls.take(old, req)
	}
	master.Kill(t)
	calls.load(20, newStore(t, replica.Client(t)), req)
	calls.wantDecided(t)
	if n := calls.allowed.Load(); n != limit+25 {
		t.Errorf("%d admitted, want %d and the 25 writes lost", n, limit)
	}
	return fmt.Sprintf("%v of %d; 25 writes lost", &calls, limit)
}

func splitBrain(t *testing.T) string {
	const limit = 50
	req := request("rl:a", limit, 1)
	var calls tally
	master, replica := replicated(t, req.Key, 10, func(master *redistest.Server) {
		for s, i := newStore(t, master.Client(t)), 0; i < 10; i++ {
			calls.take(s, req)
		}
	})
	do(t, replica.Client(t), "replicaof", "no", "one")
	var both sync.WaitGroup
	for _, server := range []*redistest.Server{master, replica} {
		s := newStore(t, server.Client(t))
		both.Go(func() { calls.load(20, s, req) })
	}
	both.Wait()
	calls.wantDecided(t)
	if n := calls.allowed.Load(); n > 2*limit || n <= limit {
		t.Errorf("%d admitted by two masters, want more than %d and at most %d", n, limit, 2*limit)
	}
	return fmt.Sprintf("%v of %d", &calls, limit)
}

// skewedReplica shifts the clock under the state, as a promotion does to a server whose clock is off.
func skewedReplica(t *testing.T) string {
	client := redistest.Standalone(t).Client(t)
	const limit, skew, window = 10, 5 * time.Second, 3 * time.Second
	use := func(s storetest.Subject, req store.Request) (admitted int64) {
		for range 3 * limit {
			if take(t, s.Store, req).Allowed {
				admitted++
			}
		}
		return admitted
	}
	worst := int64(0)
	for name := range storetest.Requests(t, "", limit, window) {
		ahead := heldClock(client)(t)
		req := storetest.Requests(t, ahead.Prefix+"ahead", limit, window)[name]
		n := use(ahead, req)
		ahead.Clock.Move(skew)
		n += use(ahead, req)
		if worst = max(worst, n); n > 2*limit+limit*strictlyMore(name) {
			t.Errorf("%s: %d admitted around a clock that jumps ahead, want at most %d", name, n, 2*limit)
		}
		behind := heldClock(client)(t)
		req = storetest.Requests(t, behind.Prefix+"behind", limit, window)[name]
		use(behind, req)
		behind.Clock.Move(-skew)
		if n := use(behind, req); n > limit {
			t.Errorf("%s: %d admitted after a clock that jumps back, want at most %d", name, n, limit)
		}
		behind.Clock.Move(skew + 2*window + time.Second)
		if n := use(behind, req); n == 0 {
			t.Errorf("%s: nothing is admitted once the clock has caught up", name)
		}
	}
	return fmt.Sprintf("ahead: at most %d admitted of %d; behind: decides again", worst, limit)
}

// strictlyMore is how many times its limit an algorithm may admit beside the bound, which a queue does: it lets in
// what it delays.
func strictlyMore(name string) int64 {
	if strings.Contains(name, "wait") {
		return 1
	}
	return 0
}
