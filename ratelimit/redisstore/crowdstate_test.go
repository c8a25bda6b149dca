package redisstore_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/ratelimit/storetest"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
)

// TestCrowdOfARefusingServer has callers of every algorithm share a script that a server executes which refuses to write: all whom it had to charge are told
// why, in the class of the error, and are not charged; whoever is denied, or only asks, is answered as ever, and whose key is another program's is told that.
// Where all of them fail of the same, that is what the script fails of, and nobody asks again by himself; else each does, until the server is given a rest.
func TestCrowdOfARefusingServer(t *testing.T) {
	t.Parallel()
	for name, state := range map[string]struct {
		refuse, mend []any
		most         int32 // scripts of a crowd, whom the first of them tells all
	}{
		"NOREPLICAS": {words("config set min-replicas-to-write 1"), words("config set min-replicas-to-write 0"), 17},
		"OOM":        {words("config set maxmemory 1 maxmemory-policy noeviction"), words("config set maxmemory 0"), 1},
	} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t)
			admin := server.Client(t)
			var calls []store.Request
			for _, req := range storetest.Requests(t, "rl:", 100, time.Hour) {
				calls = append(calls, req, req)
			}
			full := request("rl:full", 1, 1)
			do(t, admin, "set", "rl:theirs", "theirs")
			mended := func(t *testing.T, c *crowd) {
				t.Helper()
				do(t, admin, state.mend...)
				wantUncharged(t, c, calls)
			}
			says := func(got answer, why string) bool {
				return classOf(got.err) == store.Unavailable && strings.Contains(got.err.Error(), why)
			}
			resting := func(got answer) bool { return says(got, "not asked for a moment") }
			refused := func(t *testing.T, got answer) {
				t.Helper()
				if !says(got, name) {
					t.Errorf("Take = %v, %v, want an error of class %v with %s", got.Allowed, got.err, store.Unavailable, name)
				}
			}
			refusedAlone := func(t *testing.T, got answer) { // or not asked any more, for the others' refusals
				t.Helper()
				if !says(got, name) && !resting(got) {
					t.Errorf("Take = %v, %v, want an error of class %v with %s, or without asking", got.Allowed, got.err, store.Unavailable, name)
				}
			}
			ask := func(t *testing.T, more ...store.Request) (c *crowd, told [](<-chan answer)) {
				t.Helper()
				c = newCrowd(t, server.Client(t))
				c.gather()
				for _, req := range append(calls[:len(calls):len(calls)], more...) {
					told = append(told, c.join(t.Context(), true, req))
				}
				c.aboard()
				do(t, admin, state.refuse...)
				return c, told
			}

			t.Run("all alike", func(t *testing.T) {
				c, told := ask(t)
				before := c.gate.scripts.Load()
				c.gate.before.open()
				for _, told := range told {
					refused(t, <-told)
				}
				if n := c.gate.scripts.Load() - before; n > state.most-1 { // the first is at the gate
					t.Errorf("the callers took %d scripts, want %d at most", n+1, state.most)
				}
				mended(t, c)
			})
			take(t, newStore(t, admin), full)
			t.Run("and one who is denied", func(t *testing.T) {
				c, told := ask(t, full)
				c.gate.before.open()
				for _, told := range told[:len(calls)] {
					refusedAlone(t, <-told)
				}
				if got := <-told[len(calls)]; got.err != nil || got.Allowed {
					t.Errorf("Take of a full limit = %v, %v, want it denied", got.Allowed, got.err)
				}
				mended(t, c)
			})
			t.Run("and others", func(t *testing.T) {
				peek := request("rl:full", 1, 0)
				c, told := ask(t, full, request("rl:theirs", 1, 1), peek)
				c.gate.before.open()
				for _, told := range told[:len(calls)] {
					refusedAlone(t, <-told)
				}
				if got := <-told[len(calls)]; got.err != nil || got.Allowed {
					t.Errorf("Take of a full limit = %v, %v, want it denied", got.Allowed, got.err)
				}
				if got := <-told[len(calls)+1]; !resting(got) && (classOf(got.err) != store.Misconfigured || !strings.Contains(got.err.Error(), "WRONGTYPE")) {
					t.Errorf("Take of another's key = %v, want an error of class %v with WRONGTYPE", got.err, store.Misconfigured)
				}
				if got := <-told[len(calls)+2]; got.err != nil || !got.Allowed || got.Rules[0].Remaining != 0 {
					t.Errorf("Take of nothing = %v, %v, want what remains of a full limit", got.Outcome, got.err)
				}
				mended(t, c)
			})
		})
	}
}

// wantUncharged fails the test unless all of a hundred remain of each request.
func wantUncharged(t *testing.T, s store.Store, requests []store.Request) {
	t.Helper()
	for _, req := range requests {
		req.Cost = 0
		if err := redistest.Poll(func() error { // where the server was given a rest, until that is over
			out, err := store.Take(t.Context(), s, []store.Request{req}, true)
			if err == nil && out.Rules[0].Remaining != req.Capacity(req.Rules[0]) {
				t.Errorf("%d remain of %s, want %d", out.Rules[0].Remaining, req.Key, req.Capacity(req.Rules[0]))
			}
			if err != nil {
				err = fmt.Errorf("%s: %w", req.Key, err)
			}
			return err
		}); err != nil {
			t.Error(err)
		}
	}
}
