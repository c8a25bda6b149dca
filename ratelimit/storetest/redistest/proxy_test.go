package redistest_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
)

// TestProxy says for each fault what the client learns and what the server has done.
func TestProxy(t *testing.T) {
	for _, test := range []struct {
		fault    redistest.Fault
		answered bool
		executed int64
	}{
		{redistest.Pass, true, 1},
		{redistest.Trickle, true, 1},
		{redistest.CutBefore, false, 0},
		{redistest.CutAfter, false, 1},
		{redistest.DropReply, false, 1},
		{redistest.Stall, false, 0},
	} {
		t.Run(test.fault.String(), func(t *testing.T) {
			server := redistest.Standalone(t)
			direct, key := server.Client(t), redistest.Prefix(t)
			proxy := redistest.NewProxy(t, server.Addr())
			client := behind(t, proxy)
			if err := client.Get(t.Context(), key).Err(); err != redis.Nil {
				t.Fatalf("Get = %v, want nothing there", err)
			}
			proxy.Next(1, test.fault, "incr")
			err := client.Incr(t.Context(), key).Err()
			if answered := err == nil; answered != test.answered {
				t.Errorf("Incr = %v, want an answer: %v", err, test.answered)
			}
			if n := proxy.Seen("incr"); n != 1 {
				t.Errorf("the proxy has seen %d INCR, want 1", n)
			}
			want := strconv.FormatInt(test.executed, 10)
			if test.executed == 0 {
				want = ""
			}
			if err := redistest.Poll(func() error { return equal(direct.Get(context.Background(), key).Val(), want) }); err != nil {
				t.Error(err)
			}
			if err := client.Incr(t.Context(), key).Err(); err != nil {
				t.Errorf("the next Incr = %v, want none of the fault", err)
			}
		})
	}
}

func TestProxyDelays(t *testing.T) {
	server := redistest.Standalone(t)
	proxy := redistest.NewProxy(t, server.Addr())
	client := behind(t, proxy)
	client.Ping(t.Context())
	proxy.Delay(20 * time.Millisecond)
	begin := time.Now()
	if err := client.Ping(t.Context()).Err(); err != nil {
		t.Error(err)
	}
	if d := time.Since(begin); d < 40*time.Millisecond {
		t.Errorf("a delayed Ping took %v, want 20 ms for each direction at least", d)
	}
}

func TestProxyCuts(t *testing.T) {
	server := redistest.Standalone(t)
	proxy := redistest.NewProxy(t, server.Addr())
	client := behind(t, proxy)
	sub := client.Subscribe(t.Context(), redistest.Prefix(t))
	defer sub.Close()
	if _, err := sub.Receive(t.Context()); err != nil {
		t.Fatal(err)
	}
	proxy.Cut()
	if _, err := sub.Receive(t.Context()); err == nil {
		t.Error("Receive on a cut connection succeeds, want an error")
	}
}

// behind returns a client of the proxy that sends nothing twice.
func behind(t *testing.T, proxy *redistest.Proxy) *redis.Client {
	client := redis.NewClient(&redis.Options{
		Addr: proxy.Addr(), MaxRetries: -1, ReadTimeout: 200 * time.Millisecond, DisableIdentity: true,
	})
	t.Cleanup(func() { client.Close() })
	return client
}

func equal(got, want string) error {
	if got != want {
		return fmt.Errorf("the server has %q, want %q", got, want)
	}
	return nil
}
