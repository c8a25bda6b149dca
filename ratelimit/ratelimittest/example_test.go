package ratelimittest_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/ratelimittest"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// Orders is a service with a limit on one method. What follows it, down to the examples, is as rlgen writes it.
type Orders interface {
	// Create is limited: user 2,1s 3,1m onfail=closed.
	Create(ctx context.Context, item string) error
}

var rateLimitedOrdersCreate = rules.Policy{
	Package: "example.com/shop/orders",
	Type:    "orders.Orders",
	Method:  "Create",
	Limits: []rules.Limit{
		{Kind: rules.User, OnFail: rules.FailClosed, Rules: []rules.Rule{
			{Count: 2, Window: time.Second},
			{Count: 3, Window: time.Minute},
		}},
	},
}

type RateLimitedOrders struct {
	next   Orders
	create *ratelimit.Guard
}

func NewRateLimitedOrders(next Orders, limiter *ratelimit.Limiter) *RateLimitedOrders {
	return &RateLimitedOrders{next: next, create: limiter.Guard(&rateLimitedOrdersCreate)}
}

func (w *RateLimitedOrders) Create(ctx context.Context, item string) (err error) {
	if _, err = w.create.Take(ctx); err != nil {
		return
	}
	return w.next.Create(ctx, item)
}

// service is an Orders without limits.
type service struct{}

func (service) Create(context.Context, string) error { return nil }

// A limit that counts, on a clock that the test moves.
func ExampleNew() {
	limiter, clock := ratelimittest.New()
	orders := NewRateLimitedOrders(service{}, limiter)
	ctx := ratelimit.WithUser(context.Background(), "alice")

	for range 3 {
		fmt.Println(orders.Create(ctx, "tea"))
	}
	clock.Advance(time.Second)
	fmt.Println(orders.Create(ctx, "tea"))
	// Output:
	// <nil>
	// <nil>
	// orders.Orders Create: rate limit exceeded: limit "Create" allows 2,1s, retry after 1s
	// <nil>
}

// A test that is not about limits.
func ExampleAllowAll() {
	orders := NewRateLimitedOrders(service{}, ratelimittest.AllowAll())
	ctx := ratelimit.WithUser(context.Background(), "alice")

	for range 1000 {
		if err := orders.Create(ctx, "tea"); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println("1000 calls passed a limit of 2 per second")
	// Output:
	// 1000 calls passed a limit of 2 per second
}

// What a caller makes of a denied call.
func ExampleDenyAll() {
	orders := NewRateLimitedOrders(service{}, ratelimittest.DenyAll(90*time.Second))
	ctx := ratelimit.WithUser(context.Background(), "alice")

	err := orders.Create(ctx, "tea")
	var exceeded *ratelimit.ExceededError
	if errors.As(err, &exceeded) {
		fmt.Println("try again in", exceeded.RetryAfter)
	}
	// Output:
	// try again in 1m30s
}

// A limit of onfail=closed while the store is down.
func ExampleFailing() {
	orders := NewRateLimitedOrders(service{}, ratelimittest.Failing(store.Unavailable))
	ctx := ratelimit.WithUser(context.Background(), "alice")

	err := orders.Create(ctx, "tea")
	fmt.Println(errors.Is(err, ratelimit.ErrUnavailable))
	// Output:
	// true
}

// What a limiter decided, rule by rule.
func ExampleRecorder() {
	var rec ratelimittest.Recorder
	limiter, _ := ratelimittest.New(ratelimit.WithObserver(&rec))
	orders := NewRateLimitedOrders(service{}, limiter)
	ctx := ratelimit.WithUser(context.Background(), "alice")
	for range 3 {
		_ = orders.Create(ctx, "tea")
	}

	fmt.Println(rec.Allowed(), "allowed,", rec.Denied(), "denied")
	for _, d := range rec.Decisions() {
		for _, l := range d.Limits {
			for _, r := range l.Rules {
				fmt.Printf("%s %v: allowed %t, remaining %d\n", d.Policy.Name(l.Index), r.Rule, r.Allowed, r.Remaining)
			}
		}
	}
	// Output:
	// 2 allowed, 1 denied
	// Create 2,1s: allowed true, remaining 1
	// Create 3,1m: allowed true, remaining 2
	// Create 2,1s: allowed true, remaining 0
	// Create 3,1m: allowed true, remaining 1
	// Create 2,1s: allowed false, remaining 0
	// Create 3,1m: allowed true, remaining 1
}
