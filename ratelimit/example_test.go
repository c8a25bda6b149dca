package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/memstore"
	"github.com/rlgen/rlgen/rules"
)

// A guard is what generated wrappers ask; code that is not a method can ask one, too.
func Example() {
	limiter, err := ratelimit.New(memstore.New())
	if err != nil {
		panic(err)
	}
	guard, err := limiter.Prepare(&rules.Policy{
		Package: "example.com/shop/orders", Type: "orders.Orders", Method: "Create",
		Limits: []rules.Limit{
			{Kind: rules.User, Rules: []rules.Rule{{Count: 1, Window: time.Hour}}},
			{Kind: rules.Global, Rules: []rules.Rule{{Count: 5000, Window: time.Second}}},
		},
	})
	if err != nil {
		panic(err)
	}
	for _, user := range []string{"alice", "alice", "bob", ""} {
		_, err := guard.Take(ratelimit.WithUser(context.Background(), user))
		var exceeded *ratelimit.ExceededError
		switch {
		case err == nil:
			fmt.Printf("%q may go on\n", user)
		case errors.As(err, &exceeded):
			fmt.Printf("%q is denied by %s, which allows %v\n", user, exceeded.Limit, exceeded.Rule)
		default:
			fmt.Println(err)
		}
	}
	// Output:
	// "alice" may go on
	// "alice" is denied by Create/user, which allows 1,1h
	// "bob" may go on
	// orders.Orders Create: no identity to limit by: limit "Create/user"
}

// A permit gives back what the call was charged.
func ExamplePermit_GiveBack() {
	limiter, _ := ratelimit.New(memstore.New())
	guard := limiter.Guard(&rules.Policy{
		Package: "example.com/shop/orders", Type: "orders.Orders", Method: "Create",
		Limits: []rules.Limit{{Kind: rules.Global, Rules: []rules.Rule{{Count: 1, Window: time.Hour}}}},
	})
	ctx := context.Background()
	permit, _ := guard.Take(ctx)
	fmt.Println(permit.GiveBack(ctx))
	_, err := guard.Take(ctx)
	fmt.Println(err)
	// Output:
	// <nil>
	// <nil>
}

// Decide tells what each rule said.
func ExampleGuard_Decide() {
	limiter, _ := ratelimit.New(memstore.New())
	guard := limiter.Guard(&rules.Policy{
		Package: "example.com/shop/orders", Type: "orders.Orders", Method: "Search",
		Limits: []rules.Limit{{
			Kind:  rules.User,
			Rules: []rules.Rule{{Count: 10, Window: time.Second}, {Count: 100, Window: time.Minute}},
			Cost:  "pages",
		}},
	})
	var in ratelimit.Input
	in.Cost(4)
	d, _, err := guard.Decide(ratelimit.WithUser(context.Background(), "alice"), in)
	if err != nil {
		panic(err)
	}
	for _, limit := range d.Limits {
		for _, r := range limit.Rules {
			fmt.Printf("%v: %d left, all of it in %v\n", r.Rule, r.Remaining, r.ResetAfter)
		}
	}
	// Output:
	// 10,1s: 6 left, all of it in 1s
	// 100,1m: 96 left, all of it in 1m0s
}

// Callers on different plans meet different limits, and one who changes plans takes his count along.
func ExampleWithPlan() {
	per := func(plan string, count int64) rules.Limit {
		return rules.Limit{Kind: rules.User, Plan: plan, Rules: []rules.Rule{{Count: count, Window: time.Hour}}}
	}
	limiter, err := ratelimit.New(memstore.New())
	if err != nil {
		panic(err)
	}
	guard := limiter.Guard(&rules.Policy{ // as rlgen writes it
		Package: "example.com/shop", Type: "shop.Orders", Method: "Find",
		Limits: []rules.Limit{per("free", 1), per("pro", 3)},
	})
	alice := ratelimit.WithUser(context.Background(), "alice")
	for _, plan := range []string{"free", "free", "pro", "pro"} {
		_, err := guard.Take(ratelimit.WithPlan(alice, plan))
		fmt.Println(plan, errors.Is(err, ratelimit.ErrExceeded))
	}
	// Output:
	// free false
	// free true
	// pro false
	// pro false
}

// A limit is changed while the program runs; what was counted counts on.
func ExampleLimiter_Override() {
	limiter, err := ratelimit.New(memstore.New(), ratelimit.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		panic(err)
	}
	guard := limiter.Guard(&rules.Policy{ // as rlgen writes it
		Package: "example.com/shop", Type: "shop.Orders", Method: "Create",
		Limits: []rules.Limit{{Kind: rules.Global, Rules: []rules.Rule{{Count: 1, Window: time.Hour}}}},
	})
	ctx := context.Background()
	guard.Take(ctx)
	for _, text := range []string{"1,1h", "2,1h", "off", "2,1hour"} {
		err := limiter.Override(ctx, []rules.Override{{Name: "Create", Text: text}})
		_, denied := guard.Take(ctx)
		fmt.Println(text, errors.Is(denied, ratelimit.ErrExceeded), err)
	}
	// Output:
	// 1,1h true <nil>
	// 2,1h false <nil>
	// off false <nil>
	// 2,1hour false ratelimit: overrides: limit "Create": rule "2,1hour" has the unknown unit "hour", want ms, s, m, h, d or w; write "2,1h"
}
