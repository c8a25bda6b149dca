// Package shop is the service of the quickstart: an interface with directives, and an implementation that knows
// nothing of them.
package shop

import (
	"context"
	"fmt"
	"sync/atomic"
)

//go:generate go tool rlgen -di=none

// Orders takes orders.
type Orders interface {
	// Create places an order.
	//
	//ratelimit:user 3,10s 100,1h
	//ratelimit:ip 4,1m
	//ratelimit:global 1000,1s
	Create(ctx context.Context, item string) (id string, err error)

	// Count says how many orders there are. It is not limited.
	Count(ctx context.Context) (int, error)
}

// Service is the Orders that counts them in memory. The zero Service is ready to use.
type Service struct{ orders atomic.Int64 }

// Create places an order.
func (s *Service) Create(_ context.Context, item string) (string, error) {
	return fmt.Sprintf("%s-%d", item, s.orders.Add(1)), nil
}

// Count says how many orders there are.
func (s *Service) Count(context.Context) (int, error) { return int(s.orders.Load()), nil }
