package redisstore

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
	"github.com/rlgen/rlgen/rules"
)

// TestManyDecisions carries the decisions of several callers in one call of the script: each is all or nothing on
// its own, sees what those before it have charged, and is not disturbed by one that fails.
func TestManyDecisions(t *testing.T) {
	server := miniredis.RunT(t)
	embedded := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { embedded.Close() })
	for name, client := range map[string]*redis.Client{
		"miniredis":  embedded,
		"standalone": redistest.Standalone(t).Client(t),
	} {
		t.Run(name, func(t *testing.T) { testManyDecisions(t, client) })
	}
}

func testManyDecisions(t *testing.T, client *redis.Client) {
	now := time.Date(2026, time.March, 1, 12, 0, 0, 1000, time.UTC)
	s, err := New(client, Mutated(t), WithClock(func() time.Time { return now }))
	if err != nil {
		t.Fatal(err)
	}
	p := redistest.Prefix(t)
	client.Set(context.Background(), p+"string", "theirs", 0)
	t.Cleanup(func() { client.Del(context.Background(), p+"string") })
	limit := func(name string, cost int64) store.Request {
		return store.Request{Key: p + name, Cost: cost, Rules: []rules.Rule{
			{Count: 3, Window: time.Second}, {Count: 5, Window: time.Minute},
		}}
	}
	const first, second, third, fourth = 10_000_000_000_001, 10_000_000_000_002, 10_000_000_000_003, 10_000_000_000_004
	f := s.flight(batch{
		{op: take, base: first, detail: true, requests: []store.Request{limit("a", 2), limit("b", 1)}},
		{op: take, base: second, requests: []store.Request{limit("b", 1), limit("a", 2)}},
		{op: take, base: second, requests: []store.Request{limit("b", 1), limit("string", 1)}},
		{op: take, base: first, requests: []store.Request{limit("c", 1), limit("b", 1)}},
		{op: take, base: third, requests: []store.Request{limit("b", 2)}},
		{op: take, base: third, requests: []store.Request{limit("a", 4), limit("b", 1)}},
		{op: giveBack, base: first, detail: true, requests: []store.Request{limit("a", 2), limit("b", 1)}},
		{op: giveBack, base: third, requests: []store.Request{limit("b", 2)}},
		{op: take, base: third, detail: true, requests: []store.Request{limit("c", 0)}},
		// alike but for their keys and names
		{op: take, base: first, detail: true, requests: []store.Request{limit("a", 2)}},
		{op: take, base: second, detail: true, requests: []store.Request{limit("string", 2)}},
		{op: take, base: third, detail: true, requests: []store.Request{limit("a", 2)}},
		{op: take, base: fourth, detail: true, requests: []store.Request{limit("b", 2)}},
		{op: giveBack, base: first, requests: []store.Request{limit("a", 2)}},
		{op: giveBack, base: fourth, requests: []store.Request{limit("b", 2)}},
	}, false)
	s.fly(context.Background(), f)
	if f.err != nil {
		t.Fatal(f.err)
	}
	want := []verdict{
		{status: done, at: now.UnixMicro(), rules: []store.RuleOutcome{
			{Remaining: 1, ResetAfter: time.Second}, {Remaining: 3, ResetAfter: time.Minute},
			{Remaining: 2, ResetAfter: time.Second}, {Remaining: 4, ResetAfter: time.Minute},
		}},
		{status: denied, rules: []store.RuleOutcome{{}, {}, {RetryAfter: time.Second}, {}}},
		{status: failed},
		{status: taken},
		{status: done, at: now.UnixMicro()},
		{status: denied, rules: []store.RuleOutcome{
			{RetryAfter: store.Never}, {RetryAfter: time.Minute}, {RetryAfter: time.Second}, {},
		}},
		{status: done, rules: []store.RuleOutcome{
			{Remaining: 3}, {Remaining: 5},
			{Remaining: 1, ResetAfter: time.Second}, {Remaining: 3, ResetAfter: time.Minute},
		}},
		{status: done},
		{status: done, at: now.UnixMicro(), rules: []store.RuleOutcome{{Remaining: 3}, {Remaining: 5}}},
		{status: done, at: now.UnixMicro(), rules: []store.RuleOutcome{{Remaining: 1, ResetAfter: time.Second}, {Remaining: 3, ResetAfter: time.Minute}}},
		{status: failed},
		{status: denied, rules: []store.RuleOutcome{
			{RetryAfter: time.Second, Remaining: 1, ResetAfter: time.Second}, {Remaining: 3, ResetAfter: time.Minute},
		}},
		{status: done, at: now.UnixMicro(), rules: []store.RuleOutcome{{Remaining: 1, ResetAfter: time.Second}, {Remaining: 3, ResetAfter: time.Minute}}},
		{status: done},
		{status: done},
	}
	if diff := cmp.Diff(want, f.verdicts, cmp.AllowUnexported(verdict{})); diff != "" {
		t.Errorf("verdicts (-want +got):\n%s", diff)
	}
	if n := client.Exists(context.Background(), p+"a", p+"b", p+"c").Val(); n != 0 {
		t.Errorf("%d keys left after all is given back, want none", n)
	}
}

func TestDecodeForeignReplies(t *testing.T) {
	b := batch{{op: take, detail: true, requests: []store.Request{{Rules: make([]rules.Rule, 2)}}}}
	if _, err := b.decode([]int64{7, 1, 0, 1, 2, 0, 1, 2}); err != nil {
		t.Errorf("decode of a whole reply: %v", err)
	}
	for _, reply := range [][]int64{
		nil, {}, {7}, {7, 1}, {7, 1, 0, 1, 2}, {7, 1, 0, 1, 2, 0, 1}, {7, 0, 0, 1, 2}, {7, 1, 0, 1, 2, 0, 1, 2, 9}, {7, 2, 0}, {7, 3, 0}, {7, 4}, {7, -1},
	} {
		if got, err := b.decode(reply); err == nil {
			t.Errorf("decode(%v) = %v, want an error", reply, got)
		}
	}
}

// Decisions that are allowed, and of which there is no more to say, are told of together.
func TestDecodeSeveral(t *testing.T) {
	limited := []store.Request{{Rules: make([]rules.Rule, 2)}}
	b := make(batch, 4)
	for i := range b {
		b[i] = decision{op: take, requests: limited}
	}
	allowed := verdict{status: done, at: 7}
	refused := verdict{status: denied, rules: []store.RuleOutcome{{RetryAfter: 5 * time.Microsecond}, {}}}
	for _, c := range []struct {
		reply []int64
		want  []verdict
	}{
		{[]int64{7, -4}, []verdict{allowed, allowed, allowed, allowed}},
		{[]int64{7, -1, 0, 5, 0, -2}, []verdict{allowed, refused, allowed, allowed}},
		{[]int64{7, 1, -2, 3}, []verdict{allowed, allowed, allowed, {status: failed}}},
		{[]int64{7, 0, 5, 0, -2, -1}, []verdict{refused, allowed, allowed, allowed}},
		{[]int64{7, -5}, nil},
		{[]int64{7, -3}, nil},
		{[]int64{7, -2, -3}, nil},
		{[]int64{7, -4, -1}, nil},
		{[]int64{7, math.MinInt64}, nil},
	} {
		got, err := b.decode(c.reply)
		if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(verdict{})); diff != "" || (err == nil) != (c.want != nil) {
			t.Errorf("decode(%v): error %v, verdicts (-want +got):\n%s", c.reply, err, diff)
		}
	}
	for _, other := range []decision{{op: peek, requests: limited}, {op: take, detail: true, requests: limited}} {
		b[1] = other
		if got, err := b.decode([]int64{7, -4}); err == nil {
			t.Errorf("decode of four at once, where the second is %+v, = %v, want an error", other, got)
		}
	}
}

// Decisions that differ in more than their keys and names are of different runs.
func TestRun(t *testing.T) {
	two := []rules.Rule{{Count: 10, Window: time.Second}}
	request := func(key string, cost int64) store.Request { return store.Request{Key: key, Rules: two, Cost: cost} }
	plain := func() decision { return decision{base: 1, requests: []store.Request{request("a", 1)}} }
	for name, c := range map[string]struct {
		change func(*decision)
		want   int
	}{
		"key and name":   {func(d *decision) { d.base, d.requests = 2, []store.Request{request("b", 1)} }, 2},
		"op":             {func(d *decision) { d.op = peek }, 1},
		"detail":         {func(d *decision) { d.detail = true }, 1},
		"time":           {func(d *decision) { d.at = 1 }, 1},
		"cost":           {func(d *decision) { d.requests = []store.Request{request("b", 2)} }, 1},
		"another limit":  {func(d *decision) { d.requests[0].Rules = []rules.Rule{{Count: 11, Window: time.Second}} }, 1},
		"one limit more": {func(d *decision) { d.requests = append(d.requests, request("b", 1)) }, 1},
	} {
		b := batch{plain(), plain()}
		c.change(&b[1])
		_, numbers := b.limits(nil, nil)
		if got := b.run(numbers); got != c.want {
			t.Errorf("decisions that differ in %s: a run of %d, want %d", name, got, c.want)
		}
	}
}
