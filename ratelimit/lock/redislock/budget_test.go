package redislock_test

import (
	"context"
	"testing"
	"time"

	"github.com/rlgen/rlgen/ratelimit/lock/redislock"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
)

// TestBudgetHasTwoSendings holds that a server which does not answer is sent a call twice at most, which is how long the budget lasts,
// whether the caller's context can end or not.
func TestBudgetHasTwoSendings(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client(t)
	l := &listener{}
	client.AddHook(l)
	_, hold, err := newLocker(t, newStore(t, client, redislock.WithBudget(400*time.Millisecond))).Lock(context.Background(), "silent")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := hold.TTL(context.Background()); err != nil { // loads the script
		t.Fatal(err)
	}
	server.Freeze(t)
	for name, ctx := range map[string]context.Context{"endless": context.Background(), "ending": t.Context()} {
		t.Run(name, func(t *testing.T) {
			before := l.has("evalsha")
			if _, err := hold.TTL(ctx); classOf(err) != store.Indeterminate && classOf(err) != store.Unavailable {
				t.Errorf("TTL of a silent server = %v, want an error of the store's", err)
			}
			if sent := l.has("evalsha") - before; sent > 2 {
				t.Errorf("sent %d times, want 2 at most", sent)
			}
		})
	}
	server.Resume(t)
	hold.Unlock()
}
