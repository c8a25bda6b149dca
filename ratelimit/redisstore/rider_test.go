package redisstore_test

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rlgen/rlgen/ratelimit/embedded"
	"github.com/rlgen/rlgen/ratelimit/redisstore"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// TestBubbles holds that stores of several bubbles of testing/synctest share nothing that belongs to one of them: a program may have many tests of services.
// While a call is on its way, no time passes in its bubble, so that even the shortest budget suffices.
func TestBubbles(t *testing.T) {
	for range 3 {
		synctest.Test(t, func(t *testing.T) {
			server, err := embedded.Start(embedded.WithLogger(slog.New(slog.DiscardHandler)))
			if err != nil {
				t.Fatal(err)
			}
			defer server.Close()
			s, err := redisstore.New(server.Client(), redisstore.WithBudget(time.Nanosecond))
			if err != nil {
				t.Fatal(err)
			}
			requests := []store.Request{{Key: "rl:user=alice:orders.Orders-Create", Rules: []rules.Rule{{Count: 3, Window: time.Minute}}, Cost: 1}}
			for i := range 5 {
				out, err := store.Take(t.Context(), s, requests, false)
				if err != nil {
					t.Fatal(err)
				}
				if want := i < 3; out.Allowed != want {
					t.Errorf("call %d is allowed: %v, want %v", i+1, out.Allowed, want)
				}
			}
		})
	}
}
