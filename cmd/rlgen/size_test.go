package main

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/redisstore"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
	"github.com/rlgen/rlgen/rules"
)

// TestBytesPerID uses limits up for the longest id, and on beyond their windows, and asks a server how much memory they take: never
// more than rlgen list says, and not much less.
func TestBytesPerID(t *testing.T) {
	client := redistest.Start(t).Client(t)
	s, err := redisstore.New(client, redisstore.WithBudget(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	prefix := strings.Trim(redistest.Prefix(t), ":")
	for _, directive := range []string{
		"//ratelimit:user 1,1h",
		"//ratelimit:user 10,1h",
		"//ratelimit:user 100,1h",
		"//ratelimit:user 128,1h",
		"//ratelimit:user 129,1h",
		"//ratelimit:user 1024,1h",
		"//ratelimit:user 1025,1h",
		"//ratelimit:user 8192,1h",
		"//ratelimit:user 10000,1h",
		"//ratelimit:user 64,1h cost=n",
		"//ratelimit:user 65,1h cost=n",
		"//ratelimit:user 128,1h bucket=shared",
		"//ratelimit:user 128,1h prefetch=1s",
		"//ratelimit:user 1000,1h prefetch=1s",
		"//ratelimit:user 999999937,8s algo=gcra prefetch=1s",
		"//ratelimit:user 999999937,8s 999999929,7s algo=gcra prefetch=1s",
		"//ratelimit:user 10,1h algo=gcra charge=error",
		"//ratelimit:user 900,1m 1000,1h algo=token-bucket charge=success",
		"//ratelimit:user 999999937,8s 999999929,7s algo=gcra charge=error",
		"//ratelimit:user 10,1h ban=1h after=1",
		"//ratelimit:user 10,1h ban=1h after=2",
		"//ratelimit:user 10,1h ban=1h after=100",
		"//ratelimit:user 10,1h ban=1h after=100 algo=gcra",
		"//ratelimit:user 1,1h algo=compact-log",
		"//ratelimit:user 10,1h algo=compact-log",
		"//ratelimit:user 22,1h algo=compact-log",
		"//ratelimit:user 23,1h algo=compact-log",
		"//ratelimit:user 100,1h algo=compact-log",
		"//ratelimit:user 1000,1h algo=compact-log",
		"//ratelimit:user 12345,1h algo=compact-log",
		"//ratelimit:user 10,1h algo=token-bucket",
		"//ratelimit:user 900,1m 1000,1h algo=token-bucket",
		"//ratelimit:user 10,1h algo=token-bucket refill=interval",
		"//ratelimit:user 900,1m 1000,1h burst=3000 algo=token-bucket refill=interval",
		"//ratelimit:user 1000,1h algo=leaky-bucket",
		"//ratelimit:user 7,1h burst=1000 algo=gcra",
		"//ratelimit:user 999999937,8s algo=gcra",
		"//ratelimit:user 999999937,8s 999999929,7s algo=gcra",
		"//ratelimit:user 999999937,366d burst=1000000000 algo=token-bucket refill=interval",
		"//ratelimit:user 999999937,366d 999999929,365d burst=1000000000 algo=token-bucket refill=interval",
		"//ratelimit:user 1,1h algo=fixed-window",
		"//ratelimit:user 100,1m 1000,1h 10000,24h algo=fixed-window start=first",
		"//ratelimit:user 1000000000,366d algo=fixed-window",
		"//ratelimit:user 1,1h algo=sliding-window",
		"//ratelimit:user 10,1h algo=sliding-window",
		"//ratelimit:user 100,1m 5000,1h algo=sliding-window",
		"//ratelimit:user 1000000000,366d algo=sliding-window",
		"//ratelimit:user 1000,1h algo=sliding-window segments=1",
		"//ratelimit:user 1000,1h algo=sliding-window segments=100",
		"//ratelimit:user 1000000000,1h algo=sliding-window segments=100",
	} {
		t.Run(directive, func(t *testing.T) {
			d, err := rules.Parse(directive)
			if err != nil {
				t.Fatal(err)
			}
			p := &rules.Policy{Package: "example.com/orders", Type: "orders.Orders", Method: "Create", Limits: []rules.Limit{d.Limit}}
			key := strings.Replace(p.KeyTemplate(0), "<id>", prefix, 1)
			key += strings.Repeat("x", int(keyLength(p, 0))-len(key))
			client.Del(t.Context(), key) // what another limit has left
			if d.Limit.Algorithm == rules.SlidingWindow {
				client.Set(t.Context(), key, spread(t, &p.Limits[0], key), time.Hour)
			} else {
				useUp(t, s, &p.Limits[0], key)
				outgrow(t, s, &p.Limits[0], key)
			}
			got, want := memory(t, client, key)+memoryOfBan(t, client, s, &p.Limits[0], key), bytesPerID(p, 0)
			if got > want || got < want/2 {
				t.Errorf("%s takes %d bytes, want at most the %d that rlgen list says, and half of it at least", directive, got, want)
			}
		})
	}
}

// spread takes the permits of the first rule of a sliding window evenly from all of its sub-windows, and returns what is then
// at the key.
func spread(t *testing.T, limit *rules.Limit, key string) string {
	t.Helper()
	server := miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { client.Close() })
	s, err := redisstore.New(client, redisstore.WithBudget(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	r := limit.Rules[0]
	segments, length := rules.Subwindows(r.Window, limit.Segments)
	left, base := r.Count, int64(51*366*24*time.Hour/length)
	for i := range segments + 1 {
		server.SetTime(time.Unix(0, 0).Add(time.Duration(base+i) * length))
		cost := (left + segments - i) / (segments + 1 - i)
		out, err := store.Take(t.Context(), s, []store.Request{store.NewRequest(limit, key, cost)}, false)
		if err != nil || !out.Allowed {
			t.Fatalf("Take of %d in sub-window %d = %+v, %v, want it allowed", cost, i, out, err)
		}
		left -= cost
	}
	text, err := server.Get(key)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// takenAtOnce returns how many permits the test takes at once: those that a call may take, or a batch ahead.
func takenAtOnce(limit *rules.Limit) int64 {
	if limit.Prefetch > 0 {
		return limit.Rules[0].Count / 8
	}
	return largestCall(limit)
}

// useUp takes permits one at a time, of a fixed window all at once, until there are no more.
func useUp(t *testing.T, s store.Store, limit *rules.Limit, key string) {
	t.Helper()
	cost := takenAtOnce(limit)
	switch count := limit.Rules[0].Count; {
	case limit.Algorithm == rules.FixedWindow:
		cost = count
	case count > 100_000:
		cost = count / 100
	}
	for {
		req := store.NewRequest(limit, key, cost)
		req.Ahead, req.Returns = limit.Prefetch, req.Returns || limit.Prefetch > 0
		out, err := store.Take(t.Context(), s, []store.Request{req}, false)
		if err != nil {
			t.Fatal(err)
		}
		if !out.Allowed {
			return
		}
	}
}

// outgrow makes a sorted set as large as the next call makes it before what has left the window is dropped, for as long as that takes.
func outgrow(t *testing.T, s store.Store, limit *rules.Limit, key string) {
	t.Helper()
	if limit.Algorithm != rules.SlidingLog {
		return
	}
	larger := *limit
	larger.Rules = []rules.Rule{{Count: 2 * mostCalls(limit), Window: limit.Rules[0].Window}}
	larger.Ban, larger.After = 0, 0
	out, err := store.Take(t.Context(), s, []store.Request{store.NewRequest(&larger, key, takenAtOnce(limit))}, false)
	if err != nil || !out.Allowed {
		t.Fatalf("Take beyond the limit = %+v, %v, want it allowed", out, err)
	}
	if err := s.GiveBack(t.Context(), out.Receipt); err != nil {
		t.Fatal(err)
	}
}

// memoryOfBan is denied once less than bans a key, of which one denial has been, and returns what is remembered of that.
func memoryOfBan(t *testing.T, client *redis.Client, s store.Store, limit *rules.Limit, key string) int64 {
	t.Helper()
	if limit.Ban == 0 {
		return 0
	}
	for range limit.After - 2 {
		if _, err := store.Take(t.Context(), s, []store.Request{store.NewRequest(limit, key, 1)}, false); err != nil {
			t.Fatal(err)
		}
	}
	bans := client.Keys(t.Context(), "rl:ban:{"+key+"}").Val()
	if len(bans) != 1 {
		t.Fatalf("keys of the ban: %q, want one", bans)
	}
	n := memory(t, client, bans[0])
	client.Del(t.Context(), bans[0])
	return n
}

func memory(t *testing.T, client *redis.Client, key string) int64 {
	t.Helper()
	n, err := client.MemoryUsage(t.Context(), key, 0).Result()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestMeasuredFigures holds that rlgen list prices limits at what the documentation has measured: never less, and not much
// more.
func TestMeasuredFigures(t *testing.T) {
	page, err := os.ReadFile("../../ratelimit/ALGORITHMS.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "<!-- bytes -->")
	table, _, _ = strings.Cut(table, "<!-- end -->")
	rows, counts := 0, []string(nil)
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.Trim(cells[i], " `")
		}
		switch {
		case cells[0] == "algorithm":
			counts = cells[1:]
		case strings.HasPrefix(cells[0], "algo="):
			rows++
			for i, cell := range cells[1:] {
				checkFigure(t, cells[0], counts[i], cell)
			}
		}
	}
	if rows < 9 || len(counts) != 4 {
		t.Errorf("the table has %d algorithms and %d counts, want all", rows, len(counts))
	}
}

// checkFigure compares a figure of the table, which leaves the key out, with the price of its limit.
func checkFigure(t *testing.T, options, count, figure string) {
	t.Helper()
	d, err := rules.Parse("//ratelimit:user " + count + ",1m " + options)
	if err != nil {
		t.Fatal(err)
	}
	measured, err := strconv.ParseInt(figure, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	p := &rules.Policy{Package: "example.com/orders", Type: "orders.Orders", Method: "Create", Limits: []rules.Limit{d.Limit}}
	if price := bytesPerID(p, 0) - keyLength(p, 0); measured > price || measured < price/3 {
		t.Errorf("%s %s: %d bytes measured, and rlgen list says %d", count, options, measured, price)
	}
}
