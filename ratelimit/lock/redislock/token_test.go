package redislock_test

import (
	"context"
	"testing"
	"time"

	"github.com/rlgen/rlgen/ratelimit/lock"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
)

// TestTokensOutliveLeases tests that a token's key lives five minutes longer than the lease, also
// if the lease is renewed or taken again, and that tokens grow when the key is lost.
func TestTokensOutliveLeases(t *testing.T) {
	t.Parallel()
	client, ctx := redistest.Standalone(t).Client(t), context.Background()
	s, name := newStore(t, client), redistest.Prefix(t)
	key := "rl:lock:{" + name + "}:token"
	const slack = 5 * time.Minute
	wantTTL := func(what string, lease time.Duration) {
		t.Helper()
		if ttl := client.PTTL(ctx, key).Val(); ttl > lease+slack || ttl < lease+slack-time.Minute {
			t.Errorf("after %s, the token's key lives for %v, want %v", what, ttl, lease+slack)
		}
	}
	last := int64(0)
	acquire := func(id string, lease time.Duration) lock.Claim {
		t.Helper()
		c := lock.Claim{Name: name, ID: id, Lease: lease}
		a, err := s.Acquire(ctx, c)
		if err != nil || !a.Held || a.Token <= last {
			t.Fatalf("Acquire = %+v, %v, want it held with a token above %d", a, err, last)
		}
		last = a.Token
		return c
	}
	release := func(c lock.Claim) {
		t.Helper()
		if held, err := s.Release(ctx, c); err != nil || !held {
			t.Fatalf("Release = %v, %v, want true", held, err)
		}
	}
	first := acquire("a", 10*time.Second)
	wantTTL("the first acquisition", 10*time.Second)
	first.Lease = time.Hour
	if a, err := s.Renew(ctx, first); err != nil || !a.Held {
		t.Fatalf("Renew = %+v, %v, want it held", a, err)
	}
	wantTTL("a renewal for an hour", time.Hour)
	release(first)
	second := acquire("b", lock.DefaultLease)
	wantTTL("the second acquisition", lock.DefaultLease)
	release(second)
	client.Del(ctx, key)
	release(acquire("c", 10*time.Second))
	wantTTL("an acquisition without the key", 10*time.Second)
}
