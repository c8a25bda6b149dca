package redisstore_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
	"github.com/rlgen/rlgen/rules"
)

// TestOutageIsSettled holds, to the call, what passes before an outage, in it and after it, of a limit of 12: what an instance has let through alone is charged before the
// store decides its next call of the id, and before long where it does not call, so that the limit holds but for what the server has lost.
func TestOutageIsSettled(t *testing.T) {
	for _, test := range []struct {
		name      string
		instances int
		before    int // calls of the first instance
		keeps     bool
		alone     []int // calls that pass in the outage, of each instance
		after     int   // and after it, of all that call in turn
	}{
		{"one, keys kept", 1, 3, true, []int{9}, 0},
		{"one, keys kept, new id", 1, 0, true, []int{12}, 0},
		{"one, keys kept, nothing left", 1, outageLimit, true, []int{0}, 0},
		{"one, keys lost", 1, 3, false, []int{9}, 3}, // which are lost
		{"three, keys kept", 3, 3, true, []int{1, 4, 4}, 0},
		{"three, keys kept, nothing left", 3, outageLimit, true, []int{0, 4, 4}, 0},
		{"three, keys lost", 3, 3, false, []int{1, 4, 4}, 3},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			args := []string{}
			if test.keeps {
				args = []string{"--appendonly", "yes", "--appendfsync", "always"}
			}
			server := redistest.Start(t, args...)
			var all []*inside
			for range test.instances {
				client := outageClient(server.Addr())
				t.Cleanup(func() { client.Close() })
				i, err := newInside(client, 10*time.Second)
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, i)
			}
			for range 2 {
				for _, i := range all {
					if err := i.check(); err != nil {
						t.Fatal(err)
					}
				}
			}
			settleOutage(t, server, all, test.keeps, test.before, test.alone, test.after)
		})
	}
}

func settleOutage(t *testing.T, server *redistest.Server, all []*inside, keeps bool, before int, alone []int, after int) {
	t.Helper()
	take := func(i *inside, user string, most int, source string) int {
		t.Helper()
		a, err := i.take(user, most)
		if a.source == "cache" {
			a.source = "store" // by what it has said
		}
		if err != nil || most > 0 && a.source != source {
			t.Fatalf("%d calls of %s passed, the last decided by the %s, %v, want the %s", a.passed, user, a.source, err, source)
		}
		return a.passed
	}
	if got := take(all[0], "ann", before, "store"); got != before {
		t.Errorf("%d calls passed before the outage, want %d", got, before)
	}
	server.Kill(t)
	for n, i := range all {
		if got := take(i, "ann", 2*outageLimit, "local"); got != alone[n] {
			t.Errorf("%d calls of instance %d passed in the outage, want %d", got, n, alone[n])
		}
	}
	server.Restart(t)
	for _, i := range all {
		if err := redistest.Poll(func() error { // by another id: calls spend a limit
			a, err := i.take("bob", 1)
			if err == nil && a.source != "store" {
				err = fmt.Errorf("the %s decides, want the store", a.source)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	counted := func(want int) {
		t.Helper()
		if err := redistest.Poll(func() error {
			if n := server.Client(t).ZCard(context.Background(), "rl:user=ann:shop.Orders-Create").Val(); n != int64(want) {
				return fmt.Errorf("the log has %d entries, want %d", n, want)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	passed := 0
	if keeps {
		passed = before
	}
	for _, n := range alone {
		passed += n
	}
	if len(all) > 1 { // one alone is called at once
		counted(passed)
	}
	got := 0
	for more := 1; more > 0; got += more {
		more = 0
		for _, i := range all {
			more += take(i, "ann", 1, "store")
		}
	}
	if got != after {
		t.Errorf("%d calls passed after the outage, want %d", got, after)
	}
	counted(passed + got)
}

// TestManyAreTold holds that a server which is back is told of each of many ids once, none of which calls again.
func TestManyAreTold(t *testing.T) {
	const ids = 3000
	server := redistest.Start(t)
	client := outageClient(server.Addr())
	t.Cleanup(func() { client.Close() })
	i, err := newInside(client, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	server.Kill(t)
	for id := range ids {
		if a, err := i.take(fmt.Sprint("id", id), 1); err != nil || a.source != "local" {
			t.Fatalf("a call is decided by the %q, %v, want it decided alone", a.source, err)
		}
	}
	server.Restart(t)
	admin := server.Client(t)
	if err := redistest.Poll(func() error {
		if n := admin.DBSize(context.Background()).Val(); n < ids {
			return fmt.Errorf("the server has %d keys, want those of %d ids", n, ids)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for id := range ids {
		if n := admin.ZCard(context.Background(), fmt.Sprintf("rl:user=id%d:shop.Orders-Create", id)).Val(); n != 1 {
			t.Fatalf("id %d has %d entries, want the one call that passed", id, n)
		}
	}
	if err := i.limiter.Close(context.Background()); err != nil {
		t.Error(err)
	}
}

// TestHotIdInAnOutage holds that one instance lets an id have its limit, to the call, which many callers ask for at once before the server is killed, while it is gone, and when it
// is back with its keys.
func TestHotIdInAnOutage(t *testing.T) {
	const limit, callers = 6000, 256
	for _, algorithm := range []rules.Algorithm{rules.SlidingLog, rules.CompactLog, rules.FixedWindow} {
		t.Run(algorithm.String(), func(t *testing.T) {
			server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
			client := outageClient(server.Addr())
			t.Cleanup(func() { client.Close() })
			i, err := newInside(client, 10*time.Second, rules.Limit{Algorithm: algorithm, Rules: []rules.Rule{{Count: limit, Window: 24 * time.Hour}}})
			if err != nil {
				t.Fatal(err)
			}
			var passed [3]atomic.Int64 // before, alone, and after
			call := func(part int, until int64, source string) {
				t.Helper()
				var all sync.WaitGroup
				for range callers {
					all.Go(func() {
						for passed[part].Load() < until {
							a, err := i.take("ann", 1)
							if err != nil {
								t.Error(err)
								return
							}
							if a.passed == 0 && a.source == source {
								return
							}
							passed[part].Add(int64(a.passed))
						}
					})
				}
				all.Wait()
			}
			call(0, limit/3, "none")
			server.Kill(t)
			call(1, limit/3, "none")
			server.Restart(t)
			call(2, limit, "store")
			total := passed[0].Load() + passed[1].Load() + passed[2].Load()
			if total != limit {
				t.Errorf("%d + %d + %d calls passed, want %d in all", passed[0].Load(), passed[1].Load(), passed[2].Load(), limit)
			}
		})
	}
}
