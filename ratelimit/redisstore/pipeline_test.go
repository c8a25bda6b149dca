package redisstore_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/redisstore"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
)

// company is how many callers of keys in slots of their own the tests bring together.
const company = 20

// pipe lets callers come together who ask one master for keys of several slots, brings them onto a pipeline that has not been written, and lets
// that go on once something has happened to it.
func (c *crowd) pipe(happens func()) (told []answer) {
	c.t.Helper()
	c.gather()
	var answers []<-chan answer
	for i := range company {
		answers = append(answers, c.join(c.t.Context(), true, request(c.near(fmt.Sprint("key", i)), 100, 1)))
	}
	c.aboard()
	happens()
	c.gate.before.open()
	for _, answer := range answers {
		told = append(told, <-answer)
	}
	return told
}

// Callers who ask one master for keys of several slots share a pipeline, and each slot's script fails by itself. What is written with a connection that breaks is executed once at most.
func TestPipeline(t *testing.T) {
	f := &faults{}
	cluster := redistest.NewCluster(t)
	client := cluster.Client(t, func(o *redis.ClusterOptions) { o.Dialer = f.dial })
	for _, test := range []struct {
		name      string
		happens   func(*crowd)
		class     store.Class
		remaining int64
		pipelines int32
	}{
		{"nothing happens", func(*crowd) {}, 255, 99, 1},
		{"the replies are lost", func(*crowd) { f.next.Store(int32(cutAfter)) }, store.Indeterminate, 99, 1},
		{"the scripts are lost", func(*crowd) { f.next.Store(int32(cutBefore)) }, store.Indeterminate, 100, 1},
		{"the script is not known", func(c *crowd) {
			c.client.(*redis.ClusterClient).ForEachMaster(t.Context(), func(ctx context.Context, master *redis.Client) error { return master.ScriptFlush(ctx).Err() })
		}, 255, 99, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newCrowd(t, client)
			pipelines, scripts := c.gate.pipelines.Load(), c.gate.scripts.Load()
			for i, told := range c.pipe(func() { test.happens(c) }) {
				if classOf(told.err) != test.class || told.err == nil && told.Rules[0].Remaining != 99 {
					t.Errorf("Take of key %d = %+v, %v, want an error of class %v, or else 99 remaining", i, told.Outcome, told.err, test.class)
				}
			}
			pipelines, scripts = c.gate.pipelines.Load()-pipelines, c.gate.scripts.Load()-scripts
			if want := redisstore.Aloft + company*test.pipelines; pipelines != test.pipelines || scripts != want {
				t.Errorf("%d callers took %d pipelines, of %d scripts with those before, want %d and %d", company, pipelines, scripts, test.pipelines, want)
			}
			for i := range company {
				if n := c.remaining(fmt.Sprint("key", i)); n != test.remaining {
					t.Errorf("%d of 100 remain of key %d, want %d", n, i, test.remaining)
				}
			}
		})
	}
	t.Run("one key is another program's", func(t *testing.T) {
		c := newCrowd(t, client)
		theirs := c.near("key7")
		told := c.pipe(func() { client.Set(t.Context(), theirs, "theirs", 0) })
		client.Del(t.Context(), theirs)
		for i := range told {
			if want := store.Class(255); i == 7 && classOf(told[i].err) != store.Misconfigured || i != 7 && classOf(told[i].err) != want {
				t.Errorf("Take of key %d = %v, want an error of key 7 alone", i, told[i].err)
			}
		}
	})
}

// A slot that has moved, or is about to, keeps nobody of other slots waiting, and is charged once.
func TestPipelineOfMovedSlots(t *testing.T) {
	cluster := redistest.StartCluster(t)
	for _, test := range []struct {
		name  string
		moves func(key string)
	}{
		{"moved", func(key string) { moveSlot(t, cluster, key) }},
		{"moving", func(key string) {
			from, to := owner(t, cluster, key)
			do(t, to.Client(t), "cluster", "setslot", redisstore.Slot(key), "importing", nodeID(t, from))
			do(t, from.Client(t), "cluster", "setslot", redisstore.Slot(key), "migrating", nodeID(t, to))
			host, port, _ := net.SplitHostPort(to.Addr())
			if err := from.Client(t).Migrate(t.Context(), host, port, key, 0, 10*time.Second).Err(); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newCrowd(t, cluster.Client(t))
			moved := c.near("key3")
			take(t, c, request(moved, 100, 1))
			told := c.pipe(func() { test.moves(moved) })
			for i := range told {
				if told[i].err != nil || !told[i].Allowed {
					t.Errorf("Take of key %d = %v, %v, want allowed", i, told[i].Allowed, told[i].err)
				}
			}
			if n := take(t, c, request(moved, 100, 0)).Rules[0].Remaining; n != 98 {
				t.Errorf("%d of 100 remain of the key that moves, want 98", n)
			}
		})
	}
}

// Crowds at a Cluster are admitted to the count exactly, of one hash tag as of many, whatever else
// shares their pipelines.
func TestPipelinesAreExact(t *testing.T) {
	t.Parallel()
	const callers, times = 256, 5
	client := redistest.NewCluster(t).Client(t)
	g := &gate{}
	client.AddHook(g)
	s, p := newStore(t, client, redisstore.WithBudget(10*time.Second)), redistest.Prefix(t)
	var hot, tagged, both, own atomic.Int64
	admit := func(n *atomic.Int64, requests ...store.Request) {
		if take(t, s, requests...).Allowed {
			n.Add(1)
		}
	}
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			for range times {
				admit(&hot, request(p+"hot", 200, 1))
				admit(&tagged, request(p+"{of}", 300, 1), request(p+fmt.Sprint("{of}", i), 3, 1))
				admit(&both, request(p+"two", 300, 1), request(p+fmt.Sprint("of", i), 1000, 1))
				admit(&own, request(p+fmt.Sprint(i), 3, 1))
			}
		})
	}
	all.Wait()
	if hot.Load() != 200 || tagged.Load() != 300 || both.Load() != 300 || own.Load() != callers*3 {
		t.Errorf("%d, %d, %d and %d admitted, want 200, 300, 300 and %d", hot.Load(), tagged.Load(), both.Load(), own.Load(), callers*3)
	}
	if g.pipelines.Load() == 0 {
		t.Errorf("%d callers have shared no pipeline", callers)
	}
}

// Callers whose connections are killed while the servers forget the script, and who partly leave, are charged once each at most, and everybody who is admitted is charged.
func TestPipelinesWhoseConnectionsAreKilled(t *testing.T) {
	const tags, callers, times, limit = 24, 48, 150, 150
	cluster := redistest.StartCluster(t)
	client := cluster.Client(t)
	s, plain := newStore(t, client, redisstore.WithBudget(time.Second)), cluster.Client(t)
	var nodes []*redis.Client
	for _, master := range cluster.Masters {
		nodes = append(nodes, master.Client(t))
	}
	kill := func() {
		for _, node := range nodes {
			node.Do(t.Context(), "client", "kill", "type", "normal", "skipme", "yes")
			node.ScriptFlush(t.Context())
		}
	}
	key := func(i int) string { return fmt.Sprintf("rl:{t%d}", i) }
	for i := range tags {
		take(t, s, request(key(i), limit, 0))
	}
	allowed, lost := make([]atomic.Int64, tags), make([]atomic.Int64, tags)
	var all sync.WaitGroup
	for g := range callers {
		all.Go(func() {
			for n := range times {
				if g == 0 {
					kill()
				}
				i := (g + n) % tags
				ctx, cancel := t.Context(), func() {}
				if n%7 == 0 {
					ctx, cancel = context.WithTimeout(ctx, time.Duration(n)*20*time.Microsecond)
				}
				out, err := store.Take(ctx, s, []store.Request{request(key(i), limit, 1)}, false)
				cancel()
				switch {
				case err == nil && out.Allowed:
					allowed[i].Add(1)
				case classOf(err) == store.Misconfigured:
					t.Errorf("Take = %v, want another class", err)
				case err != nil && classOf(err) != store.Unavailable:
					lost[i].Add(1)
				}
			}
		})
	}
	all.Wait()
	for i := range tags {
		charged, a, l := charged(t, plain, key(i)), allowed[i].Load(), lost[i].Load()
		if charged < a || charged > a+l || charged > limit {
			t.Errorf("%s: %d charged, want %d that were allowed, and of %d that were lost some", key(i), charged, a, l)
		}
		until(t, 0, "places for rides are taken", func() int { return redisstore.Rides(s, key(i))[0] })
	}
}

// A master that is killed while callers wait for it fails these within their budgets, and no other, and none of its calls is charged without having
// been told of.
func TestPipelinesToAKilledMaster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	for _, node := range slices.Concat(cluster.Masters, cluster.Replicas) {
		do(t, node.Client(t), "config", "set", "cluster-require-full-coverage", "no")
	}
	client := cluster.Client(t)
	s, plain := newStore(t, client), cluster.Client(t)
	var keys []string
	for i := range 64 {
		keys = append(keys, fmt.Sprint("rl:", i))
	}
	killed := masterOf(t, plain, keys[0])
	lost, kept := make([]tally, len(keys)), make([]tally, len(keys))
	var callers sync.WaitGroup
	var over atomic.Bool
	for i, key := range keys {
		of := &kept[i]
		if masterOf(t, plain, key) == killed {
			of = &lost[i]
		}
		callers.Go(func() {
			for !over.Load() {
				of.take(s, request(key, 1_000_000, 1))
			}
		})
	}
	until(t, 1, "calls of each key are admitted", func() int {
		for i := range keys {
			if lost[i].allowed.Load()+kept[i].allowed.Load() < 20 {
				return 0
			}
		}
		return 1
	})
	i := slices.IndexFunc(cluster.Masters, func(m *redistest.Server) bool { return m.Addr() == killed })
	cluster.Masters[i].Kill(t)
	until(t, 1, "calls of the killed master have failed", func() int { return int(min(1, lost[0].failed())) })
	over.Store(true)
	callers.Wait()
	for i, key := range keys {
		lost[i].wantInTime(t, s.Budget())
		kept[i].wantInTime(t, s.Budget())
		if masterOf(t, plain, key) == killed {
			continue
		}
		kept[i].wantDecided(t)
		kept[i].wantCharged(t, charged(t, plain, key))
	}
}
