package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
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
	{"timeouts of an hour", func(o *redis.Options) {
		o.ReadTimeout, o.WriteTimeout, o.DialTimeout, o.PoolTimeout = time.Hour, time.Hour, time.Hour, time.Hour
	}, "ReadTimeout is 1h0m0s"},
	{"timeouts of an hour, PoolSize 1", func(o *redis.Options) {
		o.ReadTimeout, o.WriteTimeout, o.DialTimeout, o.PoolTimeout, o.PoolSize = time.Hour, time.Hour, time.Hour, time.Hour, 1
	}, "ReadTimeout is 1h0m0s"},
	{"connections that live for a millisecond", func(o *redis.Options) { o.ConnMaxLifetime = time.Millisecond }, ""},
}

// TestHostileOptions holds that a client's options change neither how often a script is executed, nor how long a call lasts.
func TestHostileOptions(t *testing.T) {
	t.Parallel()
	for _, test := range hostileOptions {
		t.Run(test.name, func(t *testing.T) {
			proxy := redistest.NewProxy(t, redistest.Standalone(t).Addr())
			o := &redis.Options{Addr: proxy.Addr(), ReadTimeout: 20 * time.Second, DialerRetries: 1}
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
			late.wantInTime(t, brief)
			proxy.Always(redistest.Pass)
			proxy.Cut()
			decidesAgain(t, s, key)
		})
	}
}

// TestHostileClusterOptions holds that decisions are a master's business, whatever a client may read elsewhere.
func TestHostileClusterOptions(t *testing.T) {
	t.Parallel()
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
	t.Parallel()
	server := redistest.Standalone(t)
	for name, test := range map[string]struct {
		does  redis.ProcessHook
		class store.Class
	}{
		"says that it failed":    {func(context.Context, redis.Cmder) error { return errors.New("no") }, store.Unavailable},
		"says that there is nil": {func(context.Context, redis.Cmder) error { return redis.Nil }, store.Unavailable},
		"panics":                 {func(context.Context, redis.Cmder) error { panic("a hook") }, store.Misconfigured},
		"drops it":               {func(context.Context, redis.Cmder) error { return nil }, store.Misconfigured},
		"looks at it and drops it": {func(_ context.Context, cmd redis.Cmder) error {
			cmd.Args()
			return nil
		}, store.Misconfigured},
	} {
		for _, batching := range []int{1, redisstore.DefaultBatching} {
			t.Run(fmt.Sprintf("%s, batching %d", name, batching), func(t *testing.T) {
				client := server.Client(t)
				client.AddHook(scripts(test.does))
				s := newStore(t, client, redisstore.WithBatching(batching))
				out, err := store.Take(context.Background(), s, []store.Request{request(redistest.Prefix(t), 10, 1)}, true)
				if classOf(err) != test.class || err == nil {
					t.Errorf("Take = %+v, %v, want an error of class %v", out, err, test.class)
				}
			})
		}
	}
}

// TestHookThatSendsAgain holds what becomes of a script that a hook of the client hands on twice, of which the store knows nothing: it is charged for each
// sending that the server has executed, so that fewer calls pass than the limit has room for, and never more.
func TestHookThatSendsAgain(t *testing.T) {
	proxy, client := proxied(t)
	client.AddHook(wrapping(func(next redis.ProcessHook) redis.ProcessHook {
		return func(ctx context.Context, cmd redis.Cmder) error {
			err := next(ctx, cmd)
			if err != nil {
				cmd.SetErr(nil)
				err = next(ctx, cmd)
			}
			return err
		}
	}))
	s, key := newStore(t, client), redistest.Prefix(t)
	decidesAgain(t, s, key)
	proxy.Next(1, redistest.CutAfter, "evalsha")
	var calls tally
	calls.load(8, s, request(key, 10, 1))
	calls.wantDecided(t)
	if n := calls.allowed.Load(); n >= 10 || n < 6 {
		t.Errorf("%d of 32 calls were admitted, want fewer than the limit of 10, by those that were sent twice", n)
	}
	if n := charged(t, client, key); n != 10 {
		t.Errorf("%d charged, want 10", n)
	}
}

// latch is a hook that holds scripts back, and then sends them.
type latch struct {
	left     atomic.Int32 // scripts to hold back
	heedless bool         // holds them until it is released, and not until their contexts are done
	held     atomic.Int32
	released chan struct{}
	sent     chan error // what became of those that were held back
}

func (*latch) DialHook(next redis.DialHook) redis.DialHook { return next }

func (*latch) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h *latch) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if !strings.HasPrefix(cmd.Name(), "eval") || h.left.Add(-1) < 0 {
			return next(ctx, cmd)
		}
		done := ctx.Done()
		if h.heedless {
			done = nil
		}
		h.held.Add(1)
		select {
		case <-done:
		case <-h.released:
		}
		err := next(ctx, cmd)
		h.sent <- err
		return err
	}
}

// TestLateHook holds that a call ends with its budget or its context however long a hook holds the script back, that the script
// is then never executed, and that calls whose scripts are not held back are decided meanwhile. Only who is served by a client that
// is to heed contexts waits for a hook that does not.
func TestLateHook(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	for name, set := range map[string]func(*redis.Options){
		"default options":       func(*redis.Options) {},
		"short ReadTimeout":     func(o *redis.Options) { o.ReadTimeout = brief / 2 },
		"ContextTimeoutEnabled": func(o *redis.Options) { o.ContextTimeoutEnabled = true },
		"timeouts of an hour":   func(o *redis.Options) { o.ReadTimeout, o.PoolTimeout = time.Hour, time.Hour },
	} {
		for _, batching := range []int{1, redisstore.DefaultBatching} {
			for _, heedless := range []bool{false, true} {
				for _, cancelled := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s, batching %d, heedless %v, cancelled %v", name, batching, heedless, cancelled), func(t *testing.T) {
						h := &latch{heedless: heedless, released: make(chan struct{}), sent: make(chan error, redisstore.Aloft)}
						client := server.Client(t, set)
						client.AddHook(h)
						s := newStore(t, client, redisstore.WithBudget(brief), redisstore.WithBatching(batching))
						waits := client.Options().ContextTimeoutEnabled && batching > 1 && heedless && !cancelled
						lateHook(t, s, h, client, cancelled, waits)
					})
				}
			}
		}
	}
}

// TestLateHookIsAwaitedOnce holds that of callers who come one after the other only the first waits for a hook that heeds no context, of a client that is to: the
// next ends with its budget.
func TestLateHookIsAwaitedOnce(t *testing.T) {
	t.Parallel()
	client := redistest.Standalone(t).Client(t, func(o *redis.Options) { o.ContextTimeoutEnabled = true })
	first, second := newLatch(), newLatch()
	client.AddHook(first)
	client.AddHook(second)
	s, key := newStore(t, client, redisstore.WithBudget(brief)), redistest.Prefix(t)
	decidesAgain(t, s, key)
	ask := func() error {
		_, err := store.Take(context.Background(), s, []store.Request{request(key, 100, 1)}, false)
		return err
	}
	first.left.Store(1)
	begin, ended := time.Now(), make(chan struct{})
	go func() {
		defer close(ended)
		ask()
	}()
	until(t, 1, "scripts are held back", func() int { return int(first.held.Load()) })
	<-time.After(time.Until(begin.Add(10 * brief))) // until it is late
	close(first.released)
	<-ended
	decidesAgain(t, s, key)

	second.left.Store(1)
	release := time.AfterFunc(20*time.Second, func() { close(second.released) }) // for a caller who waits
	if err := ask(); classOf(err) != store.Unavailable || !release.Stop() {
		t.Errorf("Take of a script that is held back = %v, want that its budget ends", err)
	} else {
		close(second.released)
	}
	<-second.sent
}

// newLatch is a hook that heeds no context.
func newLatch() *latch {
	return &latch{heedless: true, released: make(chan struct{}), sent: make(chan error, 1)}
}

func lateHook(t *testing.T, s *redisstore.Store, h *latch, client *redis.Client, cancelled, waits bool) {
	key := redistest.Prefix(t)
	decidesAgain(t, s, key)
	h.left.Store(redisstore.Aloft)
	ctx := context.Background()
	if cancelled {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, brief/4)
		defer cancel()
	}
	ended := make(chan error, redisstore.Aloft)
	for i := range redisstore.Aloft {
		go func() {
			_, err := store.Take(ctx, s, []store.Request{request(key, 100, 1)}, false)
			ended <- err
		}()
		if waits {
			until(t, i+1, "scripts are held back", func() int { return int(h.held.Load()) })
		}
	}
	release := sync.OnceFunc(func() { close(h.released) })
	defer release()
	if waits {
		decidesAgain(t, s, key)
		release()
	}
	admitted := int64(0) // whose budgets had not ended yet when the hook let go
	for range redisstore.Aloft {
		select {
		case err := <-ended:
			if err == nil && waits {
				admitted++
				continue
			}
			if cancelled != errors.Is(err, context.DeadlineExceeded) || !cancelled && classOf(err) != store.Unavailable {
				t.Errorf("Take of a script that is held back = %v, want an error of class %v, or the context's", err, store.Unavailable)
			}
		case <-time.After(tooLate):
			t.Fatal("a call has not ended with its budget, and waits for a hook")
		}
	}
	decidesAgain(t, s, key)
	release()
	for range redisstore.Aloft {
		<-h.sent
	}
	if n := charged(t, client, key); n != admitted {
		t.Errorf("%d calls are charged, want %d: the others ended before their scripts were sent", n, admitted)
	}
}
