package redisstore_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/rlgen/rlgen/ratelimit/embedded"
	"github.com/rlgen/rlgen/ratelimit/redisstore"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

func Example() {
	server, err := embedded.Start(embedded.WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil))))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()

	limits, err := redisstore.New(server.Client(), redisstore.WithBudget(time.Second))
	if err != nil {
		fmt.Println(err)
		return
	}
	user := store.Request{Key: "rl:user=alice:orders.Orders-Create", Rules: []rules.Rule{{Count: 2, Window: time.Minute}}, Cost: 1}
	global := store.Request{Key: "rl:global:orders.Orders-Create", Rules: []rules.Rule{{Count: 100, Window: time.Minute}}, Cost: 1}

	ctx := context.Background()
	for range 3 {
		out, err := store.Take(ctx, limits, []store.Request{user, global}, true)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(out.Allowed, out.Rules[0].Remaining, out.Rules[1].Remaining)
	}
	// Output:
	// true 1 99
	// true 0 98
	// false 0 98
}
