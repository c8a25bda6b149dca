package redisstore_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/redisstore"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
)

func attend(t *testing.T, s *redisstore.Store, prefix, member string) int {
	t.Helper()
	n, err := s.Attend(context.Background(), prefix, member)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestAttend holds that a fleet counts each member once, under its own prefix, and leaves nothing behind.
func TestAttend(t *testing.T) {
	cluster := redistest.NewCluster(t).Client(t)
	server := redistest.Standalone(t)
	for name, client := range map[string]redis.UniversalClient{
		"standalone": server.Client(t),
		"RESP2":      server.Client(t, func(o *redis.Options) { o.Protocol = 2 }),
		"cluster":    cluster,
	} {
		t.Run(name, func(t *testing.T) {
			s, prefix := newStore(t, client), redistest.Prefix(t)
			for i, member := range []string{"a", "b", "a", "c", "b"} {
				if n, want := attend(t, s, prefix, member), []int{1, 2, 2, 3, 3}[i]; n != want {
					t.Errorf("attendance %d, of %s: %d members, want %d", i+1, member, n, want)
				}
			}
			if n := attend(t, s, prefix+"2", "a"); n != 1 {
				t.Errorf("%d members under another prefix, want 1", n)
			}
			ttl := client.PTTL(context.Background(), prefix+":instances").Val()
			if ttl <= 0 || ttl > store.Attendance {
				t.Errorf("the key is gone in %v, want within %v", ttl, store.Attendance)
			}
		})
	}
}

// TestAttendanceEnds holds that a member counts for [store.Attendance] by the server's clock, and not at all where that
// is set back.
func TestAttendanceEnds(t *testing.T) {
	client := redistest.Standalone(t).Client(t)
	s, prefix, ctx := newStore(t, client), redistest.Prefix(t), context.Background()
	now := client.Time(ctx).Val()
	for member, seen := range map[string]time.Time{
		"gone":   now.Add(-store.Attendance - time.Second),
		"here":   now.Add(-store.Attendance + 20*time.Second),
		"future": now.Add(time.Hour),
	} {
		client.ZAdd(ctx, prefix+":instances", redis.Z{Score: float64(seen.UnixMicro()), Member: member})
	}
	if n := attend(t, s, prefix, "me"); n != 2 {
		t.Errorf("%d members, want 2: the one that was here within %v, and the one that attends", n, store.Attendance)
	}
	if got, want := fmt.Sprint(client.ZRange(ctx, prefix+":instances", 0, -1).Val()), "[here me]"; got != want {
		t.Errorf("the key has %s, want %s", got, want)
	}
	client.Del(ctx, prefix+":instances") // as FLUSHALL, or a failover that loses it
	if n := attend(t, s, prefix, "here"); n != 1 {
		t.Errorf("%d members once the key is lost, want 1", n)
	}
}

// TestAttendFails holds that who cannot be counted is told why, and in time.
func TestAttendFails(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client(t)
	s := newStore(t, client)
	client.Set(context.Background(), "squat:instances", "x", time.Minute)
	if _, err := s.Attend(context.Background(), "squat", "me"); classOf(err) != store.Misconfigured {
		t.Errorf("Attend over another program's key = %v, want an error of class %v", err, store.Misconfigured)
	}
	server.Freeze(t)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := s.Attend(ctx, "rl", "me"); err == nil {
		t.Error("Attend at a frozen server = nil, want an error once the context is done")
	}
}

// TestAttendPermissions holds that the documented permissions are all that attending needs.
func TestAttendPermissions(t *testing.T) {
	server := redistest.Start(t)
	for want := range 2 { // with EVAL and EVALSHA
		if n := attend(t, as(t, server, acl), "rl", fmt.Sprint(want)); n != want+1 {
			t.Errorf("%d members, want %d", n, want+1)
		}
	}
	if got := server.Client(t).Do(context.Background(), "acl", "log").Val(); len(got.([]any)) != 0 {
		t.Errorf("ACL LOG = %v, want nothing refused", got)
	}
	if _, err := as(t, server, acl).Attend(context.Background(), "elsewhere", "me"); classOf(err) != store.Misconfigured {
		t.Errorf("Attend under a prefix without permission = %v, want an error of class %v", err, store.Misconfigured)
	}
}

// TestAttendancePromotion has three instances lose their master, and later the one that was promoted in its place: each divides by
// three all the while, also where the new master has lost who was there.
func TestAttendancePromotion(t *testing.T) {
	t.Parallel()
	const key = "rl:instances"
	sentinel := redistest.StartSentinel(t)
	next := sentinel.Replica.Client(t)
	members := func(want int64) {
		t.Helper()
		if err := redistest.Poll(func() error {
			if n := next.ZCard(context.Background(), key).Val(); n != want {
				return fmt.Errorf("the replica counts %d instances, want %d", n, want)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	var all []instance
	for range 3 {
		i, err := newInside(sentinel.Client(t, func(o *redis.FailoverOptions) { o.DialerRetries = 1 }), 500*time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, i)
	}
	for range 2 { // in the first round, those before do not know of those behind
		attendAll(t, all)
	}
	members(3)

	sentinel.Master.Kill(t)
	wantSource(t, all, "local", 3)
	wantSource(t, all, "store", 0)
	attendAll(t, all)
	members(3) // as before, and not six

	do(t, next, "del", key)
	attendAll(t, all[:1])
	members(1)
	sentinel.Replica.Kill(t)
	wantSource(t, all, "local", 3)
}

func attendAll(t *testing.T, all []instance) {
	t.Helper()
	for _, i := range all {
		if err := i.check(); err != nil {
			t.Fatal(err)
		}
	}
}

// wantSource waits until the calls of every instance are decided by source, and fails the test if one says another number of instances then.
func wantSource(t *testing.T, all []instance, source string, instances int) {
	t.Helper()
	for _, i := range all {
		var a told
		if err := redistest.Poll(func() (err error) {
			if a, err = i.take("somebody", 1); err == nil && a.source != source {
				err = fmt.Errorf("the call was decided by the %s, want the %s", a.source, source)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if a.instances != instances {
			t.Errorf("by the %s, the decision says %d instances, want %d", source, a.instances, instances)
		}
	}
}
