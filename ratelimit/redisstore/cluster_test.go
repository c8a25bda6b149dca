package redisstore_test

import (
	"context"
	"fmt"
	"net"
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
	"github.com/rlgen/rlgen/rules"
)

// TestLostReservation makes one slot of a cluster lose its reply, or not answer: nothing stays charged in any.
func TestLostReservation(t *testing.T) {
	t.Parallel()
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
			if _, err := store.Take(context.Background(), brief, requests, true); classOf(err) != store.Indeterminate {
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
	t.Parallel()
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
		_, err := store.Take(context.Background(), s, []store.Request{request(key, 100, 1), request(other, 100, 1)}, false)
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
	t.Parallel()
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
		out, err = store.Take(context.Background(), brief, []store.Request{request("rl:a", 100, 0)}, true)
		return err
	}); err != nil {
		t.Fatalf("calls fail for good after a failover: %v", err)
	}
	if out.Rules[0].Remaining != 93 {
		t.Errorf("%d remaining after the failover, want 93", out.Rules[0].Remaining)
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
		_, err := store.Take(context.Background(), s, req, false)
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

// TestManyDeniedAcrossSlots is the denial of TestDeniedAcrossSlots for more callers at once than any pool has
// connections: an id that has used up its own limit charges nobody else's, however hard it tries.
func TestManyDeniedAcrossSlots(t *testing.T) {
	cluster := redistest.NewCluster(t)
	client := cluster.Client(t)
	for budget, crowd := range map[time.Duration]int{100 * time.Millisecond: 1000, 10 * time.Second: 200} {
		t.Run(budget.String(), func(t *testing.T) {
			s := newStore(t, client, redisstore.WithBudget(budget), redisstore.WithGiveBackTime(5*time.Minute))
			patient := newStore(t, cluster.Client(t)) // which does not wait for connections behind those callers
			p := redistest.Prefix(t)
			user, global, ip := request(p+"user", 1, 1), request(p+"global", 100_000, 1), request(p+"ip", 100_000, 1)
			take(t, patient, user)
			var allowed atomic.Int64
			var callers sync.WaitGroup
			for range crowd {
				callers.Go(func() {
					if out, err := store.Take(context.Background(), s, []store.Request{user, global, ip}, false); err == nil && out.Allowed {
						allowed.Add(1)
					}
				})
			}
			callers.Wait()
			if n := allowed.Load(); n != 0 {
				t.Errorf("%d calls were allowed, want 0", n)
			}
			if err := redistest.Poll(func() error { // what goes on after its call ends soon
				global.Cost, ip.Cost = 0, 0
				out := take(t, patient, global, ip)
				if a, b := 100_000-out.Rules[0].Remaining, 100_000-out.Rules[1].Remaining; a+b != 0 {
					return fmt.Errorf("denied calls left %d and %d charged, want 0", a, b)
				}
				return nil
			}); err != nil {
				t.Error(err)
			}
		})
	}
}

// What somebody must mend is told even where another slot denies: a denial would hide it.
func TestMisconfiguredAcrossSlots(t *testing.T) {
	client := redistest.NewCluster(t).Client(t)
	s, p := newStore(t, client), redistest.Prefix(t)
	full, foreign := request(p+"full", 1, 1), request(p+"foreign", 10, 1)
	take(t, s, full)
	if err := client.HSet(context.Background(), foreign.Key, "a", "b").Err(); err != nil {
		t.Fatal(err)
	}
	_, err := store.Take(context.Background(), s, []store.Request{full, foreign, request(p+"other", 10, 1)}, true)
	if classOf(err) != store.Misconfigured {
		t.Errorf("Take with a foreign key in one slot = %v, want an error of class %v", err, store.Misconfigured)
	}
}

// TestDeniedElsewhereLosesNothing has calls that another slot denies take of a bucket and give it back at once, again and again while it fills: it fills as if they
// had never been made.
func TestDeniedElsewhereLosesNothing(t *testing.T) {
	client := redistest.NewCluster(t).Client(t)
	clock := storetest.NewClock()
	var reading sync.Mutex
	s, p := newStore(t, client, redisstore.WithClock(func() time.Time { // every script comes a millisecond after the one before
		reading.Lock()
		defer reading.Unlock()
		clock.Move(time.Millisecond)
		return clock.Now()
	})), redistest.Prefix(t)
	bucket := store.Request{Key: p + "bucket", Algorithm: rules.GCRA, Rules: []rules.Rule{{Count: 10, Window: time.Second}}, Cost: 5}
	full := request(p+"full", 1, 1)
	if redisstore.Slot(bucket.Key) == redisstore.Slot(full.Key) {
		full.Key += "."
	}
	take(t, s, full)
	take(t, s, bucket)
	bucket.Cost = 1
	for range 200 {
		if out := take(t, s, bucket, full); out.Allowed {
			t.Fatal("allowed with an empty limit")
		}
	}
	bucket.Cost = 10
	if out := take(t, s, bucket); !out.Allowed {
		t.Errorf("what filled half a bucket is charged yet after more than the half second in which that comes back: %+v", out)
	}
}
