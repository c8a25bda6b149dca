package redisstore_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/redisstore"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
	"github.com/rlgen/rlgen/rules"
)

// state is all that a server keeps of keys: what they hold, and when they expire.
func state(t testing.TB, client redis.Cmdable, keys ...string) string {
	t.Helper()
	var b strings.Builder
	for _, key := range keys {
		dump, err := client.Dump(context.Background(), key).Result()
		if err != nil && err != redis.Nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%x expires %v\n", dump, client.PExpireTime(context.Background(), key).Val())
	}
	return b.String()
}

func TestDeniedLeavesTheKeysAlone(t *testing.T) {
	client := redistest.Standalone(t).Client(t)
	s, p := newStore(t, client), redistest.Prefix(t)
	take(t, s, request(p+"a", 5, 3), request(p+"b", 3, 3))
	client.PExpire(context.Background(), p+"a", 5*time.Minute) // not what a charge would set
	client.PExpire(context.Background(), p+"b", 5*time.Minute)
	before := state(t, client, p+"a", p+"b", p+"c")
	for range 3 {
		if out := take(t, s, request(p+"a", 5, 1), request(p+"b", 3, 1), request(p+"c", 3, 1)); out.Allowed {
			t.Fatal("allowed with an empty limit")
		}
	}
	if after := state(t, client, p+"a", p+"b", p+"c"); after != before {
		t.Errorf("state after denied calls = %s, want that before, %s", after, before)
	}
}

func TestPeekWritesNothing(t *testing.T) {
	client := redistest.Standalone(t).Client(t)
	s, p := newStore(t, client), redistest.Prefix(t)
	take(t, s, request(p+"a", 5, 3))
	client.PExpire(context.Background(), p+"a", 5*time.Minute)
	before := state(t, client, p+"a", p+"b")
	take(t, s, request(p+"a", 5, 0), request(p+"b", 5, 0), request(p+"c", 5, 1))
	if after := state(t, client, p+"a", p+"b"); after != before {
		t.Errorf("state after a call of cost 0 = %s, want that before, %s", after, before)
	}
}

func TestGiveBackRestoresTheKey(t *testing.T) {
	client := redistest.Standalone(t).Client(t)
	s, p := newStore(t, client), redistest.Prefix(t)
	ctx := context.Background()
	take(t, s, request(p, 10_000, 2))
	before := client.ZRangeWithScores(ctx, p, 0, -1).Val()
	out := take(t, s, request(p, 10_000, 9500))
	if n := client.ZCard(ctx, p).Val(); n != 9502 {
		t.Fatalf("%d members after costs of 2 and 9500, want 9502", n)
	}
	if err := s.GiveBack(ctx, out.Receipt); err != nil {
		t.Fatal(err)
	}
	if after := client.ZRangeWithScores(ctx, p, 0, -1).Val(); !slices.Equal(after, before) {
		t.Errorf("members after the give-back = %v, want %v", after, before)
	}
}

func TestEveryKeyExpires(t *testing.T) {
	client := redistest.Standalone(t).Client(t)
	s, p := newStore(t, client), redistest.Prefix(t)
	for _, test := range []struct {
		rules []rules.Rule
		want  time.Duration
	}{
		{[]rules.Rule{{Count: 1, Window: time.Millisecond}}, time.Millisecond},
		{[]rules.Rule{{Count: 1, Window: 1500 * time.Microsecond}}, 2 * time.Millisecond},
		{[]rules.Rule{{Count: 1, Window: time.Second}, {Count: 9, Window: time.Hour}}, time.Hour},
		{[]rules.Rule{{Count: 9, Window: time.Hour}, {Count: 1, Window: time.Second}}, time.Hour},
		{[]rules.Rule{{Count: 1, Window: 365 * 24 * time.Hour}}, 365 * 24 * time.Hour},
	} {
		key := fmt.Sprintf("%s%v", p, test.rules)
		take(t, s, store.Request{Key: key, Rules: test.rules, Cost: 1})
		ttl := client.PTTL(context.Background(), key).Val()
		if high := test.want + time.Second; ttl > high || ttl < high-time.Second/2 {
			t.Errorf("rules %v: the key expires in %v, want just under %v", test.rules, ttl, high)
		}
	}
}

// TestSetStaysSmall holds that a key keeps no more than the largest count and what its longest window sees.
func TestSetStaysSmall(t *testing.T) {
	client := redistest.Standalone(t).Client(t)
	subject := heldClock(client)(t)
	req := store.Request{Key: subject.Prefix, Cost: 1, Rules: []rules.Rule{
		{Count: 2, Window: time.Millisecond}, {Count: 20, Window: 15 * time.Millisecond},
	}}
	var most int64
	for range 500 {
		take(t, subject.Store, req)
		subject.Clock.Move(700 * time.Microsecond)
		most = max(most, client.ZCard(context.Background(), req.Key).Val())
	}
	if most != 20 {
		t.Errorf("the set has grown to %d members, want 20, the largest count", most)
	}
}

// TestTakenBase makes two admissions choose one base: the second takes another, in all of its keys, and each gives
// back its own.
func TestTakenBase(t *testing.T) {
	for name, client := range map[string]redis.UniversalClient{
		"standalone": redistest.Standalone(t).Client(t),
		"cluster":    redistest.NewCluster(t).Client(t),
	} {
		for _, cost := range []int64{1, 2, 3, 1200} {
			t.Run(fmt.Sprint(name, cost), func(t *testing.T) {
				bases := []uint64{10_000_000_000_000, 10_000_000_000_000, 10_000_000_000_001}
				next := 0
				subject := heldClock(client, redisstore.WithBases(func() uint64 { next++; return bases[next-1] }))(t)
				s, p := subject.Store, subject.Prefix
				first := take(t, s, request(p+"a", 5000, 2))
				before := members(t, client, p+"a")
				subject.Clock.Move(time.Second)
				second := take(t, s, request(p+"b", 5000, 7), request(p+"a", 5000, cost))
				if next != 3 || !second.Allowed || second.Receipt.ID != bases[2] {
					t.Fatalf("second Take with %d bases = %+v, want allowed with the third", next, second)
				}
				if n := client.ZCard(context.Background(), p+"a").Val(); n != 2+cost {
					t.Errorf("%d members after costs of 2 and %d, want %d", n, cost, 2+cost)
				}
				if n := client.ZCard(context.Background(), p+"b").Val(); n != 7 {
					t.Errorf("%d members of the other key, want 7", n)
				}
				if err := s.GiveBack(context.Background(), second.Receipt); err != nil {
					t.Fatal(err)
				}
				if after := members(t, client, p+"a"); after != before {
					t.Errorf("members after the second is given back = %s, want those of the first, %s", after, before)
				}
				if err := s.GiveBack(context.Background(), first.Receipt); err != nil {
					t.Fatal(err)
				}
				if n := client.Exists(context.Background(), p+"a").Val(); n != 0 {
					t.Error("the key is there after the first is given back, too, want none")
				}
			})
		}
	}
}

// TestOneCommand watches the server: four limits of different algorithms, of two rules each, are one EVALSHA,
// and nothing else is sent.
func TestOneCommand(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client(t)
	s := newStore(t, client)
	two := []rules.Rule{{Count: 10, Window: time.Second}, {Count: 100, Window: time.Minute}}
	requests := []store.Request{
		{Key: "rl:a", Rules: two, Cost: 1}, {Key: "rl:b", Rules: two, Cost: 1, Algorithm: rules.GCRA},
		{Key: "rl:c", Rules: two, Cost: 1, Algorithm: rules.SlidingWindow}, {Key: "rl:d", Rules: two, Cost: 1, Algorithm: rules.CompactLog},
	}
	take(t, s, requests...) // loads the script
	commands := monitor(t, server, func() { take(t, s, requests...) })
	if len(commands) != 1 || !strings.HasPrefix(commands[0], `"evalsha"`) {
		t.Errorf("a call of four limits sends %q, want one EVALSHA", commands)
	}
}

// monitor returns what clients send to the server while f runs, but for how they introduce themselves.
func monitor(t *testing.T, server *redistest.Server, f func()) []string {
	t.Helper()
	var sent []string
	for _, line := range executed(t, server, f) {
		_, command, _ := strings.Cut(line, "] ")
		if !strings.Contains(line, " lua] ") && !strings.HasPrefix(command, `"hello"`) && !strings.HasPrefix(command, `"client"`) {
			sent = append(sent, command)
		}
	}
	return sent
}

// executed returns a line of MONITOR's for all that the server executes while f runs.
func executed(t *testing.T, server *redistest.Server, f func()) (lines []string) {
	t.Helper()
	admin := server.Client(t)
	admin.Ping(t.Context())
	conn, err := net.Dial("tcp", server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	scan := bufio.NewScanner(conn)
	scan.Buffer(nil, 1<<20) // a script's text is one line
	fmt.Fprint(conn, "MONITOR\r\n")
	if !scan.Scan() || scan.Text() != "+OK" {
		t.Fatalf("MONITOR answers %q, want +OK", scan.Text())
	}
	f()
	admin.Echo(context.Background(), "the end")
	for scan.Scan() {
		if strings.HasSuffix(scan.Text(), `"the end"`) {
			return lines
		}
		lines = append(lines, scan.Text())
	}
	t.Fatalf("MONITOR ends: %v", scan.Err())
	return nil
}

func TestScriptFlush(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client(t)
	s := newStore(t, client)
	ctx := context.Background()
	for i := range 5 {
		if err := client.ScriptFlush(ctx).Err(); err != nil {
			t.Fatal(err)
		}
		if out := take(t, s, request("k", 100, 1)); out.Rules[0].Remaining != int64(99-i) {
			t.Errorf("call %d after SCRIPT FLUSH: %d remaining, want %d", i+1, out.Rules[0].Remaining, 99-i)
		}
	}
	stats := client.Info(ctx, "commandstats").Val()
	if !strings.Contains(stats, "cmdstat_eval:calls=5,") {
		t.Errorf("commandstats = %s, want 5 calls of EVAL, one after each flush", stats)
	}
}

func TestFlushAll(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client(t)
	s := newStore(t, client)
	take(t, s, request("k", 1, 1))
	client.FlushAll(context.Background())
	if out := take(t, s, request("k", 1, 1)); !out.Allowed {
		t.Errorf("Take after FLUSHALL = %+v, want allowed", out)
	}
}

// TestExpiryIsNeverBroughtForward holds that a call of a shorter window, as one of two versions of a service makes, or of a
// clock that was set back, takes nothing away from what the key still has to remember.
func TestExpiryIsNeverBroughtForward(t *testing.T) {
	client := redistest.Standalone(t).Client(t)
	ctx := context.Background()
	t.Run("shorter window", func(t *testing.T) {
		s := newStore(t, client)
		long := request(redistest.Prefix(t), 100, 99) // in an hour
		brief := store.Request{Key: long.Key, Rules: []rules.Rule{{Count: 500, Window: time.Second}}, Cost: 1}
		take(t, s, long)
		take(t, s, brief)
		if ttl := client.PTTL(ctx, long.Key).Val(); ttl < 59*time.Minute {
			t.Errorf("the key's time to live is %v, want about an hour", ttl)
		}
	})
	t.Run("clock set back", func(t *testing.T) {
		subject := heldClock(client)(t)
		req := request(subject.Prefix+"k", 100, 1)
		take(t, subject.Store, req)
		if err := client.PExpire(ctx, req.Key, 2*time.Hour).Err(); err != nil { // what setting a server's clock back does
			t.Fatal(err)
		}
		subject.Clock.Move(-time.Hour)
		take(t, subject.Store, req)
		if ttl := client.PTTL(ctx, req.Key).Val(); ttl < 119*time.Minute {
			t.Errorf("the key's time to live is %v, want about two hours", ttl)
		}
	})
	t.Run("put off by each admission", func(t *testing.T) {
		s := newStore(t, client)
		req := request(redistest.Prefix(t), 100, 1)
		take(t, s, req)
		client.PExpire(ctx, req.Key, 30*time.Minute) // as half of the window later
		take(t, s, req)
		if ttl := client.PTTL(ctx, req.Key).Val(); ttl < time.Hour {
			t.Errorf("the key's time to live is %v after an admission, want its window of an hour and more", ttl)
		}
	})
	t.Run("none", func(t *testing.T) {
		s := newStore(t, client)
		req := request(redistest.Prefix(t), 100, 1)
		take(t, s, req)
		client.Persist(ctx, req.Key)
		take(t, s, req)
		if ttl := client.PTTL(ctx, req.Key).Val(); ttl <= 0 {
			t.Errorf("the key's time to live is %v, want it set again", ttl)
		}
	})
}
