// Package orders is a service whose generated wrapper is measured.
package orders

import "context"

//go:generate go run github.com/rlgen/rlgen/cmd/rlgen -di=none

// Orders is a service.
type Orders interface {
	// Create is limited, and never denied.
	//
	//ratelimit:global 100000000,1s algo=gcra
	Create(ctx context.Context, item string) error
}
