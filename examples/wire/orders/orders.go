// Package orders is a service behind limits, for a program that google/wire puts together.
package orders

import (
	"context"
	"fmt"
	"sync/atomic"
)

//go:generate go tool rlgen -di=wire

// Orders takes orders.
type Orders interface {
	// Create places an order of an item.
	//
	//ratelimit:user 3,10s 100,1h
	//ratelimit:global 500,1s
	Create(ctx context.Context, item string) (id string, err error)
}

// Service is an Orders that counts them.
type Service struct{ orders atomic.Int64 }

// NewService returns a service without orders.
func NewService() *Service { return new(Service) }

// Create places an order.
func (s *Service) Create(_ context.Context, item string) (string, error) {
	return fmt.Sprintf("%s-%d", item, s.orders.Add(1)), nil
}
