package redisstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/redisstore"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/ratelimit/storetest"
	"github.com/rlgen/rlgen/rules"
)

// TestDoorExpires: the key of a ban outlives what it says by a second, and is gone once nothing is said.
func TestDoorExpires(t *testing.T) {
	ctx := context.Background()
	server := miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { client.Close() })
	clock := storetest.NewClock()
	clock.OnMove(server.SetTime)
	s := newStore(t, client)
	const window, ban = 2500 * time.Microsecond, 3500 * time.Microsecond
	req := store.Request{
		Key: "k", Algorithm: rules.SlidingLog, Rules: []rules.Rule{{Count: 1, Window: window}}, Cost: 1, Ban: ban, After: 2,
	}
	door := redisstore.DoorKey("k")
	wantTTL := func(what string, says time.Duration) {
		t.Helper()
		if ttl, want := server.TTL(door), says+time.Second; ttl < want || ttl > want+time.Millisecond {
			t.Errorf("%s: the key expires in %v, want %v, rounded up to ms", what, ttl, want)
		}
	}
	deny := func() store.Outcome {
		t.Helper()
		out, err := store.Take(ctx, s, []store.Request{req}, false)
		if err != nil || out.Allowed {
			t.Fatalf("Take = %+v, %v, want it denied", out, err)
		}
		return out
	}
	take(t, s, req)
	if server.Exists(door) {
		t.Error("a call that is allowed writes the ban's key")
	}
	deny()
	wantTTL("denied once", window)

	// A denial counts for less than its window: one at its very end is the first again.
	clock.Move(window)
	take(t, s, req)
	if out := deny(); out.Rules[0].Banned != 0 {
		t.Errorf("denied again when the first denial is of one window ago: %+v, want no ban", out)
	}
	wantTTL("denied once more", window)
	if out := deny(); out.Rules[0].Banned != ban {
		t.Errorf("denied twice: %+v, want a ban of %v", out, ban)
	}
	wantTTL("banned", ban)

	// At the very instant at which a ban ends, what has brought it is forgotten.
	clock.Move(ban)
	take(t, s, req)
	if out := deny(); out.Rules[0].Banned != 0 {
		t.Errorf("denied as a ban ends: %+v, want no ban", out)
	}
	if out := deny(); out.Rules[0].Banned != ban {
		t.Errorf("denied twice since: %+v, want a ban of %v", out, ban)
	}

	peek := req
	peek.Cost = 0
	if out := take(t, s, peek); out.Allowed || out.Rules[0].Banned != ban {
		t.Errorf("a call of cost 0 of a banned id = %+v, want it denied by the ban", out)
	}
	if err := s.Ban(ctx, []store.Request{req}, 0); err != nil {
		t.Fatal(err)
	}
	if server.Exists(door) {
		t.Error("the key stays where a ban is lifted, want it gone")
	}
}
