package redisstore_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
	"github.com/rlgen/rlgen/rules"
)

// windowOf asks for cost from a window of ten hours.
func windowOf(l rules.Limit, key string, count, cost int64) store.Request {
	l.Rules = []rules.Rule{{Count: count, Window: 10 * time.Hour}}
	return store.NewRequest(&l, key, cost)
}

// TestWindowKeys holds what windows keep in Redis: a denial and a call of cost 0 leave it alone, it expires a second after
// nothing of it counts any more, and is gone when all is given back.
func TestWindowKeys(t *testing.T) {
	client := redistest.Standalone(t).Client(t)
	ctx := context.Background()
	for _, test := range []struct {
		name           string
		limit          rules.Limit
		shortest, most time.Duration // time to live
	}{
		{"first", rules.Limit{Algorithm: rules.FixedWindow, Start: rules.StartFirst}, 10 * time.Hour, 10 * time.Hour},
		{"clock", rules.Limit{Algorithm: rules.FixedWindow}, 0, 10 * time.Hour},
		{"sliding", rules.Limit{Algorithm: rules.SlidingWindow}, 10 * time.Hour, 11 * time.Hour},
		{"coarse", rules.Limit{Algorithm: rules.SlidingWindow, Segments: 1}, 10 * time.Hour, 20 * time.Hour},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, p := newStore(t, client), redistest.Prefix(t)
			first := take(t, s, windowOf(test.limit, p+"a", 4, 3))
			if ttl := client.PTTL(ctx, p+"a").Val(); ttl < test.shortest || ttl > test.most+time.Second {
				t.Errorf("the key expires in %v, want %v to %v and a second", ttl, test.shortest, test.most)
			}
			before := state(t, client, p+"a", p+"b")
			take(t, s, windowOf(test.limit, p+"a", 4, 2), windowOf(test.limit, p+"b", 4, 1))
			take(t, s, windowOf(test.limit, p+"a", 4, 0), windowOf(test.limit, p+"b", 4, 0))
			if after := state(t, client, p+"a", p+"b"); after != before {
				t.Errorf("state after a denial and a call of cost 0 = %s, want that before, %s", after, before)
			}
			second := take(t, s, windowOf(test.limit, p+"a", 4, 1))
			for range 2 {
				giveBack(t, s, second)
			}
			if after := state(t, client, p+"a"); !strings.HasPrefix(before, after[:strings.Index(after, " ")]) {
				t.Errorf("state after a call that was given back = %s, want that before, %s", after, before)
			}
			giveBack(t, s, first)
			if n := client.Exists(ctx, p+"a").Val(); n != 0 {
				t.Errorf("the key is there after all is given back, want none")
			}
		})
	}
}

func giveBack(t *testing.T, s store.Store, out store.Outcome) {
	t.Helper()
	if err := s.GiveBack(context.Background(), out.Receipt); err != nil {
		t.Fatal(err)
	}
}

// TestWindowsOfTwoVersions lets two versions of a service share a key, with other numbers: neither takes away what the
// other has counted.
func TestWindowsOfTwoVersions(t *testing.T) {
	client := redistest.Standalone(t).Client(t)
	sliding := func(segments int64) rules.Limit {
		return rules.Limit{Algorithm: rules.SlidingWindow, Segments: segments}
	}
	for name, versions := range map[string][2]store.Request{
		"segments":   {windowOf(sliding(10), "", 5, 1), windowOf(sliding(20), "", 5, 1)},
		"algorithms": {windowOf(sliding(1), "", 5, 1), windowOf(rules.Limit{Algorithm: rules.FixedWindow}, "", 5, 1)},
	} {
		t.Run(name, func(t *testing.T) {
			s, p := newStore(t, client), redistest.Prefix(t)
			older, newer := versions[0], versions[1]
			older.Key, newer.Key = p, p
			for i := range 5 {
				if !take(t, s, older).Allowed || !take(t, s, newer).Allowed {
					t.Fatalf("call %d of each version is denied, want 5 of each", i+1)
				}
			}
			if take(t, s, older).Allowed || take(t, s, newer).Allowed {
				t.Error("a sixth call is allowed, want none")
			}
			if ttl := client.PTTL(context.Background(), p).Val(); ttl <= 10*time.Hour-time.Second && name == "segments" {
				t.Errorf("the key expires in %v, want ten hours at least", ttl)
			}
		})
	}
	t.Run("start", func(t *testing.T) {
		s, p := newStore(t, client), redistest.Prefix(t)
		older := windowOf(rules.Limit{Algorithm: rules.FixedWindow, Start: rules.StartFirst}, p, 5, 1)
		newer := windowOf(rules.Limit{Algorithm: rules.FixedWindow}, p, 5, 1)
		for i := range 5 {
			if !take(t, s, []store.Request{older, newer}[i%2]).Allowed {
				t.Fatalf("call %d is denied, want 5 of both", i+1)
			}
		}
		if take(t, s, older).Allowed || take(t, s, newer).Allowed {
			t.Error("a sixth call is allowed, want none: the window goes on")
		}
	})
}

// TestSlidingWindowStaysSmall holds that an id that calls for ever takes no more memory than its sub-windows do, and that a
// string at the key with more of them, or with what is no number, does not stop anybody.
func TestSlidingWindowStaysSmall(t *testing.T) {
	server := miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { client.Close() })
	s := newStore(t, client)
	req := store.Request{Key: "rl:k", Algorithm: rules.SlidingWindow, Segments: 4, Rules: []rules.Rule{{Count: 5, Window: 4 * time.Second}}, Cost: 1}
	now := time.Unix(1_700_000_000, 0)
	for i := range 100 {
		server.SetTime(now.Add(time.Duration(i) * time.Second))
		if !take(t, s, req).Allowed {
			t.Fatalf("call %d is denied, want one a second", i+1)
		}
	}
	if got, want := client.Get(t.Context(), "rl:k").Val(), "w4000000/4:1700000104000000:1,1,1,1,1"; got != want {
		t.Errorf("the key holds %q, want %q", got, want)
	}
	server.SetTime(now.Add(101 * time.Second))
	take(t, s, req)
	if got, want := client.Get(t.Context(), "rl:k").Val(), "w4000000/4:1700000106000000:1,,1,1,1"; got != want {
		t.Errorf("after a second without a call the key holds %q, want %q", got, want)
	}
	server.SetTime(now.Add(99 * time.Second))
	for body, want := range map[string]int64{"1,1,1,1,1,1,1": 0, "x": 4, "": 4, ",,": 4, "2,x,1": 1} {
		client.Set(t.Context(), "rl:k", "w4000000/4:1700000104000000:"+body, 0)
		if left := take(t, s, req).Rules[0].Remaining; left != want {
			t.Errorf("%d remaining of %q after a call, want %d", left, body, want)
		}
	}
	for body, want := range map[string]int64{"3": 1, "4": 0} {
		req := windowOf(rules.Limit{Algorithm: rules.FixedWindow}, "rl:fixed", 5, 1)
		client.Set(t.Context(), req.Key, fmt.Sprintf("f36000000000:1700028000000000:%s", body), 0)
		if left := take(t, s, req).Rules[0].Remaining; left != want {
			t.Errorf("%d remaining of the fixed window %q after a call, want %d", left, body, want)
		}
	}
}
