package redisstore_test

import (
	"flag"
	"os"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/redisstore"
	"github.com/rlgen/rlgen/ratelimit/storetest"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
)

// heldClock opens stores that ask client under a clock that the test moves: the script reads it in place of TIME.
func heldClock(client redis.UniversalClient, opts ...redisstore.Option) func(t *testing.T) storetest.Subject {
	return func(t *testing.T) storetest.Subject {
		clock := storetest.NewClock()
		opts := append([]redisstore.Option{redisstore.WithClock(clock.Now)}, opts...)
		return storetest.Subject{Store: newStore(t, client, opts...), Clock: clock, Prefix: redistest.Prefix(t)}
	}
}

// ownClock opens stores that ask client, with the script as it is shipped.
func ownClock(client redis.UniversalClient) func(t *testing.T) storetest.Subject {
	return func(t *testing.T) storetest.Subject {
		return storetest.Subject{Store: newStore(t, client), Prefix: redistest.Prefix(t)}
	}
}

// drawFewer makes the laws draw fewer cases: of a script that another test holds to all of them, in another place.
func drawFewer(t *testing.T) {
	t.Helper()
	if drawsAll() {
		return
	}
	f := flag.Lookup("rapid.checks")
	before := f.Value.String()
	if err := f.Value.Set("10"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Value.Set(before) })
}

// drawsAll says whether somebody has said how many cases are drawn, as .ci/soak does, or the script is broken on purpose: then it is not for a test to draw fewer.
func drawsAll() bool {
	f := flag.Lookup("rapid.checks")
	return f.Value.String() != f.DefValue || os.Getenv("RATELIMIT_TEST_SCRIPT") != ""
}

// TestMiniredis holds the clock of miniredis itself, with the script as it is shipped. Its keys expire as the clock
// reaches new heights: a server whose clock is set back keeps its keys for longer, too.
func TestMiniredis(t *testing.T) {
	drawFewer(t)
	storetest.Run(t, func(t *testing.T) storetest.Subject {
		server := miniredis.RunT(t)
		client := redis.NewClient(&redis.Options{Addr: server.Addr()})
		t.Cleanup(func() { client.Close() })
		clock := storetest.NewClock()
		highest := clock.Now()
		clock.OnMove(func(now time.Time) {
			server.SetTime(now)
			if now.After(highest) {
				server.FastForward(now.Sub(highest))
				highest = now
			}
		})
		return storetest.Subject{Store: newStore(t, client), Clock: clock}
	})
}

// TestMiniredisWithoutExpiry holds that no decision depends on what has expired.
func TestMiniredisWithoutExpiry(t *testing.T) {
	if testing.Short() {
		t.Skip("differs from TestMiniredis in what the server keeps")
	}
	drawFewer(t)
	storetest.Run(t, func(t *testing.T) storetest.Subject {
		server := miniredis.RunT(t)
		client := redis.NewClient(&redis.Options{Addr: server.Addr()})
		t.Cleanup(func() { client.Close() })
		clock := storetest.NewClock()
		clock.OnMove(server.SetTime)
		return storetest.Subject{Store: newStore(t, client), Clock: clock}
	})
}

func TestStandalone(t *testing.T) {
	client := redistest.Standalone(t).Client(t)
	t.Run("held", func(t *testing.T) { storetest.Run(t, heldClock(client)) })
	t.Run("own", func(t *testing.T) { storetest.Run(t, ownClock(client)) })
	t.Run("alone", func(t *testing.T) {
		drawFewer(t)
		storetest.Run(t, heldClock(client, redisstore.WithBatching(1)))
	})
	t.Run("RESP2", func(t *testing.T) {
		drawFewer(t)
		client := redistest.Standalone(t).Client(t, func(o *redis.Options) { o.Protocol = 2 })
		storetest.Run(t, heldClock(client))
	})
}

func TestCluster(t *testing.T) {
	client := redistest.NewCluster(t).Client(t)
	t.Run("held", func(t *testing.T) { storetest.Run(t, heldClock(client)) })
	t.Run("own", func(t *testing.T) { storetest.Run(t, ownClock(client)) })
}

// TestClusterDeclaredKeys makes the cluster refuse any key that the script has not declared.
func TestClusterDeclaredKeys(t *testing.T) {
	drawFewer(t)
	client := redistest.NewCluster(t).Client(t)
	storetest.Run(t, heldClock(client, redisstore.WithShebang()))
}

func TestSentinel(t *testing.T) {
	client := redistest.NewSentinel(t).Client(t)
	t.Run("own", func(t *testing.T) { storetest.Run(t, ownClock(client)) })
}

// TestRing decides each key on its own, on one of several servers.
func TestRing(t *testing.T) {
	drawFewer(t)
	client := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{
		"one": redistest.Standalone(t).Addr(),
		"two": redistest.Start(t).Addr(),
	}})
	t.Cleanup(func() { client.Close() })
	storetest.Run(t, heldClock(client))
}
