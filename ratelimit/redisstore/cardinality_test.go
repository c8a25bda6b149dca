package redisstore_test

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/redisstore"
	"github.com/rlgen/rlgen/ratelimit/storetest"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
	"github.com/rlgen/rlgen/rules"
)

// manyIDs is how many callers an attacker is:
//
//	go test ./ratelimit/redisstore -run '^TestManyIDs$' -v -ids 1000000
var manyIDs = flag.Int("ids", 5_000, "TestManyIDs: how many ids call")

// What Redis needs for an id that has called once or twice, beside the key's text, by MEMORY USAGE and for its place in
// the two tables of the server: of keys and of their expiries.
const (
	bytesOfKey   = 64 + 24 + 2*3*8 // and in each table a pointer, of which there may be three to a key while the table grows
	bytesOfEntry = 112             // the largest of the algorithms' states, which is the sliding window's
)

// TestManyIDs has more callers call than any service has, of whom each is new: what they take of Redis's memory is what
// the algorithms are said to take, all of it is given back once the longest window has passed, and the program itself keeps
// nothing of them.
func TestManyIDs(t *testing.T) {
	ids := *manyIDs
	server := redistest.Start(t)
	admin, client := server.Client(t), server.Client(t)
	s, err := redisstore.New(client, redisstore.WithBudget(10*time.Second), redisstore.Mutated(t))
	if err != nil {
		t.Fatal(err)
	}
	limiter, err := ratelimit.New(s, ratelimit.WithLogger(slog.New(slog.DiscardHandler)), ratelimit.WithInstances(1)) // without a key that counts them
	if err != nil {
		t.Fatal(err)
	}
	window := 2*time.Second + time.Duration(ids)*60*time.Microsecond // longer than the calls last
	guards := manyGuards(t, limiter, window)
	attack(t, guards, 0, 100) // connects, and loads the script
	usedBefore, heapBefore, begin := used(t, admin), heap(), time.Now()

	attack(t, guards, 100, ids)
	took := time.Since(begin)
	keys := admin.DBSize(context.Background()).Val()
	usedBy, heapBy := used(t, admin)-usedBefore, heap()-heapBefore
	most := keys * (bytesOfKey + bytesOfEntry + longestKey(t, admin))
	t.Logf("%d ids in %v: %d keys, %d bytes each of at most %d; the program's heap grew by %d bytes",
		ids, took.Round(time.Millisecond), keys, usedBy/max(1, keys), most/max(1, keys), heapBy)
	if took < window && keys < int64(ids)*8/10 { // a window of the clock may have ended
		t.Errorf("%d keys for %d ids, want one each", keys, ids)
	}
	if usedBy > most {
		t.Errorf("%d ids take %d bytes, want at most %d", ids, usedBy, most)
	}
	if heapBy > 16<<20 {
		t.Errorf("the program's heap grew by %d bytes, want no more for %d ids than for few", heapBy, ids)
	}

	for tick := time.NewTicker(50 * time.Millisecond); admin.DBSize(context.Background()).Val() > 0; <-tick.C {
		if time.Since(begin) > took+2*window+time.Minute {
			t.Fatalf("%d keys are left long after the longest window, want 0", admin.DBSize(context.Background()).Val())
		}
	}
	t.Logf("the last key was gone %v after the first call, of windows of %v", time.Since(begin).Round(time.Millisecond), window)
	if left := used(t, admin) - usedBefore; left > usedBy/2 {
		t.Errorf("%d bytes are still used without a key, want the tables at most", left)
	}
}

// manyGuards are those of a method for each algorithm, which lets each id call once in a window.
func manyGuards(t *testing.T, limiter *ratelimit.Limiter, window time.Duration) (guards []*ratelimit.Guard) {
	for options := range storetest.Requests(t, "", 1, window) {
		d, err := rules.Parse(fmt.Sprintf("//ratelimit:user 1,%v %s", window, options))
		if err != nil {
			t.Fatal(err)
		}
		p := &rules.Policy{Package: "example.com/many", Type: "many.Service", Method: fmt.Sprint("Call", len(guards)), Limits: []rules.Limit{d.Limit}}
		guard, err := limiter.Prepare(p)
		if err != nil {
			t.Fatal(err)
		}
		guards = append(guards, guard)
	}
	return guards
}

// attack calls once as each of the ids of these numbers, and a second time, which is denied, as every fourth.
func attack(t *testing.T, guards []*ratelimit.Guard, from, to int) {
	t.Helper()
	var next, denied, failed atomic.Int64
	next.Store(int64(from))
	var callers sync.WaitGroup
	for range 64 {
		callers.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= to {
					return
				}
				ctx := ratelimit.WithUser(context.Background(), fmt.Sprintf("attacker-%08d@example.com", i))
				for range 1 + (i%4)/3 {
					d, _, err := guards[i%len(guards)].Decide(ctx)
					switch {
					case err != nil || d.Degraded != nil:
						failed.Add(1)
					case !d.Allowed:
						denied.Add(1)
					}
				}
			}
		})
	}
	callers.Wait()
	if n := failed.Load(); n > 0 {
		t.Errorf("%d calls were not decided by the store, want 0", n)
	}
	if n := denied.Load(); n == 0 {
		t.Error("no call was denied, want every second one of an id")
	}
}

// used is how much memory the server's data takes.
func used(t *testing.T, admin *redis.Client) int64 {
	t.Helper()
	info, err := admin.Info(context.Background(), "memory").Result()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(info) {
		var n int64
		if _, err := fmt.Sscanf(line, "used_memory:%d", &n); err == nil {
			return n
		}
	}
	t.Fatal("INFO does not say how much memory is used")
	return 0
}

// longestKey is the length of the longest of some keys.
func longestKey(t *testing.T, admin *redis.Client) int64 {
	t.Helper()
	keys, _, err := admin.Scan(context.Background(), 0, "*", 1000).Result()
	if err != nil {
		t.Fatal(err)
	}
	longest := 0
	for _, key := range keys {
		longest = max(longest, len(key))
	}
	return int64(longest)
}

// heap is what the program keeps.
func heap() int64 {
	runtime.GC()
	runtime.GC() // what finalizers and pools held
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
