package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/lock"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
	"github.com/rlgen/rlgen/rules"
)

// TestMasterOfAHoldDiesInACluster kills, or freezes, the master that has the rates, the places in flight and the locks of calls which run.
// The call whose lease ends before the replica takes over is told so before another is let in, with a larger token. The one whose lease lasts,
// and of which the replica knows, has all that it had. The place of one that crashed comes back. None waits for much longer than the budget. That
// the master comes back, as a replica, changes nothing.
func TestMasterOfAHoldDiesInACluster(t *testing.T) {
	t.Parallel()
	for name, server := range map[string]struct {
		ends, comesBack func(*redistest.Server, testing.TB)
	}{
		"killed": {(*redistest.Server).Kill, (*redistest.Server).Restart},
		"frozen": {(*redistest.Server).Freeze, (*redistest.Server).Resume},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := redistest.StartCluster(t)
			client := cluster.Client(t, func(o *redis.ClusterOptions) { o.DialerRetries, o.ReadTimeout = 1, time.Second })
			master := cluster.Masters[0]
			ids := idsOn(t, client, master, 2)
			l := storesOn(t, client, 300*time.Millisecond).limiter(t, silent)
			brief, lasting := ofEachKind(l, time.Second), ofEachKind(l, time.Minute)

			crashed, crash := context.WithCancel(user(ids[0]))
			holdSoon(t, crashed, l.Guard(create(room(4*time.Second))))
			crash()
			first, firstPermit := holdSoon(t, user(ids[0]), brief, of(ids[0])...)
			kept, keptPermit := holdSoon(t, user(ids[1]), lasting, of(ids[1])...)
			if n, err := master.Client(t).Wait(context.Background(), 1, time.Minute).Result(); n != 1 || err != nil {
				t.Fatalf("WAIT = %d, %v, want the replica to have what was written", n, err)
			}

			server.ends(master, t)
			next, nextPermit := holdSoon(t, user(ids[0]), brief, of(ids[0])...)
			if first.Err() == nil || !errors.Is(context.Cause(first), lock.ErrLost) {
				t.Errorf("another is let in when the context of the first has the cause %v, want %v", context.Cause(first), lock.ErrLost)
			}
			wantLarger(t, first, next)
			firstPermit.Done(nil)
			wantHeld(t, next, brief, ids[0])
			nextPermit.Done(nil)
			allRoom(t, l, ids[0])

			if kept.Err() != nil {
				t.Errorf("the context of what the replica knows of is done: %v", context.Cause(kept))
			}
			wantHeld(t, kept, lasting, ids[1])
			keptPermit.Done(nil)
			after, afterPermit := holdSoon(t, user(ids[1]), lasting, of(ids[1])...)
			wantLarger(t, kept, after)

			server.comesBack(master, t)
			untilReplica(t, master)
			wantHeld(t, after, lasting, ids[1])
			afterPermit.Done(nil)
			last, lastPermit := holdSoon(t, user(ids[1]), lasting, of(ids[1])...)
			wantLarger(t, after, last)
			lastPermit.Done(nil)
		})
	}
}

// ofEachKind has a limit of each kind.
func ofEachKind(l *ratelimit.Limiter, lease time.Duration) *ratelimit.Guard {
	return l.Guard(create(
		rules.Limit{Kind: rules.User, Rules: per(1000, time.Hour), OnFail: rules.FailClosed},
		room(lease),
		rules.Limit{Kind: rules.Lock, By: "id", Lease: lease, Wait: 100 * time.Millisecond, OnFail: rules.FailClosed},
	))
}

// room lets two of a user's calls be in flight.
func room(lease time.Duration) rules.Limit {
	return rules.Limit{Kind: rules.Concurrency, Count: 2, Per: rules.PerUser, Lease: lease, OnFail: rules.FailClosed}
}

// of is what the wrapper of such a method gives.
func of(id string) []ratelimit.Input { return []ratelimit.Input{{}, {}, by(id)} }

func user(id string) context.Context { return ratelimit.WithUser(context.Background(), id) }

// idsOn returns ids of which a master has all that such a method counts and holds by.
func idsOn(t *testing.T, client *redis.ClusterClient, master *redistest.Server, count int) (ids []string) {
	t.Helper()
	for i := 0; len(ids) < count; i++ {
		id := fmt.Sprint("id", i)
		elsewhere := 0
		for _, key := range []string{
			"rl:user=" + id + ":shop.Orders-Create",
			"rl:sem:{rl:user=" + id + ":shop.Orders-Create@concurrency}",
			"rl:lock:{rl:key=" + id + ":shop.Orders-Create@lock}",
		} {
			node, err := client.MasterForKey(context.Background(), key)
			if err != nil {
				t.Fatal(err)
			}
			if node.Options().Addr != master.Addr() {
				elsewhere++
			}
		}
		if elsewhere == 0 {
			ids = append(ids, id)
		}
	}
	return ids
}

// holdSoon calls a method until it is let in. Each call is answered, and fails only because of others' or of a store that is away.
func holdSoon(t *testing.T, ctx context.Context, g *ratelimit.Guard, in ...ratelimit.Input) (inner context.Context, permit ratelimit.Permit) {
	t.Helper()
	if err := redistest.Poll(func() error {
		ctx, hangs := context.WithCancel(ctx)
		t.Cleanup(hangs)
		answered := time.AfterFunc(20*time.Second, hangs) // many budgets
		defer answered.Stop()
		var err error
		inner, permit, err = g.Hold(ctx, in...)
		if err != nil && !errors.Is(err, ratelimit.ErrExceeded) && !errors.Is(err, ratelimit.ErrUnavailable) {
			t.Errorf("Hold = %v, want %v or %v", err, ratelimit.ErrExceeded, ratelimit.ErrUnavailable)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return inner, permit
}

func untilReplica(t *testing.T, server *redistest.Server) {
	t.Helper()
	client := server.Client(t)
	if err := redistest.Poll(func() error {
		info, err := client.Info(context.Background(), "replication").Result()
		if err == nil && !strings.Contains(info, "role:slave") {
			err = errors.New("it takes itself for a master")
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// wantHeld fails the test if another is let in while inner's call is.
func wantHeld(t *testing.T, inner context.Context, g *ratelimit.Guard, id string) {
	t.Helper()
	if err := run(g, user(id), nothing, of(id)...); err == nil && inner.Err() == nil {
		t.Error("another is let in beside the call that holds the lock")
	}
}

func wantLarger(t *testing.T, before, after context.Context) {
	t.Helper()
	if a, b := lock.Token(before), lock.Token(after); b <= a {
		t.Errorf("token %d after %d, want more", b, a)
	}
}

// allRoom fails the test unless two calls may soon be in flight, and no third.
func allRoom(t *testing.T, l *ratelimit.Limiter, id string) {
	t.Helper()
	g := l.Guard(create(room(time.Minute)))
	if err := redistest.Poll(func() error {
		return run(g, user(id), func(context.Context) error {
			return run(g, user(id), func(context.Context) error {
				wantBusy(t, run(g, user(id), nothing), "Create")
				return nil
			})
		})
	}); err != nil {
		t.Errorf("two in flight = %v, want nil", err)
	}
}
