package dashboard_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/dashboard"
	"github.com/rlgen/rlgen/ratelimit/override"
	"github.com/rlgen/rlgen/ratelimit/override/redisoverride"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
)

// The page of either of two instances shows what both have counted.
func TestInstancesShowTheSum(t *testing.T) {
	t.Parallel() // it waits, mostly
	for name, client := range map[string]func(*testing.T) redis.UniversalClient{
		"standalone": func(t *testing.T) redis.UniversalClient { return redistest.Standalone(t).Client(t) },
		"cluster":    func(t *testing.T) redis.UniversalClient { return redistest.NewCluster(t).Client(t) },
	} {
		t.Run(name, func(t *testing.T) {
			service := dashboard.WithService(fmt.Sprintf("shop-%08x", rand.Uint32()))
			user := fmt.Sprintf("alice-%08x", rand.Uint32())
			one := newShared(t, client(t), service, dashboard.WithInstance("shop-1"))
			two := newShared(t, client(t), service, dashboard.WithInstance("shop-2"))
			one.calls(5, "Create", user) // three pass
			two.calls(4, "Create", user)
			two.calls(2, "Login", user+"-guess")
			for _, page := range []*reader{one.watch(), two.watch()} {
				page.until("it has the sum of both", func() bool {
					return page.latest.Fleet.Scope == "fleet" && page.sum(creations, allowed) == 3 && page.sum(creations, denied) == 6 && page.sum(perUser, denied) == 6
				})
				page.until("it lists both, and whom they denied", func() bool {
					return len(page.latest.Instances) == 2 && len(page.latest.Denied) > 0 && page.latest.Denied[0].Count == 6
				})
				if got := page.latest.Denied[0]; got.Limit != perUser || !strings.HasPrefix(got.ID, "user #") {
					t.Errorf("denied most is %v, want the hash of a user of %s", got, perUser)
				}
				if in := page.latest.Instances; in[0].Rules != in[1].Rules || in[0].Rules != page.limits.Rules || in[0].Self == in[1].Self {
					t.Errorf("the instances are %v, want both with the rules %s, and one of them this", in, page.limits.Rules)
				}
				page.until("it has the time that Redis takes to decide", func() bool { return page.latest.Latency[1] > 0 })
			}
		})
	}
}

// A ban that one instance sees is on the page of the other, until it is lifted there.
func TestBanIsToldOf(t *testing.T) {
	t.Parallel() // it waits, mostly
	server := redistest.Start(t)
	one, two := newShared(t, server.Client(t), dashboard.WithClearIDs()), newShared(t, server.Client(t), dashboard.WithClearIDs(), dashboard.WithWrites())
	page, other := two.watch(), one.watch()
	one.calls(5, "Login", "mallory")
	page.until("it lists the ban", func() bool { return len(page.latest.Bans) == 1 && page.latest.Bans[0].ID == "user mallory" })
	if left := page.latest.Bans[0].Left; left <= 0 || left > 600 {
		t.Errorf("the ban lasts %v s more, want at most ten minutes", left)
	}
	if got := two.post("change", `{"do":"unban","method":"orders.Orders.Login","kind":"user","id":"mallory"}`); got.Code != 200 {
		t.Fatalf("unban: %d %s", got.Code, got.Body)
	}
	page.until("it lists no ban", func() bool { return len(page.latest.Bans) == 0 })
	other.until("nor does the other's", func() bool { return other.latest.Fleet.Scope == "fleet" && len(other.latest.Bans) == 0 })
}

// An instance that ends is gone from the pages of the others.
func TestInstanceLeaves(t *testing.T) {
	t.Parallel() // it waits, mostly
	server := redistest.Start(t)
	one := newShared(t, server.Client(t))
	client := server.Client(t)
	two := newLocal(t, dashboard.WithRedis(client))
	end := two.run()
	page := one.watch()
	page.until("it lists both", func() bool { return len(page.latest.Instances) == 2 })
	end()
	page.until("it lists one", func() bool { return len(page.latest.Instances) == 1 })
}

// What an instance could not tell while Redis was away is in the sum once it is back, if that takes no minute.
func TestRedisAway(t *testing.T) {
	t.Parallel() // it waits, mostly
	server := redistest.Start(t)
	i := newShared(t, server.Client(t, dialOnce))
	page := i.watch()
	i.calls(1, "Create", "alice")
	page.until("Redis decides", func() bool {
		return page.latest.Fleet.Scope == "fleet" && page.latest.Store.State == "ok" && page.sum(creations, allowed) == 1
	})
	if s := page.latest.Store; s.Title != "Redis decides" || s.Breaker != "closed" {
		t.Errorf("the store is %+v, want one that decides", s)
	}

	server.Kill(t)
	i.keepCalling()
	page.until("Redis is said to be down", func() bool { return page.latest.Store.State == "down" })
	if s := page.latest.Store; s.Title != "Redis cannot decide" || !strings.HasPrefix(s.Text, "Since ") || !strings.Contains(s.Text, "onfail") {
		t.Errorf("the store is %+v, want since when it cannot decide, and what holds meanwhile", s)
	}
	page.until("the breaker is open", func() bool { return page.latest.Store.Breaker == "open" })
	page.until("the page has this instance alone", func() bool {
		return page.latest.Fleet.Scope == "instance" && page.sum(creations, degraded) > 0
	})
	if text := page.latest.Fleet.Text; !strings.HasPrefix(text, "This instance alone: Redis does not tell what the others count") {
		t.Errorf("the page says %q, want why it has this instance alone", text)
	}

	server.Restart(t)
	page.until("Redis decides again, and has what was counted without it", func() bool {
		return page.latest.Store.State == "ok" && page.latest.Fleet.Scope == "fleet" && page.sum(creations, degraded) > 0
	})
}

// keepCalling calls a method all the time until the test ends.
func (i *instance) keepCalling() {
	ctx, cancel := context.WithCancel(context.Background())
	var calling sync.WaitGroup
	calling.Go(func() {
		for tick := time.NewTicker(5 * time.Millisecond); ctx.Err() == nil; <-tick.C {
			_ = i.call("Create", "bob")
		}
	})
	i.t.Cleanup(func() { cancel(); calling.Wait() })
}

// What only somebody can mend is told in plain words.
func TestRedisRefuses(t *testing.T) {
	t.Parallel() // it waits, mostly
	server := redistest.Start(t)
	i := newShared(t, server.Client(t))
	keys, err := i.guards["Create"].Keys(context.Background(), ratelimit.ID{Kind: i.guards["Create"].Policy().Limits[0].Kind, Text: "alice"})
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Client(t).HSet(context.Background(), keys[0].Keys[0], "another", "program's").Err(); err != nil {
		t.Fatal(err)
	}
	if err := i.call("Create", "alice"); !errors.Is(err, ratelimit.ErrMisconfigured) {
		t.Fatalf("Create = %v, want ErrMisconfigured", err)
	}
	page := i.watch()
	page.until("Redis is said to refuse", func() bool { return page.latest.Store.State == "refused" })
	if s := page.latest.Store; !strings.Contains(s.Text, "until somebody mends it") || !strings.Contains(s.Text, "WRONGTYPE") {
		t.Errorf("the store is %+v, want that somebody is to mend it, and Redis's own words", s)
	}
	page.until("the call is counted as failed", func() bool { return page.sum(perUser, failed) == 1 && page.sum(creations, failed) == 1 })
}

// words are those of doc.go for a Redis user, and of the README for the limiter's.
func words(t *testing.T, file string, line *regexp.Regexp) (words []string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	found := line.FindSubmatch(text)
	if found == nil {
		t.Fatalf("%s has no line %v", file, line)
	}
	return strings.Fields(string(found[1]))
}

// The user that the documentation makes may do all that the dashboard does, and the dashboard does nothing else; in Redis are so many keys, all of which end,
// and each second brings one script, and one pipeline where somebody looks.
func TestWhatRedisIsSent(t *testing.T) {
	t.Parallel() // it waits, mostly
	server := redistest.Start(t)
	admin := server.Client(t)
	ctx := context.Background()
	own := words(t, "doc.go", regexp.MustCompile(`(?m)^//\t(\+.*)$`))
	if told := words(t, "../OPERATIONS.md", regexp.MustCompile(`(?m)^(\+hincrby .*)$`)); !slices.Equal(told, own) {
		t.Errorf("OPERATIONS.md permits %q, want what doc.go does, %q", told, own)
	}
	acl := append(words(t, "../../README.md", regexp.MustCompile(`(?m)^ACL SETUSER limiter (.*)$`)), own...)
	acl = append(acl, "+subscribe", "+hset", "+hdel", "+publish", "&rl:overrides") // redisoverride's
	setuser := []any{"acl", "setuser", "limiter"}
	for _, w := range acl {
		setuser = append(setuser, strings.Replace(w, ">password", ">pw", 1))
	}
	if err := admin.Do(ctx, setuser...).Err(); err != nil {
		t.Fatal(err)
	}
	lines := monitor(t, server)
	begin := time.Now()
	client := server.Client(t, func(o *redis.Options) { o.Username, o.Password = "limiter", "pw" })
	i := newShared(t, client, dashboard.WithWrites())
	watch(t, i, client)
	page := i.watch()
	i.calls(5, "Login", "mallory")
	page.until("the page has a ban", func() bool { return len(page.latest.Bans) == 1 && len(page.latest.Denied) == 1 })
	for _, body := range []string{
		`{"do":"reset","method":"orders.Orders.Login","kind":"user","id":"mallory"}`,
		`{"do":"ban","method":"orders.Orders.Login","kind":"user","id":"trent","for":"10m"}`,
		`{"do":"override","limit":"orders.Orders.Create/user","text":"30,1h"}`,
		`{"do":"override","limit":"orders.Orders.Create/user"}`,
	} {
		if w := i.post("change", body); w.Code != 200 {
			t.Errorf("%s: %d %s", body, w.Code, w.Body)
		}
	}
	page.until("the page has the changes", func() bool { return len(page.latest.Changes) == 4 && page.latest.Fleet.Scope == "fleet" })
	if refused := admin.Do(ctx, "acl", "log").Val().([]any); len(refused) != 0 {
		t.Errorf("ACL LOG = %v, want nothing refused", refused)
	}
	keys, err := admin.Keys(ctx, "rl:{dashboard:shop}:*").Result()
	if err != nil || len(keys) < 5 {
		t.Fatalf("the keys are %q, %v, want some", keys, err)
	}
	for _, key := range keys {
		longest := 6 * time.Minute
		switch strings.TrimPrefix(key, "rl:{dashboard:shop}:") {
		case "salt":
			longest = 24 * time.Hour
		case "changes":
			longest = 7 * 24 * time.Hour
		case "bans":
			longest = 10 * time.Minute
		}
		if ttl := admin.PTTL(ctx, key).Val(); ttl <= 0 || ttl > longest {
			t.Errorf("%s ends in %v, want within %v", key, ttl, longest)
		}
	}
	got := executed(t, admin, lines)
	most := int(time.Since(begin)/(900*time.Millisecond)) + 2
	if got.scripts == 0 || got.scripts > most+4+1 { // one for each change, and one whose text Redis does not know yet
		t.Errorf("the dashboard ran %d scripts, want one in each of %d seconds, and five", got.scripts, most)
	}
	if got.looks == 0 || got.looks > most {
		t.Errorf("the dashboard read %d times, want once in each of %d seconds at most", got.looks, most)
	}
	for _, w := range own {
		if name := strings.TrimPrefix(w, "+"); !slices.Contains(got.commands, name) {
			t.Errorf("the dashboard has not sent %s, which doc.go permits: leave it out there", name)
		}
	}
	if len(got.strange) > 0 {
		t.Errorf("the dashboard's commands have the keys %q, want none but its own", got.strange)
	}
}

// watch has an instance heed overrides until the test ends.
func watch(t *testing.T, i *instance, client redis.UniversalClient, opts ...redisoverride.Option) {
	t.Helper()
	heed(t, i, redisoverride.New(client, opts...))
}

// heed has an instance heed sources from now on until the test ends.
func heed(t *testing.T, i *instance, sources ...override.Source) {
	t.Helper()
	watcher, err := override.New(i.limiter, sources)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	_ = watcher.Read(ctx)
	done := make(chan struct{})
	go func() { defer close(done); _ = watcher.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
}

// monitor returns the commands that a server executes from now on, a line each.
func monitor(t *testing.T, server *redistest.Server) *bufio.Scanner {
	t.Helper()
	conn, err := net.Dial("tcp", server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	fmt.Fprint(conn, "MONITOR\r\n")
	lines := bufio.NewScanner(conn)
	lines.Buffer(nil, 1<<22)
	if !lines.Scan() || lines.Text() != "+OK" {
		t.Fatalf("MONITOR = %q, want +OK", lines.Text())
	}
	return lines
}

// ran is what a server has executed for the dashboard.
type ran struct {
	scripts, looks    int
	commands, strange []string
}

var (
	commandIn = regexp.MustCompile(`\] "([^"]*)"(?: "([^"]*)")?`)
	ledgerIn  = regexp.MustCompile(`"rl:\{dashboard:`)
)

// executed reads what MONITOR says of the dashboard's keys, and of the rest which commands.
func executed(t *testing.T, admin *redis.Client, lines *bufio.Scanner) (got ran) {
	t.Helper()
	if err := admin.Echo(context.Background(), "the end").Err(); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() && !strings.HasSuffix(lines.Text(), `"the end"`) {
		words := commandIn.FindStringSubmatch(lines.Text())
		if words == nil {
			t.Fatalf("MONITOR says %q, want a command", lines.Text())
		}
		name := strings.ToLower(words[1])
		got.commands = append(got.commands, name)
		switch ours := ledgerIn.MatchString(lines.Text()); {
		case ours && (name == "evalsha" || name == "eval"):
			got.scripts++
		case ours && name == "lrange":
			got.looks++
		case ours && !strings.HasPrefix(words[2], "rl:{dashboard:shop}:") && name != "keys":
			got.strange = append(got.strange, words[2])
		}
	}
	return got
}
