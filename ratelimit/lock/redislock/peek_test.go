package redislock_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/lock"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
)

// TestPeek holds that a look says who holds a name and how many wait for it, and changes nothing, with the permissions of who holds.
func TestPeek(t *testing.T) {
	server := redistest.Start(t)
	words := []any{"acl", "setuser", "locker", "reset"}
	for _, word := range acl(t) {
		words = append(words, word)
	}
	if err := server.Client(t).Do(context.Background(), words...).Err(); err != nil {
		t.Fatal(err)
	}
	admins := map[string]redis.UniversalClient{"standalone": server.Client(t), "cluster": redistest.NewCluster(t).Client(t)}
	for kind, client := range map[string]redis.UniversalClient{
		"standalone": server.Client(t, func(o *redis.Options) { o.Username, o.Password = "locker", "pw" }),
		"cluster":    admins["cluster"],
	} {
		t.Run(kind, func(t *testing.T) {
			s, name, ctx := newStore(t, client), redistest.Prefix(t), context.Background()
			must := func(c lock.Claim, held bool) {
				t.Helper()
				if a, err := s.Acquire(ctx, c); err != nil || a.Held != held {
					t.Fatalf("Acquire(%+v) = %+v, %v, want held %v", c, a, err, held)
				}
			}
			peek := func(limit int64) lock.Standing {
				t.Helper()
				standing, err := s.Peek(ctx, lock.Claim{Name: name, Limit: limit})
				if err != nil {
					t.Fatal(err)
				}
				return standing
			}
			if got := peek(0); got.Cost != 0 || len(got.Leases) != 0 || got.Waiting != 0 {
				t.Errorf("a free lock: %+v, want nobody", got)
			}
			must(lock.Claim{Name: name, ID: "a:0", Lease: time.Hour}, true)
			must(lock.Claim{Name: name, ID: "a:1", Outer: "a:0", Lease: time.Hour}, true)
			must(lock.Claim{Name: name, ID: "b:0", Lease: time.Hour, Waiter: "channel:1"}, false)
			for range 2 {
				got := peek(0)
				var ids []string
				for _, l := range got.Leases {
					ids = append(ids, l.ID)
					if l.Cost != 1 || l.Left <= 59*time.Minute || l.Left > time.Hour {
						t.Errorf("lease %+v, want one that runs for an hour", l)
					}
				}
				slices.Sort(ids)
				if got.Cost != 1 || !slices.Equal(ids, []string{"a:0", "a:1"}) || got.Waiting != 1 || got.Token == 0 {
					t.Errorf("a lock: %+v, want two holds of one owner, one who waits and a token", got)
				}
			}
			must(lock.Claim{Name: name, ID: "a:0", Limit: 4, Cost: 3, Lease: time.Hour}, true)
			must(lock.Claim{Name: name, ID: "b:0", Limit: 4, Cost: 1, Lease: time.Minute}, true)
			got := peek(4)
			want := []lock.Lease{{ID: "b:0", Cost: 1}, {ID: "a:0", Cost: 3}}
			for i := range got.Leases {
				got.Leases[i].Left = 0
			}
			if got.Cost != 4 || !slices.Equal(got.Leases, want) || got.Waiting != 0 || got.Token != 0 {
				t.Errorf("a semaphore: %+v, want %+v", got, want)
			}
			for _, key := range append(s.Keys(lock.Claim{Name: name, Limit: 4})[:1], s.Keys(lock.Claim{Name: name})...) {
				of, err := admins[kind].Type(ctx, key).Result()
				if err != nil || of == "none" {
					t.Errorf("key %s: %s, %v, want one that is there", key, of, err)
				}
			}
		})
	}
}
