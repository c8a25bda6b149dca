package redisstore_test

import (
	"context"
	"fmt"
	"slices"
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

// reader is a hook that reads the arguments of every command before it is sent and after, as one that traces does. It is safe for concurrent use.
type reader struct {
	mu   sync.Mutex
	keys map[string]int // of scripts, by how often they were read
}

func (*reader) DialHook(next redis.DialHook) redis.DialHook { return next }

func (r *reader) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		r.read(cmd)
		defer r.read(cmd)
		return next(ctx, cmd)
	}
}

func (*reader) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (r *reader) read(cmd redis.Cmder) {
	words := strings.Fields(fmt.Sprint(cmd.Args()))
	_ = cmd.String()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, word := range slices.Compact(words) {
		if strings.HasPrefix(word, "rl:") {
			r.keys[word]++
		}
	}
}

func (r *reader) saw(key string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.keys[key]
}

// TestHookThatReads holds that a hook which reads the arguments of commands changes no decision: what is admitted, what is charged, and that it is sent once.
func TestHookThatReads(t *testing.T) {
	server := redistest.Standalone(t)
	for name, open := range map[string]func() redis.UniversalClient{
		"standalone": func() redis.UniversalClient { return server.Client(t) },
		"cluster":    func() redis.UniversalClient { return redistest.NewCluster(t).Client(t) },
	} {
		t.Run(name, func(t *testing.T) {
			client, seen := open(), &reader{keys: map[string]int{}}
			client.(interface{ AddHook(redis.Hook) }).AddHook(seen)
			s, p := newStore(t, client), redistest.Prefix(t)
			one, all := request(p+"one", 10, 1), request(p+"all", 1000, 1)
			var admitted atomic.Int64
			var callers sync.WaitGroup
			for range 40 {
				callers.Go(func() {
					out, err := store.Take(context.Background(), s, []store.Request{one}, false)
					if err != nil {
						t.Error(err)
					} else if out.Allowed {
						admitted.Add(1)
					}
					if _, err := store.Take(context.Background(), s, []store.Request{all}, false); err != nil {
						t.Error(err)
					}
				})
			}
			callers.Wait()
			if n := admitted.Load(); n != 10 {
				t.Errorf("%d calls were admitted, want the limit of 10", n)
			}
			all.Cost = 0
			if left := take(t, s, all).Rules[0].Remaining; left != 1000-40 {
				t.Errorf("%d remain after 40 calls, want 960: each is sent once", left)
			}
			if seen.saw(one.Key) == 0 {
				t.Error("the hook has read no key, want those of the calls")
			}
		})
	}
}

// TestHookThatReadsWhatIsNotSent holds what such a hook costs: that a call is sent is known by its words being read, so one whose budget ends while it waits for a connection
// fails as one that may have been, and may be: charged once, for nobody. One that surely is not, where no connection can be had, is known for that all the same.
func TestHookThatReadsWhatIsNotSent(t *testing.T) {
	t.Parallel()
	f, key := &faults{}, redistest.Prefix(t)
	server := redistest.Standalone(t)
	client := server.Client(t, func(o *redis.Options) { o.PoolSize, o.Dialer, o.ReadTimeout = 1, f.dial, 10*time.Second })
	client.AddHook(&reader{keys: map[string]int{}})
	s := newStore(t, client, redisstore.WithBudget(short))
	take(t, newStore(t, client), request(key, 10, 1))
	f.next.Store(int32(stall))
	for _, what := range []string{"without an answer", "without a connection"} {
		if _, err := store.Take(context.Background(), s, []store.Request{request(key, 10, 1)}, true); classOf(err) != store.Indeterminate {
			t.Errorf("Take %s = %v, want an error of class %v", what, err, store.Indeterminate)
		}
	}
	if left := take(t, newStore(t, server.Client(t)), request(key, 10, 0)).Rules[0].Remaining; left < 7 || left > 8 {
		t.Errorf("%d remain, want 7 or 8 after one call that was decided, one that was lost, and one that may have been sent", left)
	}

	gone := redistest.Start(t)
	away := gone.Client(t, func(o *redis.Options) { o.DialerRetries = 1 })
	away.AddHook(&reader{keys: map[string]int{}})
	gone.Kill(t)
	if _, err := store.Take(context.Background(), newStore(t, away), []store.Request{request(key, 10, 1)}, false); classOf(err) != store.Unavailable {
		t.Errorf("Take where nothing listens = %v, want an error of class %v", err, store.Unavailable)
	}
}
