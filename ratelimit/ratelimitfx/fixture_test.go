package ratelimitfx_test

import (
	"context"
	"errors"
	"time"

	"go.uber.org/fx"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/ratelimitfx"
	"github.com/rlgen/rlgen/rules"
)

// Orders, Service and what belongs to them stand for a package of a user; RateLimitedOrders and what belongs to it are what
// rlgen writes for it.
type Orders interface {
	// Create is limited: user 1,1h.
	Create(ctx context.Context) error
}

// Service is an Orders.
type Service struct{}

func NewService() *Service { return &Service{} }

func (*Service) Create(context.Context) error { return nil }

// NewOrders is a constructor that returns the interface.
func NewOrders() (Orders, error) { return &Service{}, nil }

var createPolicy = rules.Policy{
	Package: "example.com/shop/orders", Type: "orders.Orders", Method: "Create",
	Limits: []rules.Limit{{Kind: rules.User, Rules: []rules.Rule{{Count: 1, Window: time.Hour}}}},
}

type RateLimitedOrders struct {
	next   Orders
	create *ratelimit.Guard
}

var _ Orders = (*RateLimitedOrders)(nil)

func NewRateLimitedOrders(next Orders, limiter *ratelimit.Limiter) *RateLimitedOrders {
	if next == nil {
		panic("next is nil")
	}
	return &RateLimitedOrders{next: next, create: limiter.Guard(&createPolicy)}
}

func (w *RateLimitedOrders) Create(ctx context.Context) (err error) {
	if _, err = w.create.Take(ctx); err != nil {
		return
	}
	return w.next.Create(ctx)
}

// ProvideRateLimitedOrders is the provider of the shape concrete in, interface out.
func ProvideRateLimitedOrders(next *Service, limiter *ratelimit.Limiter) Orders {
	return NewRateLimitedOrders(next, limiter)
}

// ProvideComposedOrders is the provider of a package whose constructor returns the interface.
func ProvideComposedOrders(limiter *ratelimit.Limiter) (Orders, error) {
	next, err := NewOrders()
	if err != nil {
		return nil, err
	}
	return NewRateLimitedOrders(next, limiter), nil
}

// policies is the part of a generated module that puts its policies into their group.
func policies(ps ...*rules.Policy) fx.Option {
	var opts []fx.Option
	for _, p := range ps {
		opts = append(opts, fx.Supply(fx.Annotated{Group: "ratelimit.policies", Target: p}))
	}
	return fx.Options(opts...)
}

// generated is a generated module.
func generated(provider any) fx.Option {
	return fx.Module("example.com/shop/orders.ratelimit", fx.Provide(provider), policies(&createPolicy))
}

// run starts and stops an app of opts, counting in process, and returns what went wrong.
func run(opts ...fx.Option) error {
	return runWith(append(opts, ratelimitfx.InProcess, ratelimitfx.Module)...)
}

func runWith(opts ...fx.Option) error {
	app := fx.New(append(opts, fx.NopLogger)...) // a cycle is logged all the same: fx has no logger yet
	if err := app.Start(context.Background()); err != nil {
		return errors.Join(err, app.Stop(context.Background()))
	}
	return app.Stop(context.Background())
}

// limited reports whether a second call of user within the hour is denied by the limiter.
func limited(o Orders, user string) bool {
	ctx := ratelimit.WithUser(context.Background(), user)
	first, second := o.Create(ctx), o.Create(ctx)
	return first == nil && errors.Is(second, ratelimit.ErrExceeded)
}
