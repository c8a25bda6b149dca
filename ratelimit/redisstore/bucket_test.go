package redisstore_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/redisstore"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/ratelimit/storetest"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
	"github.com/rlgen/rlgen/rules"
)

// bucketOf asks for cost from a bucket of count in an hour.
func bucketOf(key string, count, cost int64) store.Request {
	req := request(key, count, cost)
	req.Algorithm = rules.GCRA
	return req
}

// TestBucketKeys holds what a bucket keeps in Redis: a denial and a call of cost 0 leave it alone, it expires when the bucket
// is full, and is gone when all is given back.
func TestBucketKeys(t *testing.T) {
	client := redistest.Standalone(t).Client(t)
	s, p := newStore(t, client), redistest.Prefix(t)
	ctx := context.Background()
	first := take(t, s, bucketOf(p+"a", 4, 3))
	if ttl := client.PTTL(ctx, p+"a").Val(); ttl > 45*time.Minute+2*time.Second || ttl < 45*time.Minute {
		t.Errorf("the key expires in %v, want a second after the 45m in which the bucket is full", ttl)
	}
	before := state(t, client, p+"a", p+"b")
	take(t, s, bucketOf(p+"a", 4, 2), bucketOf(p+"b", 4, 1))
	take(t, s, bucketOf(p+"a", 4, 0), bucketOf(p+"b", 4, 0))
	if after := state(t, client, p+"a", p+"b"); after != before {
		t.Errorf("state after a denial and a call of cost 0 = %s, want that before, %s", after, before)
	}
	for range 2 {
		if err := s.GiveBack(ctx, first.Receipt); err != nil {
			t.Fatal(err)
		}
	}
	take(t, s, bucketOf(p+"a", 1_000_000, 2))
	if err := s.GiveBack(ctx, first.Receipt); err != nil {
		t.Fatal(err)
	}
	if left := take(t, s, bucketOf(p+"a", 1_000_000, 0)).Rules[0].Remaining; left > 999_999 {
		t.Errorf("%d remaining after a receipt is used thrice, want less than all", left)
	}
}

// TestNothingIsLeft holds that no key is there once all is given back at the instant of the call.
func TestNothingIsLeft(t *testing.T) {
	client := redistest.Standalone(t).Client(t)
	subject := heldClock(client)(t)
	requests := storetest.Requests(t, subject.Prefix, 3, time.Second)
	requests["a queue"] = store.Request{
		Key: subject.Prefix + "queue", Algorithm: rules.LeakyBucket, Queue: true, Rules: []rules.Rule{{Count: 3, Window: time.Second}}, Cost: 1,
	}
	for name, req := range requests {
		out := take(t, subject.Store, req)
		if err := subject.Store.GiveBack(context.Background(), out.Receipt); err != nil {
			t.Fatal(err)
		}
		if got := client.Get(context.Background(), req.Key).Val(); client.Exists(context.Background(), req.Key).Val() != 0 {
			t.Errorf("%s: the key holds %q after all is given back, want none", name, got)
		}
	}
}

// TestBucketText: a bucket is no more than its window and when it is full, with a fraction, what it has been charged and the time of what was taken
// ahead only where there is any, or where calls may be given back.
func TestBucketText(t *testing.T) {
	server := miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { client.Close() })
	server.SetTime(time.Unix(1_700_000_000, 0))
	s := newStore(t, client)
	for _, test := range []struct {
		count   int64
		ahead   time.Duration
		returns bool
		want    string
	}{
		{4, 0, false, "b1000000:1700000000250000"},
		{3, 0, false, "b1000000:1700000000333334:2/3"},
		{4, time.Second, false, "b1000000:1700000001250000:~1700000001000000"},
		{3, time.Second, false, "b1000000:1700000001333334:2/3~1700000001000000"},
		{4, 0, true, "b1000000:1700000000250000:0/4@250000+1"},
		{3, 0, true, "b1000000:1700000000333334:2/3@333334+1"},
		{4, time.Second, true, "b1000000:1700000001250000:0/4@1250000+1~1700000001000000"},
		{3, time.Second, true, "b1000000:1700000001333334:2/3@1333334+1~1700000001000000"},
	} {
		req := store.Request{
			Key: fmt.Sprint(test), Algorithm: rules.GCRA, Rules: []rules.Rule{{Count: test.count, Window: time.Second}}, Cost: 1, Ahead: test.ahead, Returns: test.returns,
		}
		take(t, s, req)
		if got := client.Get(t.Context(), req.Key).Val(); got != test.want {
			t.Errorf("1 of %d in 1s, taken %v ahead, is kept as %q, want %q", test.count, test.ahead, got, test.want)
		}
	}
}

// TestBucketsOfTwoVersions lets two versions of a service share a key, with other windows: neither takes away what
// the other has counted, and the state ends with both.
func TestBucketsOfTwoVersions(t *testing.T) {
	client := redistest.Standalone(t).Client(t)
	s, p := newStore(t, client), redistest.Prefix(t)
	older := bucketOf(p, 5, 1)
	newer := store.Request{Key: p, Algorithm: rules.GCRA, Rules: []rules.Rule{{Count: 5, Window: 2 * time.Hour}}, Cost: 1}
	for i := range 5 {
		if !take(t, s, older).Allowed || !take(t, s, newer).Allowed {
			t.Fatalf("call %d of each version is denied, want 5 of each", i+1)
		}
	}
	if take(t, s, older).Allowed || take(t, s, newer).Allowed {
		t.Error("a sixth call is allowed, want none")
	}
	if ttl := client.PTTL(context.Background(), p).Val(); ttl < 119*time.Minute || ttl > 2*time.Hour+2*time.Second {
		t.Errorf("the key expires in %v, want two hours", ttl)
	}
}

// TestForeignStrings refuses what another program keeps under the key, and leaves it and other limits alone.
func TestForeignStrings(t *testing.T) {
	embedded := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr()})
	t.Cleanup(func() { embedded.Close() })
	for name, client := range map[string]*redis.Client{"miniredis": embedded, "standalone": redistest.Standalone(t).Client(t)} {
		for _, theirs := range []string{"theirs", "b1", "b1:2 theirs", " b1:2", "1:2", "xb3600000000:9999999999999999"} {
			t.Run(fmt.Sprint(name, theirs), func(t *testing.T) {
				s, p := newStore(t, client), redistest.Prefix(t)
				client.Set(context.Background(), p+"b", theirs, time.Minute)
				_, err := store.Take(context.Background(), s, []store.Request{request(p+"log", 5, 1), bucketOf(p+"a", 5, 1), bucketOf(p+"b", 5, 1)}, true)
				if classOf(err) != store.Misconfigured {
					t.Errorf("Take = %v, want an error of class %v", err, store.Misconfigured)
				}
				if got := client.Get(context.Background(), p+"b").Val(); got != theirs {
					t.Errorf("the other program's key is %q, want %q", got, theirs)
				}
				if n := client.Exists(context.Background(), p+"a", p+"log").Val(); n != 0 {
					t.Errorf("%d other limits are charged, want none", n)
				}
			})
		}
	}
}

// TestForeignCounts tests that a fixed window refuses a count that is no number of units, and a
// sliding log a member that is no number.
func TestForeignCounts(t *testing.T) {
	client := redistest.Standalone(t).Client(t)
	s, p, ctx := newStore(t, client), redistest.Prefix(t), context.Background()
	for _, theirs := range []string{"-7", "", "1e3", "0x10", "seven"} {
		req := request(p+"window"+theirs, 5, 1)
		req.Algorithm = rules.FixedWindow
		entry := "f3600000000:9999999999999999:" + theirs
		client.Set(ctx, req.Key, entry, time.Minute)
		for range 2 { // alone, and with others
			if out, err := store.Take(ctx, s, []store.Request{req}, true); classOf(err) != store.Misconfigured {
				t.Errorf("Take of a window of %q units = %+v, %v, want an error of class %v", theirs, out, err, store.Misconfigured)
			}
			req.Cost = 2
		}
		if got := client.Get(ctx, req.Key).Val(); got != entry {
			t.Errorf("the key holds %q, want %q", got, entry)
		}
	}
	log := request(p+"log", 3, 1)
	for _, member := range []string{"a", "-1", "1.5"} {
		client.ZAdd(ctx, log.Key, redis.Z{Score: float64(time.Now().UnixMicro()), Member: member})
	}
	if out, err := store.Take(ctx, s, []store.Request{log}, false); classOf(err) != store.Misconfigured {
		t.Errorf("Take of a log of other members = %+v, %v, want an error of class %v", out, err, store.Misconfigured)
	}
}

// TestBucketPermissions holds that the permissions of the documentation suffice for buckets, and that what a script has written
// before a write of it is refused is taken back.
func TestBucketPermissions(t *testing.T) {
	server := redistest.Start(t)
	admin, ctx := server.Client(t), context.Background()
	s := as(t, server, acl)
	out := take(t, s, bucketOf("rl:a", 10, 2), request("rl:log", 10, 1))
	if err := s.GiveBack(ctx, out.Receipt); err != nil {
		t.Fatal(err)
	}
	if n := admin.Exists(ctx, "rl:a", "rl:log").Val(); n != 0 {
		t.Errorf("%d keys left after all is given back, want none", n)
	}
	take(t, s, bucketOf("rl:old", 10, 2), hourlyCompact("rl:records", 10, 1))
	before := []string{admin.Get(ctx, "rl:old").Val(), admin.Get(ctx, "rl:records").Val()}
	narrow := as(t, server, strings.Replace(acl, "+pttl", "-pttl", 1)) // which the log asks for when the others have been written
	_, err := store.Take(ctx, narrow, []store.Request{
		bucketOf("rl:old", 10, 1), hourlyCompact("rl:records", 10, 1), bucketOf("rl:new", 10, 1), hourlyCompact("rl:first", 10, 1), request("rl:log", 10, 1),
	}, false)
	if classOf(err) != store.Misconfigured {
		t.Fatalf("Take without a permission that the last limit needs = %v, want an error of class %v", err, store.Misconfigured)
	}
	if stats := admin.Info(ctx, "commandstats").Val(); !strings.Contains(stats, "cmdstat_set:calls=8,") || !strings.Contains(stats, "cmdstat_append:calls=1,") {
		t.Fatalf("commandstats = %s, want 3 calls of SET by those that passed, 3 and one of APPEND by the one that failed, and 2 of SET that take those back", stats)
	}
	if n := admin.Exists(ctx, "rl:log", "rl:new", "rl:first").Val(); n != 0 {
		t.Errorf("%d keys are there after a command failed, want none", n)
	}
	if after := []string{admin.Get(ctx, "rl:old").Val(), admin.Get(ctx, "rl:records").Val()}; !slices.Equal(after, before) {
		t.Errorf("the keys hold %q after a command for another failed, want %q", after, before)
	}
}

// TestLostBucketReservation loses the reply of one slot: what other slots surely charged comes back, a sliding log gets back
// what may have been charged, and the bucket or compact log of that slot keeps it: never is more given back than was charged.
func TestLostBucketReservation(t *testing.T) {
	t.Parallel()
	f := &faults{}
	client := faultyClients(t, f)["cluster"]
	s := newStore(t, client)
	brief := newStore(t, client, redisstore.WithBudget(500*time.Millisecond))
	p := redistest.Prefix(t)
	requests := []store.Request{bucketOf(p+"a", 1000, 1), hourlyCompact(p+"b", 1000, 1), bucketOf(p+"c", 1000, 1), request(p+"log", 10, 1)}
	for _, req := range requests {
		req.Cost = 0
		take(t, s, req)
	}
	f.next.Store(int32(cutAfter))
	if _, err := store.Take(context.Background(), brief, requests, true); classOf(err) != store.Indeterminate {
		t.Errorf("Take = %v, want an error of class %v", err, store.Indeterminate)
	}
	if err := redistest.Poll(func() error {
		kept := int64(0)
		for _, req := range requests[:3] {
			req.Cost = 0
			kept += 1000 - take(t, s, req).Rules[0].Remaining
		}
		log := requests[3]
		log.Cost = 0
		if left := take(t, s, log).Rules[0].Remaining; left != 10 {
			return fmt.Errorf("%d remaining of the log, want 10", left)
		}
		if kept > 1 { // by the limit whose reply was lost, if it was not the sliding log
			return fmt.Errorf("%d permits kept by the others, want 1 at most", kept)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

// TestCompactLogPermissions holds that the permissions of the documentation suffice for logs that are short and long,
// and what is given back.
func TestCompactLogPermissions(t *testing.T) {
	server := redistest.Start(t)
	s := as(t, server, acl)
	req := request("rl:log", 500, 200)
	req.Algorithm = rules.CompactLog
	out := take(t, s, req)
	req.Cost = 3
	take(t, s, req)
	if err := s.GiveBack(context.Background(), out.Receipt); err != nil {
		t.Fatal(err)
	}
	if left := take(t, s, req).Rules[0].Remaining; left != 494 {
		t.Errorf("%d remaining after costs of 200, 3 and 3 of 500 and the first given back, want 494", left)
	}
}

// TestForeignCompactLog refuses what another program keeps under the key, and leaves it alone.
func TestForeignCompactLog(t *testing.T) {
	client := redistest.Standalone(t).Client(t)
	s := newStore(t, client)
	for _, theirs := range []string{"theirs", "\x03log", "\x03log123456", "\x03log1234567", "\x03log123456" + strings.Repeat("x", 16), "\x04log1234567890123", "\x03log" + strings.Repeat("x", 144), "\x01log123456" + strings.Repeat("x", 60)} {
		req := request(redistest.Prefix(t)+"log", 5, 1)
		req.Algorithm = rules.CompactLog
		client.Set(context.Background(), req.Key, theirs, time.Minute)
		if _, err := store.Take(context.Background(), s, []store.Request{req}, true); classOf(err) != store.Misconfigured {
			t.Errorf("Take over %q = %v, want an error of class %v", theirs, err, store.Misconfigured)
		}
		if got := client.Get(context.Background(), req.Key).Val(); got != theirs {
			t.Errorf("the other program's key is %q, want %q", got, theirs)
		}
	}
}

// TestOlderBuckets holds that buckets are read which do not say what they have been charged: of a call that has been charged to one, what has not had
// the time to come back is given back, and of a later one all that has not.
func TestOlderBuckets(t *testing.T) {
	for _, older := range []string{
		"b1000000:1700000000500000", "b1000000:1700000000500000:3/4", "b1000000:1700000000500000:~1699999999000000", "b1000000:1700000000500000:3/4~1699999999000000",
	} {
		t.Run(older, func(t *testing.T) {
			server := miniredis.RunT(t)
			client := redis.NewClient(&redis.Options{Addr: server.Addr()})
			t.Cleanup(func() { client.Close() })
			now := time.Unix(1_700_000_000, 0)
			server.SetTime(now)
			if err := server.Set("older", older); err != nil {
				t.Fatal(err)
			}
			s, req := newStore(t, client), store.Request{Key: "older", Algorithm: rules.GCRA, Rules: []rules.Rule{{Count: 4, Window: time.Second}}, Cost: 1, Returns: true}
			older := store.Receipt{Requests: []store.Request{req}, ID: 1, Charges: make([]store.Charge, 1)}
			older.Charges[0].At = now.Add(-100 * time.Millisecond).UnixMicro()
			first, second := take(t, s, req), take(t, s, req)
			server.SetTime(now.Add(100 * time.Millisecond))
			for i, want := range []time.Duration{
				850 * time.Millisecond, // of 900
				600 * time.Millisecond,
				350 * time.Millisecond,
			} {
				if err := s.GiveBack(t.Context(), []store.Receipt{older, first.Receipt, second.Receipt}[i]); err != nil {
					t.Fatal(err)
				}
				look := req
				look.Cost = 0
				if got := take(t, s, look).Rules[0].ResetAfter; got != want {
					t.Errorf("give-back %d of a bucket kept as %q leaves %v until it is full, want %v", i, client.Get(t.Context(), "older").Val(), got, want)
				}
			}
		})
	}
}
