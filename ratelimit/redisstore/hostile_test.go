package redisstore_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/redisstore"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
)

// hostileOptions are those of clients that programs have for other uses, and what a check says of them, if anything.
var hostileOptions = []struct {
	name string
	set  func(*redis.Options)
	says string
}{
	{"MaxRetries 10", func(o *redis.Options) { o.MaxRetries = 10 }, ""},
	{"no ReadTimeout", func(o *redis.Options) { o.ReadTimeout = -1 }, "ReadTimeout is none"},
	{"PoolSize 1", func(o *redis.Options) { o.PoolSize = 1 }, ""},
	{"ContextTimeoutEnabled", func(o *redis.Options) { o.ContextTimeoutEnabled = true }, ""},
	{"DB 5", func(o *redis.Options) { o.DB = 5 }, ""},
	{"RESP2", func(o *redis.Options) { o.Protocol = 2 }, ""},
	{"a name", func(o *redis.Options) { o.ClientName = "shop" }, ""},
	{"no identity", func(o *redis.Options) { o.DisableIdentity = true }, ""},
	{"DialerRetries 9", func(o *redis.Options) { o.DialerRetries = 9 }, "DialerRetries is 9"},
	{"connections that live for a millisecond", func(o *redis.Options) { o.ConnMaxLifetime = time.Millisecond }, ""},
}

// TestHostileOptions holds that a client's options change neither how often a script is executed, nor how long a call lasts.
func TestHostileOptions(t *testing.T) {
	for _, test := range hostileOptions {
		t.Run(test.name, func(t *testing.T) {
			proxy := redistest.NewProxy(t, redistest.Standalone(t).Addr())
			o := &redis.Options{Addr: proxy.Addr(), ReadTimeout: 5 * time.Second, DialerRetries: 1}
			test.set(o)
			client := redis.NewClient(o)
			t.Cleanup(func() { client.Close() })
			admitsItsLimit(t, client)
			var wants []string
			if test.says != "" {
				wants = []string{test.says}
			}
			checked(t, newStore(t, client), nil, wants...)

			s, key := newStore(t, client, redisstore.WithBudget(brief)), redistest.Prefix(t)
			decidesAgain(t, s, key)
			sent := proxy.Seen("evalsha")
			proxy.Next(1, redistest.CutAfter, "evalsha")
			var lost, late tally
			lost.take(newStore(t, client), request(key, 100, 1))
			if n := proxy.Seen("evalsha") - sent; n != 1 || lost.indeterminate.Load() != 1 {
				t.Errorf("%v after %d sendings, want one sending, whose reply is lost; the error: %v", &lost, n, lost.err)
			}
			proxy.Always(redistest.Stall, "evalsha")
			late.load(2, s, request(key, 100, 1))
			if n := late.failed(); n != 8 {
				t.Errorf("%v while the server does not answer, want 8 that fail", &late)
			}
			late.wantInTime(t)
			proxy.Always(redistest.Pass)
			proxy.Cut()
			decidesAgain(t, s, key)
		})
	}
}

// TestHostileClusterOptions holds that decisions are a master's business, whatever a client may read elsewhere.
func TestHostileClusterOptions(t *testing.T) {
	for name, set := range map[string]func(*redis.ClusterOptions){
		"ReadOnly":       func(o *redis.ClusterOptions) { o.ReadOnly = true },
		"RouteRandomly":  func(o *redis.ClusterOptions) { o.RouteRandomly = true },
		"RouteByLatency": func(o *redis.ClusterOptions) { o.RouteByLatency = true },
		"MaxRedirects":   func(o *redis.ClusterOptions) { o.MaxRedirects = 10 },
		"RESP2":          func(o *redis.ClusterOptions) { o.Protocol = 2 },
	} {
		t.Run(name, func(t *testing.T) {
			s, p := newStore(t, redistest.NewCluster(t).Client(t, set)), redistest.Prefix(t)
			var calls tally
			calls.load(8, s, request(p+"a", 20, 1), request(p+"b", 1000, 1), request(p+"c", 1000, 1))
			calls.wantDecided(t)
			if n := calls.allowed.Load(); n > 20 || n == 0 { // a reservation that is about to be given back may deny a call
				t.Errorf("%d of 32 calls were admitted, want at most 20", n)
			}
			for _, req := range []store.Request{request(p+"b", 1000, 0), request(p+"c", 1000, 0)} {
				if left := take(t, s, req).Rules[0].Remaining; left != 1000-calls.allowed.Load() {
					t.Errorf("%d of 1,000 are left after %d admitted calls", left, calls.allowed.Load())
				}
			}
		})
	}
}

// wrapping is a hook of a program's own, around each command.
type wrapping func(next redis.ProcessHook) redis.ProcessHook

func (h wrapping) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h wrapping) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return h(next) }

func (h wrapping) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// scripts has a hook see scripts alone.
func scripts(of redis.ProcessHook) wrapping {
	return func(next redis.ProcessHook) redis.ProcessHook {
		return func(ctx context.Context, cmd redis.Cmder) error {
			if !strings.HasPrefix(cmd.Name(), "eval") {
				return next(ctx, cmd)
			}
			return of(ctx, cmd)
		}
	}
}

// TestHostileHooks holds that what a hook makes of a command is never a call that is let through.
func TestHostileHooks(t *testing.T) {
	server := redistest.Standalone(t)
	for name, test := range map[string]struct {
		does  redis.ProcessHook
		class store.Class
	}{
		"says that it failed":    {func(context.Context, redis.Cmder) error { return errors.New("no") }, store.Unavailable},
		"says that there is nil": {func(context.Context, redis.Cmder) error { return redis.Nil }, store.Indeterminate},
		"panics":                 {func(context.Context, redis.Cmder) error { panic("a hook") }, store.Misconfigured},
	} {
		t.Run(name, func(t *testing.T) {
			client := server.Client(t)
			client.AddHook(scripts(test.does))
			var out store.Outcome
			err := newStore(t, client).Take(context.Background(), []store.Request{request(redistest.Prefix(t), 10, 1)}, true, &out)
			if classOf(err) != test.class || err == nil {
				t.Errorf("Take = %v, want an error of class %v", err, test.class)
			}
		})
	}
}
