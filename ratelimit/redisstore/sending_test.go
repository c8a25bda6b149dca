package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
)

// classOf is the class of a store's error, or -1.
func classOf(err error) store.Class {
	var failed *store.Error
	if errors.As(err, &failed) {
		return failed.Class
	}
	return 255
}

// patience is how long faulty clients wait for a reply.
const patience = 700 * time.Millisecond

// faultyClients are clients of the servers that the package's tests share, over connections that fail as told.
func faultyClients(t *testing.T, f *faults) map[string]redis.UniversalClient {
	return map[string]redis.UniversalClient{
		"standalone": redistest.Standalone(t).Client(t, func(o *redis.Options) { o.Dialer, o.ReadTimeout = f.dial, patience }),
		"cluster": redistest.NewCluster(t).Client(t, func(o *redis.ClusterOptions) {
			o.Dialer, o.ReadTimeout = f.dial, patience
		}),
	}
}

// TestLostReply holds that a script is executed at most once, whatever the client's own retries are.
func TestLostReply(t *testing.T) {
	t.Parallel()
	f := &faults{}
	for name, client := range faultyClients(t, f) {
		for _, test := range []struct {
			fault   fault
			charged int64
		}{{cutBefore, 0}, {cutAfter, 1}, {stall, 1}} {
			t.Run(fmt.Sprint(name, test.fault), func(t *testing.T) {
				s, key := newStore(t, client), redistest.Prefix(t)
				take(t, s, request(key, 10, 0)) // connects and loads the script
				sent := f.scripts.Load()
				f.next.Store(int32(test.fault))
				_, err := store.Take(context.Background(), s, []store.Request{request(key, 10, 1)}, true)
				if got := classOf(err); got != store.Indeterminate {
					t.Errorf("Take without an answer = %v, want an error of class %v", err, store.Indeterminate)
				}
				if n := int64(f.scripts.Load() - sent); n != test.charged {
					t.Errorf("%d scripts sent, want %d", n, test.charged)
				}
				if out := take(t, s, request(key, 10, 0)); out.Rules[0].Remaining != 10-test.charged {
					t.Errorf("%d remaining, want %d", out.Rules[0].Remaining, 10-test.charged)
				}
			})
		}
	}
}

// TestGiveBackIsRepeated holds that a give-back is sent until it has an answer.
func TestGiveBackIsRepeated(t *testing.T) {
	f := &faults{}
	for name, client := range faultyClients(t, f) {
		for _, lost := range []fault{cutBefore, cutAfter} {
			t.Run(fmt.Sprint(name, lost), func(t *testing.T) {
				s, key := newStore(t, client), redistest.Prefix(t)
				out := take(t, s, request(key, 10, 3))
				f.next.Store(int32(lost))
				if err := s.GiveBack(context.Background(), out.Receipt); err != nil {
					t.Errorf("GiveBack = %v, want nil", err)
				}
				if out := take(t, s, request(key, 10, 0)); out.Rules[0].Remaining != 10 {
					t.Errorf("%d remaining, want 10", out.Rules[0].Remaining)
				}
			})
		}
	}
}

// TestKilledConnections kills the clients' connections under load: no call is charged more than once, and none is
// allowed without being charged.
func TestKilledConnections(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := newStore(t, server.Client(t))
	key := "rl:killed"
	take(t, s, request(key, 1_000_000, 0))
	var allowed, lost atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 300 {
				_, err := store.Take(context.Background(), s, []store.Request{request(key, 1_000_000, 1)}, false)
				switch {
				case err == nil:
					allowed.Add(1)
				case classOf(err) == store.Indeterminate:
					lost.Add(1)
				case classOf(err) == store.Misconfigured:
					t.Errorf("Take = %v, want another class", err)
				}
			}
		})
	}
	finished := make(chan struct{})
	go func() { wg.Wait(); close(finished) }()
	admin := server.Client(t)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for done := false; !done; {
		select {
		case <-finished:
			done = true
		case <-tick.C:
			admin.Do(context.Background(), "client", "kill", "type", "normal", "skipme", "yes")
			admin.ScriptFlush(context.Background())
		}
	}
	charged := admin.ZCard(context.Background(), key).Val()
	if charged < allowed.Load() || charged > allowed.Load()+lost.Load() {
		t.Errorf("%d charged, want %d allowed and at most %d lost more", charged, allowed.Load(), lost.Load())
	}
}
