// Package shop is an app that wire wires: shop.go stands for a user's code and what rlgen writes for it, inject.go for the
// user's injectors, and wire_gen.go is what wire writes for them.
package shop

import (
	"context"
	"time"

	"github.com/google/wire"
	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/embedded"
	"github.com/rlgen/rlgen/rules"
)

type Orders interface {
	//ratelimit:user 1,1h
	Create(ctx context.Context) error

	//ratelimit:global 5000,1h prefetch=100ms
	Search(ctx context.Context) error
}

type Service struct{}

func NewService() *Service { return &Service{} }

func (*Service) Create(context.Context) error { return nil }

func (*Service) Search(context.Context) error { return nil }

// Server is what takes the service.
type Server struct{ Orders Orders }

func NewServer(orders Orders) *Server { return &Server{orders} }

// StartRedis is how an app tries wire out without a Redis.
func StartRedis() (*embedded.Server, func(), error) {
	server, err := embedded.Start()
	if err != nil {
		return nil, nil, err
	}
	return server, func() { server.Close() }, nil
}

func RedisClient(server *embedded.Server) redis.UniversalClient { return server.Client() }

var rateLimitedOrdersCreate = rules.Policy{
	Package: "github.com/rlgen/rlgen/ratelimit/ratelimitwire/testdata/shop",
	Type:    "shop.Orders",
	Method:  "Create",
	Limits:  []rules.Limit{{Kind: rules.User, Rules: []rules.Rule{{Count: 1, Window: time.Hour}}}},
}

var rateLimitedOrdersSearch = rules.Policy{
	Package: "github.com/rlgen/rlgen/ratelimit/ratelimitwire/testdata/shop",
	Type:    "shop.Orders",
	Method:  "Search",
	Limits: []rules.Limit{
		{Kind: rules.Global, Rules: []rules.Rule{{Count: 5000, Window: time.Hour}}, Prefetch: 100 * time.Millisecond},
	},
}

type RateLimitedOrders struct {
	next           Orders
	create, search *ratelimit.Guard
}

var _ Orders = (*RateLimitedOrders)(nil)

func NewRateLimitedOrders(next Orders, limiter *ratelimit.Limiter) *RateLimitedOrders {
	return &RateLimitedOrders{next: next, create: limiter.Guard(&rateLimitedOrdersCreate), search: limiter.Guard(&rateLimitedOrdersSearch)}
}

func (w *RateLimitedOrders) Create(ctx context.Context) (err error) {
	if _, err = w.create.Take(ctx); err != nil {
		return
	}
	return w.next.Create(ctx)
}

func (w *RateLimitedOrders) Search(ctx context.Context) (err error) {
	if _, err = w.search.Take(ctx); err != nil {
		return
	}
	return w.next.Search(ctx)
}

func ProvideRateLimitedOrders(next *Service, limiter *ratelimit.Limiter) Orders {
	return NewRateLimitedOrders(next, limiter)
}

var RateLimitSet = wire.NewSet(ProvideRateLimitedOrders)
