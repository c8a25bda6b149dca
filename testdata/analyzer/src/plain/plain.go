// Package plain has prose and nothing else.
package plain

import "context"

// Orders are rate limited by somebody else.
type Orders interface {
	Create(ctx context.Context) error
}
