package redisstore_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/redisstore"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
)

// sensible are options of a client that suit the budget of [newStore].
func sensible(o *redis.Options) { o.ReadTimeout, o.DialerRetries = 20*time.Second, 1 }

// checked fails the test unless a check finds what wants say, each a part of one finding, and nothing else.
func checked(t *testing.T, s *redisstore.Store, requests []store.Request, wants ...string) {
	t.Helper()
	findings, err := s.Check(context.Background(), requests)
	if err != nil {
		t.Errorf("Check = %v, want no error", err)
	}
	for _, want := range wants {
		i := slices.IndexFunc(findings, func(f store.Finding) bool { return strings.Contains(f.Text, want) })
		if i < 0 {
			t.Errorf("Check has not found %q, but %v", want, findings)
			continue
		}
		findings = slices.Delete(findings, i, i+1)
	}
	if len(findings) > 0 {
		t.Errorf("Check has found %v as well", findings)
	}
}

// checkRefuses fails the test unless a check fails as misconfigured, with every want in the message.
func checkRefuses(t *testing.T, s *redisstore.Store, requests []store.Request, wants ...string) {
	t.Helper()
	_, err := s.Check(context.Background(), requests)
	if classOf(err) != store.Misconfigured {
		t.Fatalf("Check = %v, want an error of class %v", err, store.Misconfigured)
	}
	for _, want := range wants {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("Check = %v, want %q in it", err, want)
		}
	}
}

func TestCheckFindsNothing(t *testing.T) {
	s, p := newStore(t, redistest.Standalone(t).Client(t, sensible)), redistest.Prefix(t)
	checked(t, s, nil)
	checked(t, s, []store.Request{request(p+"a", 10, 1)})
	two := newStore(t, redistest.Standalone(t).Client(t, sensible, func(o *redis.Options) { o.Protocol = 2 }))
	checked(t, two, nil)
	if left := redistest.Standalone(t).Client(t).Keys(context.Background(), p+"*").Val(); len(left) != 0 {
		t.Errorf("Check leaves the keys %q, want none", left)
	}
}

// TestCheckOfTimeouts holds that timeouts which do not suit the budget are told: those that outlast it by far, and one that ends calls before it.
func TestCheckOfTimeouts(t *testing.T) {
	addr := redistest.Standalone(t).Addr()
	suitable := redis.Options{Addr: addr, ReadTimeout: 200 * time.Millisecond, DialTimeout: time.Second, DialerRetries: 1}
	for _, test := range []struct {
		name   string
		set    func(*redis.Options)
		budget time.Duration
		wants  []string
	}{
		{"suitable", func(*redis.Options) {}, 100 * time.Millisecond, nil},
		{"a second", func(o *redis.Options) { o.ReadTimeout = time.Second }, 100 * time.Millisecond, nil},
		{"go-redis's own", func(o *redis.Options) { *o = redis.Options{Addr: addr} }, 100 * time.Millisecond,
			[]string{"(ReadTimeout is 5s, WriteTimeout is 5s, DialTimeout is 5s)", "DialerRetries is 5"}},
		{"none", func(o *redis.Options) { o.ReadTimeout, o.WriteTimeout = -1, time.Second }, 100 * time.Millisecond, []string{"(ReadTimeout is none)"}},
		{"write", func(o *redis.Options) { o.WriteTimeout = time.Hour }, 100 * time.Millisecond, []string{"(WriteTimeout is 1h0m0s)"}},
		{"dial", func(o *redis.Options) { o.DialTimeout = time.Hour }, 100 * time.Millisecond, []string{"(DialTimeout is 1h0m0s)"}},
		{"a context that is heeded ends reading and writing, and no dial", func(o *redis.Options) {
			o.ReadTimeout, o.WriteTimeout, o.DialTimeout, o.ContextTimeoutEnabled = time.Hour, time.Hour, time.Hour, true
		}, 100 * time.Millisecond, []string{"(DialTimeout is 1h0m0s)"}},
		{"shorter than the budget", func(*redis.Options) {}, 3 * time.Second, []string{"ReadTimeout is 200ms, where a call may last 3s: calls end with it"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := suitable
			test.set(&o)
			client := redis.NewClient(&o)
			t.Cleanup(func() { client.Close() })
			s, err := redisstore.New(client, redisstore.WithBudget(test.budget))
			if err != nil {
				t.Fatal(err)
			}
			findings, _ := s.Check(context.Background(), nil) // which a busy machine may not let the server answer in time
			var found []string
			for _, f := range findings {
				if strings.Contains(f.Text, "Timeout") || strings.Contains(f.Text, "Dialer") {
					found = append(found, f.Text)
				}
			}
			if len(found) != len(test.wants) {
				t.Fatalf("Check has found %q, want %q", found, test.wants)
			}
			for i, want := range test.wants {
				if !strings.Contains(found[i], want) {
					t.Errorf("Check has found %q, want %q in it", found[i], want)
				}
			}
		})
	}
}

// TestCheckOfTimeoutsOfManyServers holds that the options of a Cluster's client are looked at as
// well.
func TestCheckOfTimeoutsOfManyServers(t *testing.T) {
	cluster := redistest.NewCluster(t).Client(t, suits, func(o *redis.ClusterOptions) { o.ReadTimeout, o.WriteTimeout = 5*time.Second, time.Hour })
	checked(t, newStore(t, cluster), nil, "(WriteTimeout is 1h0m0s)", "ReadTimeout is 5s, where a call may last 10s")
}

// suits are options of a Cluster's client that suit the budget of [newStore].
func suits(o *redis.ClusterOptions) { o.ReadTimeout, o.DialerRetries = 20*time.Second, 1 }

func TestCheckOfOptions(t *testing.T) {
	server := redistest.Standalone(t)
	checked(t, newStore(t, server.Client(t, sensible, func(o *redis.Options) { o.DialerRetries = 5 })), nil, "DialerRetries is 5")
	heeding := func(o *redis.Options) { o.ReadTimeout, o.ContextTimeoutEnabled = time.Hour, true }
	checked(t, newStore(t, server.Client(t, sensible, heeding)), nil) // its calls end with their contexts, and their connections with them
	cluster := redistest.NewCluster(t)
	checked(t, newStore(t, cluster.Client(t, suits)), nil)
	checked(t, newStore(t, cluster.Client(t, suits, func(o *redis.ClusterOptions) { o.RouteRandomly = true })), nil, "RouteRandomly is set")
	checked(t, newStore(t, cluster.Client(t, suits, func(o *redis.ClusterOptions) { o.MaxRedirects = -1 })), nil, "MaxRedirects is none")
	checked(t, newStore(t, another{server.Client(t)}), nil, "the client is a redisstore_test.another")
	checked(t, newStore(t, &embedding{server.Client(t, sensible)}), nil)
}

// embedding is a client that a program has made itself of one of go-redis's.
type embedding struct{ *redis.Client }

// TestCheckOfSlotsThatAreGiven holds that a client which spreads slots over servers that are no Cluster, as the program says, suits them.
func TestCheckOfSlotsThatAreGiven(t *testing.T) {
	one, two := redistest.Standalone(t), redistest.Start(t)
	client := redis.NewClusterClient(&redis.ClusterOptions{
		ReadTimeout: 20 * time.Second, DialerRetries: 1,
		ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
			return []redis.ClusterSlot{
				{Start: 0, End: 8191, Nodes: []redis.ClusterNode{{Addr: one.Addr()}}},
				{Start: 8192, End: 16383, Nodes: []redis.ClusterNode{{Addr: two.Addr()}}},
			}, nil
		},
	})
	t.Cleanup(func() { client.Close() })
	s, p := newStore(t, client), redistest.Prefix(t)
	checked(t, s, []store.Request{request(p+"a", 10, 1)})
	take(t, s, request(p+"a", 10, 1), request(p+"b", 10, 1), request(p+"c", 10, 1))
	if out := take(t, s, request(p+"a", 10, 1), request(p+"b", 1, 1)); out.Allowed {
		t.Error("a call is allowed by a limit that is used up")
	}
	if out := take(t, s, request(p+"a", 10, 0)); out.Rules[0].Remaining != 9 {
		t.Errorf("%d of 10 remaining after one call that was allowed, want 9", out.Rules[0].Remaining)
	}
}

// TestSentinelsGiveSlots holds what tells the check that a Cluster's client over Sentinel's servers is given its slots. Such a client is not run
// here, for go-redis leaves it a goroutine when it is closed.
func TestSentinelsGiveSlots(t *testing.T) {
	client := redis.NewFailoverClusterClient(&redis.FailoverOptions{MasterName: redistest.MasterName, SentinelAddrs: []string{"127.0.0.1:1"}})
	defer client.Close()
	if client.Options().ClusterSlots == nil {
		t.Error("redis.NewFailoverClusterClient has no ClusterSlots, want what the check knows such a client by")
	}
}

func TestCheckOfServers(t *testing.T) {
	t.Parallel()
	cluster, sentinel := redistest.NewCluster(t), redistest.NewSentinel(t)
	plain := func(server *redistest.Server) *redisstore.Store { return newStore(t, server.Client(t, sensible)) }
	for i := range cluster.Masters {
		checkRefuses(t, plain(cluster.Masters[i]), nil, "redis.NewClusterClient")
	}
	checkRefuses(t, plain(sentinel.Sentinels[0]), nil, "redis.NewFailoverClient")
	clustered := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{redistest.Standalone(t).Addr()}})
	t.Cleanup(func() { clustered.Close() })
	checkRefuses(t, newStore(t, clustered), nil, "redis.NewClient")
	checked(t, newStore(t, cluster.Client(t, suits)), nil)
	checked(t, newStore(t, sentinel.Client(t, func(o *redis.FailoverOptions) { o.ReadTimeout, o.DialerRetries = 20*time.Second, 1 })), nil)
	findings, err := plain(sentinel.Replica).Check(context.Background(), nil)
	if classOf(err) != store.Unavailable || len(findings) != 1 || !strings.Contains(findings[0].Text, "is a replica") {
		t.Errorf("Check of a replica = %v, %v, want a finding that says so and an error of class %v", findings, err, store.Unavailable)
	}
}

func TestCheckOfAKeyOfAnotherProgram(t *testing.T) {
	client := redistest.Standalone(t).Client(t, sensible)
	s, p := newStore(t, client), redistest.Prefix(t)
	client.HSet(context.Background(), p+"b", "their", "field")
	t.Cleanup(func() { client.Del(context.Background(), p+"b") })
	checkRefuses(t, s, []store.Request{request(p+"a", 10, 1), request(p+"b", 10, 1)}, "WRONGTYPE", p+"b")
}

// TestCheckOfPermissions holds that a check asks about every command that the documentation lists, and sends none that a
// user with just these may not.
func TestCheckOfPermissions(t *testing.T) {
	server := redistest.Start(t)
	admin := server.Client(t)
	user := func(permissions string) *redisstore.Store {
		as(t, server, permissions)
		return newStore(t, server.Client(t, sensible, func(o *redis.Options) { o.Username, o.Password = "limiter", "pw" }))
	}
	checked(t, user(acl), []store.Request{request("rl:a", 10, 1)}, "+info")
	if got := admin.Do(context.Background(), "acl", "log").Val(); len(got.([]any)) != 0 {
		t.Errorf("ACL LOG = %v, want nothing refused", got)
	}
	checked(t, user(acl+" +info"), nil)

	unasked := []string{"+script|load", "+hello", "+ping", "+client|setname"} // the client's own
	for _, word := range regexp.MustCompile(`\+\S+`).FindAllString(acl, -1) {
		if slices.Contains(unasked, word) {
			continue
		}
		t.Run(word, func(t *testing.T) {
			s := user(strings.Replace(acl+" ", word+" ", "", 1) + "-" + word[1:])
			want := word
			if word == "+eval" {
				want = "permissions"
			}
			checkRefuses(t, s, nil, want)
		})
	}
	checkRefuses(t, user(strings.Replace(acl, "~rl:*", "~other:*", 1)), nil, `"rl"`, "~rl:*")
	checkRefuses(t, user(acl), []store.Request{request("rl:a", 1, 1), request("mine:a", 1, 1)}, `"mine"`, "~mine:*")

	wrong := server.Client(t, sensible, func(o *redis.Options) { o.Username, o.Password = "limiter", "wrong" })
	checkRefuses(t, newStore(t, wrong), nil, "WRONGPASS")
}

// checksUntil fails the test unless a check comes to what ok expects. One that a busy machine did not let end in time says so.
func checksUntil(t *testing.T, s *redisstore.Store, ok func([]store.Finding, error) bool) {
	t.Helper()
	if err := redistest.Poll(func() error {
		findings, err := s.Check(t.Context(), nil)
		if !ok(findings, err) {
			return fmt.Errorf("Check = %v, %v", findings, err)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

// TestCheckNamesMasters holds that the error of a check says which masters of a Cluster do not answer, be they dead or frozen.
func TestCheckNamesMasters(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	s := newStore(t, cluster.Client(t, func(o *redis.ClusterOptions) { o.ReadTimeout, o.DialerRetries = time.Minute, 1 }),
		redisstore.WithBudget(4*time.Second)) // which a check waits for
	checksUntil(t, s, func(_ []store.Finding, err error) bool { return err == nil })
	cluster.Masters[0].Freeze(t)
	cluster.Masters[1].Kill(t) // two of three: no replica is promoted
	checksUntil(t, s, func(_ []store.Finding, err error) bool {
		names := func(i int) bool {
			return strings.Contains(err.Error(), "server "+cluster.Masters[i].Addr()+": redisstore: ")
		}
		return classOf(err) == store.Unavailable && names(0) && names(1) && !names(2)
	})
}

// A user who may use the keys of limits, and not those of their bans, is found at the start.
func TestCheckOfTheKeysOfBans(t *testing.T) {
	server := redistest.Start(t)
	req := request("rl:ip=192.0.2.1:accounts.Accounts-Login", 5, 1)
	banning := req
	banning.Ban, banning.After = time.Hour, 3
	user := func(keys string) *redisstore.Store {
		as(t, server, strings.Replace(acl, "~rl:*", keys, 1)+" +info")
		return newStore(t, server.Client(t, sensible, func(o *redis.Options) { o.Username, o.Password = "limiter", "pw" }))
	}
	const limits = "~rl:ip=* ~rl:check "
	checked(t, user(limits), []store.Request{req})
	for _, bans := range []string{"", "%R~rl:ban:*", "%W~rl:ban:*"} {
		checkRefuses(t, user(limits+bans), []store.Request{banning}, "NOPERM", req.Key+", or that of its bans, rl:ban:{"+req.Key+"}")
	}
	checked(t, user(limits+"~rl:ban:*"), []store.Request{banning})
}

// TestCheckKnowsItsCommands holds that check.lua asks about as many commands of a key as [redisstore.KeyCommands].
func TestCheckKnowsItsCommands(t *testing.T) {
	text, err := os.ReadFile("check.lua")
	if err != nil {
		t.Fatal(err)
	}
	n := len(regexp.MustCompile(`(?m)^  (data\(|need\('eval)`).FindAll(text, -1))
	if n != redisstore.KeyCommands {
		t.Errorf("check.lua asks about %d commands of each key, want %d", n, redisstore.KeyCommands)
	}
}

func TestCheckOfAServerThatEvicts(t *testing.T) {
	server := redistest.Start(t, "--maxmemory-policy", "allkeys-lru")
	s := newStore(t, server.Client(t, sensible))
	checked(t, s, nil) // without a bound, nothing is evicted
	server.Client(t).ConfigSet(context.Background(), "maxmemory", "100mb")
	checked(t, s, nil, "allkeys-lru")
}

func TestCheckOfAFarServer(t *testing.T) {
	proxy := redistest.NewProxy(t, redistest.Standalone(t).Addr())
	client := redis.NewClient(&redis.Options{Addr: proxy.Addr(), DialerRetries: 1, ReadTimeout: time.Second, DialTimeout: time.Second})
	t.Cleanup(func() { client.Close() })
	proxy.Delay(30 * time.Millisecond) // each way: more than half of the budget, and far less than a check may last for all that it asks
	s := newStore(t, client, redisstore.WithBudget(100*time.Millisecond))
	if err := redistest.Poll(func() error { // a machine may stand still for longer than that
		found, err := s.Check(t.Context(), nil)
		if err == nil && (len(found) != 1 || !strings.Contains(found[0].Text, "WithBudget")) {
			t.Errorf("Check has found %v, want that the server is too far away for the budget", found)
		}
		return err
	}); err != nil {
		t.Error(err)
	}
}

func TestCheckOfAClock(t *testing.T) {
	now := time.Now()
	for _, test := range []struct {
		skew  time.Duration
		found int
	}{{0, 0}, {9 * time.Second, 0}, {-9 * time.Second, 0}, {time.Hour, 1}, {-time.Hour, 1}} {
		if got := redisstore.CheckClock(now.Add(test.skew), now); len(got) != test.found {
			t.Errorf("a server's clock that is %v ahead is found %q, want %d findings", test.skew, got, test.found)
		}
	}
}

// A server that cannot be asked is unavailable, and the check does not wait for it for long.
func TestCheckOfADeadServer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client(t, func(o *redis.Options) { o.ReadTimeout, o.DialerRetries = 60*time.Second, 1 })
	s := newStore(t, client)
	take(t, s, request("rl:a", 10, 1))
	server.Freeze(t)
	s = newStore(t, client, redisstore.WithBudget(time.Second)) // which a check waits for
	begin := time.Now()
	findings, err := s.Check(context.Background(), nil)
	if err == nil || classOf(err) == store.Misconfigured {
		t.Errorf("Check of a frozen server = %v, want an error of another class than %v", err, store.Misconfigured)
	}
	if took := time.Since(begin); took > 20*time.Second { // far more than its budget, and less than ReadTimeout
		t.Errorf("Check of a frozen server took %v, want about 2s", took)
	}
	for _, f := range findings {
		if f.Level != slog.LevelInfo {
			t.Errorf("Check of a frozen server has found %q", f.Text)
		}
	}
	server.Resume(t)
	server.Kill(t)
	if _, err := s.Check(context.Background(), nil); classOf(err) == store.Misconfigured || err == nil {
		t.Errorf("Check of a dead server = %v, want an error of another class than %v", err, store.Misconfigured)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := s.Check(ctx, nil); err == nil {
		t.Error("Check with a context that is done succeeds, want its error")
	}
}
