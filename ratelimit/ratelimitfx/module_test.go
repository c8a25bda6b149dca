package ratelimitfx_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"
	"go.uber.org/fx"
	"go.uber.org/goleak"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/embedded"
	"github.com/rlgen/rlgen/ratelimit/memstore"
	"github.com/rlgen/rlgen/ratelimit/ratelimitfx"
	"github.com/rlgen/rlgen/ratelimit/redisstore"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var quiet = slog.New(slog.DiscardHandler)

// backend is a Redis that a test starts.
type backend struct {
	addr string
	keys func() []string
}

func newBackend(t *testing.T) backend {
	t.Helper()
	server, err := embedded.Start(embedded.WithLogger(quiet))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	return backend{server.Addr(), func() []string {
		return server.Client().Keys(context.Background(), "*").Val()
	}}
}

// client returns a client as an app opens and closes it.
func (b backend) client(t *testing.T) *redis.Client {
	c := redis.NewClient(&redis.Options{Addr: b.addr})
	t.Cleanup(func() { c.Close() })
	return c
}

// unreachable is a client of a server that nobody is to ask.
func unreachable(t *testing.T) *redis.Client {
	c := redis.NewClient(&redis.Options{Dialer: func(context.Context, string, string) (net.Conn, error) {
		t.Error("a client is asked that is not meant")
		return nil, errors.New("nobody is to ask this")
	}})
	t.Cleanup(func() { c.Close() })
	return c
}

func unreachableCluster(t *testing.T) *redis.ClusterClient {
	c := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: []string{"127.0.0.1:1"},
		Dialer: func(context.Context, string, string) (net.Conn, error) {
			t.Error("a cluster client is asked that is not meant")
			return nil, errors.New("nobody is to ask this")
		},
	})
	t.Cleanup(func() { c.Close() })
	return c
}

func universal(c redis.UniversalClient) fx.Option {
	return fx.Provide(func() redis.UniversalClient { return c })
}

// take is an app's only work: one call by the limiter.
var take = fx.Invoke(func(l *ratelimit.Limiter) error {
	ctx, cancel := context.WithTimeout(ratelimit.WithUser(context.Background(), "alice"), 10*time.Second)
	defer cancel()
	_, err := l.Guard(&createPolicy).Take(ctx)
	return err
})

func TestModuleTakesWhatTheAppHas(t *testing.T) {
	for _, tt := range []struct {
		name string
		app  func(t *testing.T, b backend) fx.Option
	}{
		{"*redis.Client", func(t *testing.T, b backend) fx.Option { return fx.Supply(b.client(t)) }},
		{"redis.UniversalClient", func(t *testing.T, b backend) fx.Option { return universal(b.client(t)) }},
		{"store.Store", func(t *testing.T, b backend) fx.Option {
			return fx.Provide(func() (store.Store, error) { return redisstore.New(b.client(t)) })
		}},
		{"redisstore.New", func(t *testing.T, b backend) fx.Option {
			return fx.Options(universal(b.client(t)), fx.Provide(redisstore.New))
		}},
		{"a client from a module", func(t *testing.T, b backend) fx.Option {
			return fx.Module("redis", fx.Supply(b.client(t)))
		}},
		{"redis.UniversalClient before the others", func(t *testing.T, b backend) fx.Option {
			return fx.Options(universal(b.client(t)), fx.Supply(unreachable(t), unreachableCluster(t)))
		}},
		{"*redisstore.Store before a client", func(t *testing.T, b backend) fx.Option {
			s, err := redisstore.New(b.client(t))
			if err != nil {
				t.Fatal(err)
			}
			return fx.Options(universal(unreachable(t)), fx.Supply(s))
		}},
		{"store.Store before all", func(t *testing.T, b backend) fx.Option {
			unused, err := redisstore.New(unreachable(t))
			if err != nil {
				t.Fatal(err)
			}
			return fx.Options(
				fx.Provide(func() (store.Store, error) { return redisstore.New(b.client(t)) }),
				fx.Supply(unused, unreachable(t), unreachableCluster(t)), universal(unreachable(t)),
			)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBackend(t)
			if err := runWith(tt.app(t, b), ratelimitfx.Module, fx.Supply(quiet, uncounted), take); err != nil {
				t.Fatal(err)
			}
			want := []string{"rl:user=alice:orders.Orders-Create"}
			if diff := cmp.Diff(want, b.keys()); diff != "" {
				t.Errorf("keys (-want +got):\n%s", diff)
			}
		})
	}
}

func TestModuleTakesAClusterClient(t *testing.T) {
	var mu sync.Mutex
	dialed := false
	cluster := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: []string{"127.0.0.1:1"},
		Dialer: func(context.Context, string, string) (net.Conn, error) {
			mu.Lock()
			defer mu.Unlock()
			dialed = true
			return nil, errors.New("no cluster here")
		},
	})
	defer cluster.Close()
	if err := runWith(fx.Supply(cluster, quiet), ratelimitfx.Module, take); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if !dialed {
		t.Error("the cluster client is not asked")
	}
}

func TestModuleClosesNoClient(t *testing.T) {
	b := newBackend(t)
	client := b.client(t)
	if err := runWith(fx.Supply(client), ratelimitfx.Module, take); err != nil {
		t.Fatal(err)
	}
	if err := client.Ping(context.Background()).Err(); err != nil {
		t.Errorf("Ping after the app has stopped = %v, want nil", err)
	}
}

func TestModuleFails(t *testing.T) {
	const none = "ratelimitfx: the app has nothing to keep the counts in: " +
		"provide a redis.UniversalClient, *redis.Client, *redis.ClusterClient or store.Store " +
		"(one that itself lacks a dependency counts as none), " +
		"or add ratelimitfx.InProcess to count in this process alone, or ratelimitfx.Embedded to try out"
	other := createPolicy
	other.Package = "example.com/elsewhere/orders"
	bad := createPolicy
	bad.Limits = []rules.Limit{{Kind: rules.User}}
	for _, tt := range []struct {
		name string
		app  fx.Option
		want string
	}{
		{"nothing", fx.Options(), none},
		{"a client that cannot be built", fx.Provide(func(*DB) *redis.Client { return nil }), none},
		{"a nil client", fx.Provide(func() *redis.Client { return nil }), none},
		{"a private client", fx.Module("redis", fx.Provide(func() *redis.Client { return &redis.Client{} }, fx.Private)), none},
		{
			"two clients", fx.Supply(unreachable(t), unreachableCluster(t)),
			"ratelimitfx: the app has a *redis.Client and a *redis.ClusterClient: " +
				"say which of them keeps the counts by providing it as a redis.UniversalClient as well",
		},
		{"a client whose constructor fails", fx.Provide(func() (*redis.Client, error) { return nil, errBroken }), errBroken.Error()},
		{"two choices in words", fx.Options(ratelimitfx.InProcess, ratelimitfx.Embedded), "already provided"},
		{
			"an option",
			fx.Options(ratelimitfx.InProcess, fx.Supply(ratelimitfx.Options{ratelimit.WithInstances(0)})),
			"ratelimit: 0 instances, want 1 or more",
		},
		{"a policy", fx.Options(ratelimitfx.InProcess, policies(&bad)), "ratelimit: "},
		{"a nil policy", fx.Options(ratelimitfx.InProcess, policies(nil)), `ratelimitfx: the group "ratelimit.policies" has a nil *rules.Policy`},
		{
			"two types of one name", fx.Options(ratelimitfx.InProcess, policies(&createPolicy, &other)),
			"two types are called orders.Orders, in example.com/",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := runWith(tt.app, ratelimitfx.Module, fx.Invoke(func(*ratelimit.Limiter) {}))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("app = %v, want %s", err, tt.want)
			}
		})
	}
}

func TestModuleOpensNothingForAnAppWithoutLimits(t *testing.T) {
	if err := runWith(ratelimitfx.Module); err != nil {
		t.Errorf("app = %v, want nil", err)
	}
}

type counter struct {
	mu sync.Mutex
	n  int
}

func (c *counter) Observe(context.Context, *ratelimit.Decision, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
}

func (c *counter) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

func TestModuleTellsEveryObserver(t *testing.T) {
	var a, b, more counter
	observe := fx.Provide(
		fx.Annotate(func() ratelimit.Observer { return &a }, fx.ResultTags(`group:"ratelimit.observers"`)),
		fx.Annotate(func() *counter { return &b }, fx.As(new(ratelimit.Observer)), fx.ResultTags(`group:"ratelimit.observers"`)),
	)
	if err := run(observe, take); err != nil {
		t.Fatal(err)
	}
	if a.count() != 1 || b.count() != 1 {
		t.Errorf("the observers saw %d and %d calls, want 1 and 1", a.count(), b.count())
	}
	if err := run(observe, fx.Supply(ratelimitfx.Options{ratelimit.WithObserver(&more)}), take); err != nil {
		t.Fatal(err)
	}
	if a.count() != 2 || more.count() != 1 {
		t.Errorf("the observer of Options saw %d calls, the others %d more, want 1, 1", more.count(), a.count()-1)
	}
}

// down is a store that cannot decide.
type down struct{ store.Store }

func (down) Take(context.Context, []store.Request, bool, *store.Outcome) error {
	return &store.Error{Class: store.Unavailable, Err: errBroken}
}

func TestModuleLogsToTheAppsLogger(t *testing.T) {
	var log bytes.Buffer
	err := runWith(
		fx.Supply(slog.New(slog.NewTextHandler(&log, nil))),
		fx.Provide(func() store.Store { return down{memstore.New()} }),
		ratelimitfx.Module, take,
	)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log.String(), errBroken.Error()) {
		t.Errorf("log = %q, want the outage in it", log.String())
	}
}

func TestPolicies(t *testing.T) {
	policy := func(typ, method string) *rules.Policy {
		p := createPolicy
		p.Type, p.Method = typ, method
		return &p
	}
	var got []string
	err := run(
		policies(policy("b.B", "Y"), policy("b.B", "X")),
		fx.Module("m", policies(policy("a.A", "Z"))),
		fx.Invoke(func(ps ratelimitfx.Policies) {
			for _, p := range ps {
				got = append(got, p.Type+" "+p.Method)
			}
		}),
	)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a.A Z", "b.B X", "b.B Y"}, got); diff != "" {
		t.Errorf("policies (-want +got):\n%s", diff)
	}
}

// uncounted keeps limiters from counting the instances, in a key of their own.
var uncounted = ratelimitfx.Options{ratelimit.WithInstances(1)}

func TestEmbeddedEndsWithTheApp(t *testing.T) {
	var log bytes.Buffer
	var server *embedded.Server
	app := fx.New(
		fx.NopLogger, fx.Supply(slog.New(slog.NewTextHandler(&log, nil))),
		ratelimitfx.Embedded, ratelimitfx.Module, fx.Supply(uncounted), take, fx.Populate(&server),
	)
	ctx := context.Background()
	if err := app.Start(ctx); err != nil {
		t.Fatal(err)
	}
	addr := server.Addr()
	if n := server.Client().DBSize(ctx).Val(); n != 1 {
		t.Errorf("the server has %d keys, want 1", n)
	}
	if err := app.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	if conn, err := net.Dial("tcp", addr); err == nil {
		conn.Close()
		t.Error("the server answers after the app has stopped")
	}
	if n := strings.Count(log.String(), "not for production"); n != 1 {
		t.Errorf("log = %q, want to be told once that it is not for production", log.String())
	}
}

// A program's own Redis that is late is no outage: its counts have more time than those of one elsewhere.
func TestEmbeddedIsPatient(t *testing.T) {
	var counts store.Store
	if err := runWith(ratelimitfx.Embedded, fx.Supply(quiet), fx.Populate(&counts)); err != nil {
		t.Fatal(err)
	}
	if got := counts.(*redisstore.Store).Budget(); got != time.Second {
		t.Errorf("a call may last %v, want 1s", got)
	}
}

// An app does not start with a store that somebody must mend, and does with one that is not there.
func TestModuleChecksTheStore(t *testing.T) {
	b := newBackend(t)
	b.client(t).Set(context.Background(), "rl:global:orders.Orders-Create", "another program's", 0)
	global := rules.Policy{Package: "example.com/orders", Type: "orders.Orders", Method: "Create", Limits: []rules.Limit{
		{Kind: rules.Global, Rules: []rules.Rule{{Count: 1, Window: time.Hour}}},
	}}
	use := fx.Invoke(func(*ratelimit.Limiter) {})
	supplied := fx.Supply(fx.Annotate(&global, fx.ResultTags(`group:"ratelimit.policies"`)))
	err := runWith(fx.Supply(b.client(t)), ratelimitfx.Module, fx.Supply(quiet), supplied, use)
	if !errors.Is(err, ratelimit.ErrMisconfigured) || !strings.Contains(err.Error(), "rl:global:orders.Orders-Create") {
		t.Errorf("an app whose key is another program's starts with %v, want %v, which names the key", err, ratelimit.ErrMisconfigured)
	}

	dead := redis.NewClient(&redis.Options{DialerRetries: 1, Dialer: func(context.Context, string, string) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	}})
	defer dead.Close()
	var log bytes.Buffer
	err = runWith(fx.Supply(dead), ratelimitfx.Module, fx.Supply(slog.New(slog.NewTextHandler(&log, nil))), supplied, use)
	if err != nil {
		t.Errorf("an app without its Redis starts with %v, want no error", err)
	}
	if !strings.Contains(log.String(), "level=WARN") || !strings.Contains(log.String(), "connection refused") {
		t.Errorf("the log is %s, want a warning that says why the store is not there", log.String())
	}
}
