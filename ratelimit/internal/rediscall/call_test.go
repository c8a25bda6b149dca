package rediscall

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
)

// TestLateServerIsToldTheScript holds that a call which has been sent in vain many times tells the script to the server that answers at last
// and does not know it, as a replica does that takes over.
func TestLateServerIsToldTheScript(t *testing.T) {
	proxy := redistest.NewProxy(t, redistest.Standalone(t).Addr())
	client := redis.NewClient(&redis.Options{Addr: proxy.Addr(), DialerRetries: 1})
	t.Cleanup(func() { client.Close() })
	proxy.Next(8, redistest.CutBefore, "evalsha")
	c := withNonce(&Call{Package: "rediscall", Client: client, MayRepeat: true,
		Script: NewScript("return {ARGV[1] + 0, 42} -- " + redistest.Prefix(t)), Words: []any{nil, nil, 0}})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if reply, err := c.Run(ctx); err != nil || len(reply) != 1 || reply[0] != 42 {
		t.Errorf("Run = %v, %v, want [42]", reply, err)
	}
}

// refusing is a call of a script that answers with LOADING to all but the last of so many sendings, and counts them under a key.
func refusing(t *testing.T, client redis.UniversalClient, sendings int) (c *Call, key string) {
	key = redistest.Prefix(t)
	return withNonce(&Call{Package: "rediscall", Client: client, Words: []any{nil, nil, 1, key, sendings}, Script: NewScript(
		"local n = redis.call('INCR', KEYS[1]) redis.call('PEXPIRE', KEYS[1], 60000) " +
			"if n < tonumber(ARGV[1]) then return redis.error_reply('LOADING Redis is loading the dataset in memory') end return {ARGV[2] + 0, n}",
	)}), key
}

// TestSentAgain holds that a call which the server refuses for a while is sent again for longer than its first waits last.
func TestSentAgain(t *testing.T) {
	client := redistest.Standalone(t).Client(t)
	if err := redistest.Poll(func() error { // where the machine stands still for as long as it is sent again, anew
		c, _ := refusing(t, client, 7)
		_, err := c.Run(t.Context())
		return err
	}); err != nil {
		t.Error(err)
	}
}

// TestSentAgainEndsInTime holds that a call which is refused all the time fails of that before its context ends or it has been sent again for long, and that it leaves the
// server more and more time between two sendings.
func TestSentAgainEndsInTime(t *testing.T) {
	client := redistest.Standalone(t).Client(t)
	for name, test := range map[string]struct {
		budget time.Duration
		most   int // sendings, with the shortest waits: 1, 2, 4 … 32 ms, and then 50 ms
	}{"a short budget": {200 * time.Millisecond, 10}, "a long budget": {time.Hour, 17}} {
		t.Run(name, func(t *testing.T) {
			c, key := refusing(t, client, 1e6)
			ctx, cancel := context.WithTimeout(t.Context(), test.budget)
			defer cancel()
			if _, err := c.Run(ctx); err == nil || !strings.Contains(err.Error(), "LOADING") {
				t.Errorf("Run = %v, want what the server says", err)
			}
			if n, err := client.Get(t.Context(), key).Int(); err != nil || n > test.most {
				t.Errorf("sent %d times (%v), want %d at most", n, err, test.most)
			}
		})
	}
}

// TestRepeatedEndsInTime holds that a call which may be repeated, and is refused all the time, fails of that before its context ends, where whoever waits for it hears no more.
func TestRepeatedEndsInTime(t *testing.T) {
	client := redistest.Standalone(t).Client(t)
	if err := redistest.Poll(func() error { // where the machine stands still until the context has ended, anew
		c, _ := refusing(t, client, 1e6)
		c.MayRepeat = true
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		if _, err := c.Run(ctx); err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), "LOADING") {
			return fmt.Errorf("Run = %v, with a context that has ended: %v, want what the server says in time", err, ctx.Err())
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}
