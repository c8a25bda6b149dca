package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/internal/redistest"
	"github.com/rlgen/rlgen/ratelimit/redisstore"
	"github.com/rlgen/rlgen/ratelimit/store"
)

// classOf is the class of a store's error, or -1.
func classOf(err error) store.Class {
	var failed *store.Error
	if errors.As(err, &failed) {
		return failed.Class
	}
	return 255
}

// patience is how long faulty clients wait for a reply.
const patience = 700 * time.Millisecond

// faultyClients are clients of the servers that the package's tests share, over connections that fail as told.
func faultyClients(t *testing.T, f *faults) map[string]redis.UniversalClient {
	return map[string]redis.UniversalClient{
		"standalone": redistest.Standalone(t).Client(t, func(o *redis.Options) { o.Dialer, o.ReadTimeout = f.dial, patience }),
		"cluster": redistest.NewCluster(t).Client(t, func(o *redis.ClusterOptions) {
			o.Dialer, o.ReadTimeout = f.dial, patience
		}),
		"ring": func() redis.UniversalClient {
			ring := redis.NewRing(&redis.RingOptions{
				Addrs:       map[string]string{"one": redistest.Standalone(t).Addr()},
				Dialer:      f.dial,
				ReadTimeout: patience,
			})
			t.Cleanup(func() { ring.Close() })
			return ring
		}(),
	}
}

// TestLostReply holds that a script is executed at most once, whatever the client's own retries are.
func TestLostReply(t *testing.T) {
	f := &faults{}
	for name, client := range faultyClients(t, f) {
		for _, test := range []struct {
			fault   fault
			charged int64
		}{{cutBefore, 0}, {cutAfter, 1}, {stall, 1}} {
			t.Run(fmt.Sprint(name, test.fault), func(t *testing.T) {
				s, key := newStore(t, client), redistest.Prefix(t)
				take(t, s, request(key, 10, 0)) // connects and loads the script
				sent := f.scripts.Load()
				f.next.Store(int32(test.fault))
				_, err := s.Take(context.Background(), []store.Request{request(key, 10, 1)}, true)
				if got := classOf(err); got != store.Indeterminate {
					t.Errorf("Take without an answer = %v, want an error of class %v", err, store.Indeterminate)
				}
				if n := int64(f.scripts.Load() - sent); n != test.charged {
					t.Errorf("%d scripts sent, want %d", n, test.charged)
				}
				if out := take(t, s, request(key, 10, 0)); out.Rules[0].Remaining != 10-test.charged {
					t.Errorf("%d remaining, want %d", out.Rules[0].Remaining, 10-test.charged)
				}
			})
		}
	}
}

// TestGiveBackIsRepeated holds that a give-back is sent until it has an answer.
func TestGiveBackIsRepeated(t *testing.T) {
	f := &faults{}
	for name, client := range faultyClients(t, f) {
		for _, lost := range []fault{cutBefore, cutAfter} {
			t.Run(fmt.Sprint(name, lost), func(t *testing.T) {
				s, key := newStore(t, client), redistest.Prefix(t)
				out := take(t, s, request(key, 10, 3))
				f.next.Store(int32(lost))
				if err := s.GiveBack(context.Background(), out.Receipt); err != nil {
					t.Errorf("GiveBack = %v, want nil", err)
				}
				if out := take(t, s, request(key, 10, 0)); out.Rules[0].Remaining != 10 {
					t.Errorf("%d remaining, want 10", out.Rules[0].Remaining)
				}
			})
		}
	}
}

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

// TestLostReservation makes one slot of a cluster lose its reply, or not answer: nothing stays charged in any.
func TestLostReservation(t *testing.T) {
	f := &faults{}
	client := faultyClients(t, f)["cluster"]
	for _, lost := range []fault{cutAfter, stall} {
		t.Run(fmt.Sprint(lost), func(t *testing.T) {
			s := newStore(t, client)
			brief := newStore(t, client, redisstore.WithBudget(100*time.Millisecond))
			p := redistest.Prefix(t)
			requests := []store.Request{request(p+"a", 10, 1), request(p+"b", 10, 2), request(p+"c", 10, 3)}
			for _, req := range requests {
				req.Cost = 0
				take(t, s, req)
			}
			f.next.Store(int32(lost))
			if _, err := brief.Take(context.Background(), requests, true); classOf(err) != store.Indeterminate {
				t.Errorf("Take = %v, want an error of class %v", err, store.Indeterminate)
			}
			if err := redistest.Poll(func() error {
				for _, req := range requests {
					req.Cost = 0
					if left := take(t, s, req).Rules[0].Remaining; left != 10 {
						return fmt.Errorf("%s: %d remaining, want 10", req.Key, left)
					}
				}
				return nil
			}); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestDeniedAcrossSlots holds that a denial in one slot leaves nothing charged in the others once Take returns, and
// that the answer already says so.
func TestDeniedAcrossSlots(t *testing.T) {
	client := redistest.NewCluster(t).Client(t)
	subject := heldClock(client)(t)
	s, p := subject.Store, subject.Prefix
	full := request(p+"full", 1, 1)
	var requests []store.Request
	for _, name := range []string{"a", "b", "c", "d"} {
		requests = append(requests, request(p+name, 10, 2))
	}
	take(t, s, full, requests[0])
	subject.Clock.Move(time.Minute)
	before := ""
	for _, req := range requests {
		before += members(t, client, req.Key)
	}
	out := take(t, s, append(requests[:2:2], full, requests[2], requests[3])...)
	if out.Allowed {
		t.Fatal("allowed with an empty limit")
	}
	want := []store.RuleOutcome{
		{Remaining: 8, ResetAfter: 59 * time.Minute},
		{Remaining: 10},
		{Remaining: 0, RetryAfter: 59 * time.Minute, ResetAfter: 59 * time.Minute},
		{Remaining: 10},
		{Remaining: 10},
	}
	for i := range want {
		if out.Rules[i] != want[i] {
			t.Errorf("rule %d = %+v, want %+v", i, out.Rules[i], want[i])
		}
	}
	after := ""
	for _, req := range requests {
		after += members(t, client, req.Key)
	}
	if after != before {
		t.Errorf("state after a denied call = %s, want that before, %s", after, before)
	}
}

// members is what a key holds.
func members(t *testing.T, client redis.Cmdable, key string) string {
	all, err := client.ZRangeWithScores(context.Background(), key, 0, -1).Result()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintln(all)
}

// TestSharedSlot holds that keys of one slot are one script, on a cluster too.
func TestSharedSlot(t *testing.T) {
	f := &faults{}
	client := faultyClients(t, f)["cluster"]
	s, p := newStore(t, client), redistest.Prefix(t)
	requests := []store.Request{request(p+"{x}a", 10, 1), request(p+"{x}b", 10, 1), request(p+"{x}c", 10, 1)}
	take(t, s, requests...)
	sent := f.scripts.Load()
	take(t, s, requests...)
	if n := f.scripts.Load() - sent; n != 1 {
		t.Errorf("%d scripts for keys of one slot, want 1", n)
	}
}

func TestSlot(t *testing.T) {
	client := redistest.NewCluster(t).Client(t)
	for _, key := range []string{
		"", "a", "rl:user=42:orders.Orders-Create", "{a}b", "x{a}b", "{}a", "a{}b{c}", "{{a}}", "a{b", "a}b{c}d", "\x00\xff", "123456789",
	} {
		want, err := client.ClusterKeySlot(context.Background(), key).Result()
		if err != nil {
			t.Fatal(err)
		}
		if got := redisstore.Slot(key); int64(got) != want {
			t.Errorf("slot(%q) = %d, want %d", key, got, want)
		}
	}
}

// TestClusterChanges moves a slot and then kills its master, while one store goes on asking.
func TestClusterChanges(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	cluster := redistest.StartCluster(t)
	client := cluster.Client(t)
	s := newStore(t, client)
	const key = "rl:moving"
	take(t, s, request(key, 100, 1))
	from, to := owner(t, cluster, key)
	const other = "rl:{" + key + "}" // a key of the same slot

	setSlot := func(node *redistest.Server, what string, id string) {
		t.Helper()
		if err := node.Client(t).Do(context.Background(), "cluster", "setslot", redisstore.Slot(key), what, id).Err(); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("ASK", func(t *testing.T) {
		setSlot(to, "importing", nodeID(t, from))
		setSlot(from, "migrating", nodeID(t, to))
		if out := take(t, s, request(other, 100, 1)); out.Rules[0].Remaining != 99 {
			t.Errorf("%d of 100 remaining after one call of a key that has moved, want 99", out.Rules[0].Remaining)
		}
		if out := take(t, s, request(key, 100, 1)); out.Rules[0].Remaining != 98 {
			t.Errorf("%d of 100 remaining after two calls of a key that has not moved, want 98", out.Rules[0].Remaining)
		}
	})
	t.Run("TRYAGAIN", func(t *testing.T) {
		_, err := s.Take(context.Background(), []store.Request{request(key, 100, 1), request(other, 100, 1)}, false)
		if classOf(err) != store.Unavailable || !strings.Contains(err.Error(), "TRYAGAIN") {
			t.Errorf("Take of keys on both sides of a moving slot = %v, want TRYAGAIN, of class %v", err, store.Unavailable)
		}
	})
	t.Run("MOVED", func(t *testing.T) {
		host, port, _ := net.SplitHostPort(to.Addr())
		if err := from.Client(t).Migrate(context.Background(), host, port, key, 0, time.Second).Err(); err != nil {
			t.Fatal(err)
		}
		setSlot(to, "node", nodeID(t, to))
		setSlot(from, "node", nodeID(t, to))
		if out := take(t, s, request(key, 100, 1), request(other, 100, 1)); out.Rules[0].Remaining != 97 || out.Rules[1].Remaining != 98 {
			t.Errorf("remaining after the slot has moved = %+v, want 97 and 98", out.Rules)
		}
	})
	t.Run("failover", func(t *testing.T) { failover(t, cluster, client, key) })
}

// TestSentinelFailover kills the master under load: the client finds the next one, and what was charged counts.
func TestSentinelFailover(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	sentinel := redistest.StartSentinel(t)
	client := sentinel.Client(t)
	s := newStore(t, client)
	take(t, s, request("rl:a", 100, 7))
	replica := sentinel.Replica.Client(t)
	if err := redistest.Poll(func() error {
		if n := replica.ZCard(context.Background(), "rl:a").Val(); n != 7 {
			return fmt.Errorf("the replica has %d members, want 7", n)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	sentinel.Master.Kill(t)
	brief := newStore(t, client, redisstore.WithBudget(100*time.Millisecond))
	var out store.Outcome
	if err := redistest.Poll(func() (err error) {
		out, err = brief.Take(context.Background(), []store.Request{request("rl:a", 100, 0)}, true)
		return err
	}); err != nil {
		t.Fatalf("calls fail for good after a failover: %v", err)
	}
	if out.Rules[0].Remaining != 93 {
		t.Errorf("%d remaining after the failover, want 93", out.Rules[0].Remaining)
	}
}

// TestKilledConnections kills the clients' connections under load: no call is charged more than once, and none is
// allowed without being charged.
func TestKilledConnections(t *testing.T) {
	server := redistest.Start(t)
	s := newStore(t, server.Client(t))
	key := "rl:killed"
	take(t, s, request(key, 1_000_000, 0))
	var allowed, lost atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 300 {
				_, err := s.Take(context.Background(), []store.Request{request(key, 1_000_000, 1)}, false)
				switch {
				case err == nil:
					allowed.Add(1)
				case classOf(err) == store.Indeterminate:
					lost.Add(1)
				case classOf(err) == store.Misconfigured:
					t.Errorf("Take = %v, want another class", err)
				}
			}
		})
	}
	finished := make(chan struct{})
	go func() { wg.Wait(); close(finished) }()
	admin := server.Client(t)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for done := false; !done; {
		select {
		case <-finished:
			done = true
		case <-tick.C:
			admin.Do(context.Background(), "client", "kill", "type", "normal", "skipme", "yes")
			admin.ScriptFlush(context.Background())
		}
	}
	charged := admin.ZCard(context.Background(), key).Val()
	if charged < allowed.Load() || charged > allowed.Load()+lost.Load() {
		t.Errorf("%d charged, want %d allowed and at most %d lost more", charged, allowed.Load(), lost.Load())
	}
}

// failover kills the master of key: calls fail while the cluster has none for it, and pass once it has one again.
func failover(t *testing.T, cluster *redistest.Cluster, client *redis.ClusterClient, key string) {
	s := newStore(t, client, redisstore.WithBudget(100*time.Millisecond))
	req := []store.Request{request(key, 1_000_000, 1)}
	master, _ := owner(t, cluster, key)
	master.Kill(t)
	failed := 0
	if err := redistest.Poll(func() error {
		_, err := s.Take(context.Background(), req, false)
		if err != nil {
			failed++
			if classOf(err) == store.Misconfigured {
				t.Errorf("Take = %v, want another class", err)
			}
		}
		return err
	}); err != nil {
		t.Fatalf("calls fail for good after a failover: %v", err)
	}
	if failed == 0 {
		t.Error("no call failed while the master was dead, want some: has the test killed it?")
	}
}

// owner returns the master of key, as the cluster has it now, and another.
func owner(t *testing.T, cluster *redistest.Cluster, key string) (master, other *redistest.Server) {
	t.Helper()
	for _, node := range cluster.Masters {
		err := node.Client(t).Get(context.Background(), key).Err()
		switch {
		case redis.HasErrorPrefix(err, "MOVED"):
			other = node
		default:
			master = node
		}
	}
	return master, other
}

func nodeID(t *testing.T, node *redistest.Server) string {
	t.Helper()
	id, err := node.Client(t).Do(context.Background(), "cluster", "myid").Text()
	if err != nil {
		t.Fatal(err)
	}
	return id
}
