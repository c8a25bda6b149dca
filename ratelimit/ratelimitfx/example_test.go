package ratelimitfx_test

import (
	"context"
	"errors"
	"fmt"

	"go.uber.org/fx"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/ratelimitfx"
)

func call(orders Orders) {
	ctx := ratelimit.WithUser(context.Background(), "alice")
	for range 2 {
		err := orders.Create(ctx)
		fmt.Println("limited:", errors.Is(err, ratelimit.ErrExceeded))
	}
}

func Example() {
	ordersModule := fx.Module("orders.ratelimit", fx.Provide(ProvideRateLimitedOrders)) // as rlgen writes it

	fx.New(
		fx.NopLogger,
		ratelimitfx.InProcess, // or the app's redis.UniversalClient
		ratelimitfx.Module,
		ordersModule,
		fx.Provide(NewService),
		fx.Invoke(call),
	)
	// Output:
	// limited: false
	// limited: true
}

// An implementation that is not in the interface's package.
func ExampleProvide() {
	fx.New(
		fx.NopLogger,
		ratelimitfx.InProcess,
		ratelimitfx.Module,
		ratelimitfx.Provide[Orders](NewOrders, NewRateLimitedOrders),
		fx.Invoke(call),
	)
	// Output:
	// limited: false
	// limited: true
}

// A limiter that knows how many instances share the counts.
func ExampleOptions() {
	app := fx.New(
		fx.NopLogger,
		ratelimitfx.InProcess,
		ratelimitfx.Module,
		fx.Supply(ratelimitfx.Options{ratelimit.WithInstances(4)}),
		fx.Invoke(func(*ratelimit.Limiter) {}),
	)
	fmt.Println(app.Err())
	// Output:
	// <nil>
}
