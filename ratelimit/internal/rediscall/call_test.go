package rediscall

import (
	"context"
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
	proxy.Next(2*attempts, redistest.CutBefore, "evalsha")
	c := &Call{Package: "rediscall", Client: client, MayRepeat: true,
		Script: NewScript("return {42} -- " + redistest.Prefix(t)), Words: []any{nil, nil, 0}}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if reply, err := c.Run(ctx); err != nil || len(reply) != 1 || reply[0] != 42 {
		t.Errorf("Run = %v, %v, want [42]", reply, err)
	}
}
