package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
	"github.com/rlgen/rlgen/rules"
	"github.com/rlgen/rlgen/testdata/suite"
)

// TestBoundOfKills kills and restarts a server again and again while instances call it, on a machine
// whose processors are busy. The server keeps its keys. In any window, at most L + n·max(1, ⌊L/n⌋) calls
// pass.
func TestBoundOfKills(t *testing.T) {
	suite.NeedLong(t, "its runs take real time")
	for _, instances := range []int{1, 3} {
		for run := range 6 {
			t.Run(fmt.Sprintf("%d instances/%d", instances, run), func(t *testing.T) {
				t.Parallel()
				most, bound := killRun(t, instances), killLimit+instances*max(1, killLimit/instances)
				t.Logf("%d of at most %d calls passed in one window", most, bound)
				if most > bound {
					t.Errorf("%d calls passed in one window, want at most %d", most, bound)
				}
			})
		}
	}
}

const (
	killLimit  = 20
	killWindow = 2 * time.Second
)

// passedCall is a call that passed.
type passedCall struct{ began, ended time.Duration }

// killRun kills the server twice under load, and returns the most calls that passed within one window.
func killRun(t *testing.T, instances int) int {
	t.Helper()
	server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	ctx, cancel := context.WithCancel(t.Context())
	var others sync.WaitGroup
	defer others.Wait()
	defer cancel()
	for range runtime.GOMAXPROCS(0) { // busy processors
		others.Go(func() {
			for ctx.Err() == nil {
			}
		})
	}
	limit := rules.Limit{Rules: []rules.Rule{{Count: killLimit, Window: killWindow}}}
	var all []*inside
	for range instances {
		client := outageClient(server.Addr())
		t.Cleanup(func() { client.Close() })
		i, err := newInside(client, 100*time.Millisecond, limit)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, i)
	}
	for range 2 { // in the first round, an instance does not know the later ones
		for _, i := range all {
			if err := redistest.Poll(i.check); err != nil {
				t.Fatal(err)
			}
		}
	}
	start := time.Now()
	calls := make([]chan passedCall, len(all))
	for n, i := range all {
		calls[n] = make(chan passedCall, 10_000)
		others.Go(func() {
			defer close(calls[n])
			user := ratelimit.WithUser(context.Background(), "ann")
			for ctx.Err() == nil {
				began := time.Since(start)
				_, err := i.guard.Take(user)
				switch {
				case err == nil:
					calls[n] <- passedCall{began, time.Since(start)}
				case !errors.Is(err, ratelimit.ErrExceeded):
					t.Error(err)
					return
				}
				time.Sleep(time.Millisecond)
			}
		})
	}
	for range 2 {
		time.Sleep(killWindow / 4)
		server.Kill(t)
		time.Sleep(killWindow / 4)
		server.Restart(t)
	}
	time.Sleep(killWindow / 4)
	cancel()
	var passed []passedCall
	for _, from := range calls {
		for p := range from {
			passed = append(passed, p)
		}
	}
	return mostWithin(passed, killWindow)
}

// mostWithin returns the most calls that surely were decided within one window: they began and ended in it.
func mostWithin(all []passedCall, window time.Duration) (most int) {
	slices.SortFunc(all, func(a, b passedCall) int { return int(a.began - b.began) })
	for i, first := range all {
		n := 0
		for _, p := range all[i:] {
			if p.ended < first.began+window {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}
