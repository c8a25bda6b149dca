package redisstore_test

import (
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/redisstore"
	"github.com/rlgen/rlgen/ratelimit/storetest"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
	"github.com/rlgen/rlgen/testdata/suite"
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

// quickDraws is how many cases each law draws in the quick suite.
const quickDraws = 3

// runLaws runs the laws as a subtest.
func runLaws(t *testing.T, name string, open func(t *testing.T) storetest.Subject) {
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		storetest.Run(t, open)
	})
}

// fewer makes the laws draw fewer cases in the long suite: another test holds the same script to all of them.
func fewer(open func(t *testing.T) storetest.Subject) func(t *testing.T) storetest.Subject {
	return func(t *testing.T) storetest.Subject {
		s := open(t)
		if suite.Long() && !drawsAll() {
			s.Cases = 10
		}
		return s
	}
}

// drawsAll reports whether no test may draw fewer cases: -rapid.checks is set, as by .ci/soak, or the script is
// mutated.
func drawsAll() bool {
	f := flag.Lookup("rapid.checks")
	return f.Value.String() != f.DefValue || os.Getenv("RATELIMIT_TEST_SCRIPT") != ""
}

// TestMiniredis holds the clock of miniredis itself, with the script as it is shipped. Its keys expire as the clock
// reaches new heights: a server whose clock is set back keeps its keys for longer, too.
func TestMiniredis(t *testing.T) {
	t.Parallel()
	storetest.Run(t, fewer(func(t *testing.T) storetest.Subject {
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
	}))
}

// TestMiniredisWithoutExpiry holds that no decision depends on what has expired.
func TestMiniredisWithoutExpiry(t *testing.T) {
	t.Parallel()
	storetest.RunSample(t, fewer(func(t *testing.T) storetest.Subject {
		server := miniredis.RunT(t)
		client := redis.NewClient(&redis.Options{Addr: server.Addr()})
		t.Cleanup(func() { client.Close() })
		clock := storetest.NewClock()
		clock.OnMove(server.SetTime)
		return storetest.Subject{Store: newStore(t, client), Clock: clock}
	}))
}

func TestStandalone(t *testing.T) {
	t.Parallel()
	client := redistest.Standalone(t).Client(t)
	runLaws(t, "held", heldClock(client))
	runLaws(t, "own", ownClock(client))
	t.Run("alone", func(t *testing.T) {
		t.Parallel()
		storetest.RunSample(t, fewer(heldClock(client, redisstore.WithBatching(1))))
	})
	t.Run("RESP2", func(t *testing.T) {
		t.Parallel()
		client := redistest.Standalone(t).Client(t, func(o *redis.Options) { o.Protocol = 2 })
		storetest.RunSample(t, fewer(heldClock(client)))
	})
}

func TestCluster(t *testing.T) {
	t.Parallel()
	client := redistest.NewCluster(t).Client(t)
	t.Run("held", func(t *testing.T) {
		t.Parallel()
		storetest.RunSample(t, heldClock(client))
	})
	runLaws(t, "own", ownClock(client))
}

// TestClusterDeclaredKeys makes the cluster refuse any key that the script has not declared.
func TestClusterDeclaredKeys(t *testing.T) {
	t.Parallel()
	client := redistest.NewCluster(t).Client(t)
	storetest.RunSample(t, fewer(heldClock(client, redisstore.WithShebang())))
}

func TestSentinel(t *testing.T) {
	t.Parallel()
	client := redistest.NewSentinel(t).Client(t)
	runLaws(t, "own", ownClock(client))
}

// TestRingIsRefused tests that New refuses a client whose servers take each other's keys over.
func TestRingIsRefused(t *testing.T) {
	t.Parallel()
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"one": "127.0.0.1:1"}})
	t.Cleanup(func() { ring.Close() })
	if _, err := redisstore.New(ring); err == nil || !strings.Contains(err.Error(), "use a Redis Cluster") {
		t.Errorf("New(*redis.Ring) = %v, want an error that names a Cluster", err)
	}
}
