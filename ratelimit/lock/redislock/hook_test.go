package redislock_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/lock/redislock"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
)

// listener is a hook that is told of commands, and does something before they go on.
type listener struct {
	mu     sync.Mutex
	heard  []string
	before func(ctx context.Context)
}

func (l *listener) DialHook(redis.DialHook) redis.DialHook { return nil }

func (l *listener) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return nil
}

func (l *listener) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		l.mu.Lock()
		l.heard = append(l.heard, cmd.Name())
		l.mu.Unlock()
		if l.before != nil {
			l.before(ctx)
		}
		return next(ctx, cmd)
	}
}

// has says how often the hook was told of a command.
func (l *listener) has(name string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(slices.DeleteFunc(slices.Clone(l.heard), func(other string) bool { return other != name }))
}

// TestHooks holds that the hooks of a client are told of each command once, whichever of its timeouts the store has to shorten.
func TestHooks(t *testing.T) {
	for name, timeout := range map[string]time.Duration{"shorter timeout": time.Minute, "own timeout": 100 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			client := redistest.Standalone(t).Client(t, func(o *redis.Options) { o.ReadTimeout = timeout })
			l := &listener{}
			client.AddHook(l)
			newStore(t, client, redislock.WithPrefix("another")) // whose hook is not this one's
			h := holder{t, newStore(t, client), false}
			h.must(redistest.Prefix(t), 0).unlock() // loads the script, unless another test has
			before := l.has("evalsha")
			h.must(redistest.Prefix(t), 0).unlock()
			if acquired, released := l.has("evalsha")-before, l.has("hdel"); acquired != 1 || released != 2 {
				t.Errorf("the hook was told of %d acquisitions and %d releases, want 1 and 2", acquired, released)
			}
			if err := client.Ping(context.Background()).Err(); err != nil || l.has("ping") != 1 {
				t.Errorf("Ping = %v, of which the hook was told %d times, want nil and 1", err, l.has("ping"))
			}
		})
	}
}

// TestHookWaits holds that the budget ends a call that a hook keeps for as long as its context lets it.
func TestHookWaits(t *testing.T) {
	client := redistest.Standalone(t).Client(t)
	client.AddHook(&listener{before: func(ctx context.Context) { <-ctx.Done() }})
	h := holder{t, newStore(t, client, redislock.WithBudget(50*time.Millisecond)), false}
	if _, err := h.hold(redistest.Prefix(t), 0); err == nil || classOf(err) != store.Unavailable {
		t.Errorf("Lock = %v, want an error of class %v", err, store.Unavailable)
	}
}
