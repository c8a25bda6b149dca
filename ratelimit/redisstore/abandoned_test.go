package redisstore_test

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/store"
)

// faulty is a client whose commands all fail: as the test says, which has their keys.
type faulty struct {
	redis.UniversalClient
	fail func(key string) error
}

func (c *faulty) Process(_ context.Context, cmd redis.Cmder) error {
	return c.fail(cmd.Args()[3].(string)) // asking for the words is what sends them
}

// TestGiveBackIsAbandoned holds for how long what a lost reservation may have charged is given back where its server cannot be reached: for ten seconds, and
// never afterwards, so that a program which has been without a server for long has nothing to send when that is back.
func TestGiveBackIsAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var began, latest time.Time
		sent := map[string]int{}
		client := &faulty{fail: func(key string) error {
			mu.Lock()
			defer mu.Unlock()
			latest = time.Now()
			sent[key]++
			if sent[key] == 1 && key == "rl:lost" {
				return io.EOF
			}
			return &net.OpError{Op: "dial", Err: errors.New("connection refused")}
		}}
		s := newStore(t, client)
		began = time.Now()
		_, err := store.Take(context.Background(), s, []store.Request{request("rl:lost", 10, 1), request("rl:unreached", 10, 1)}, false)
		if classOf(err) != store.Indeterminate {
			t.Errorf("Take = %v, want an error of class %v", err, store.Indeterminate)
		}
		time.Sleep(time.Hour) // the bubble's clock
		mu.Lock()
		defer mu.Unlock()
		if n := sent["rl:unreached"]; n != 1 {
			t.Errorf("%d scripts of what was surely not charged, want the reservation alone", n)
		}
		if n, lasted := sent["rl:lost"]-1, latest.Sub(began); n < 50 || lasted > 10*time.Second || lasted < 9*time.Second {
			t.Errorf("%d give-backs were tried, the last after %v, want many, for ten seconds", n, lasted)
		}
	})
}
