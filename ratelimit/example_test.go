package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
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
