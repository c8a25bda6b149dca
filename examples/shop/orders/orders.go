// Package orders is the service of the shop: what it offers, and the limits that stand over it.
package orders

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
)

//go:generate go tool rlgen

// Orders takes orders and finds them again.
type Orders interface {
	// Create places an order: a few at once, not many an hour, and never more than the warehouse can take. The shadow is what a user may
	// be held to one day: metrics say whom it would deny, and it denies nobody.
	//
	//ratelimit:user 3,10s 100,1h
	//ratelimit:user 20,1h mode=shadow name=Create/candidate
	//ratelimit:ip 1000,1h
	//ratelimit:global 500,1s
	Create(ctx context.Context, req *CreateRequest) (*Order, error)

	// Get returns an order. It is not limited.
	Get(ctx context.Context, id string) (*Order, error)

	// Search returns the orders of an item, by pages of ten. Every page that is asked for is paid for, by the user as his plan says, and by the
	// address; without a user, by the address alone.
	//
	//ratelimit:user 20,1m plan=free cost=pages missing=allow
	//ratelimit:user 200,1m plan=pro cost=pages missing=allow
	//ratelimit:ip 300,1m cost=pages
	Search(ctx context.Context, item string, pages int) ([]*Order, error)

	// Cancel takes an order back. One order is not cancelled twice within a second, whoever asks.
	//
	//ratelimit:key 1,1s by=id
	//ratelimit:user 10,1m onfail=closed
	Cancel(ctx context.Context, id string) error
}

// CreateRequest is what an order is made from.
type CreateRequest struct {
	Item string `json:"item"`
}

// Order is one order.
type Order struct {
	ID   string `json:"id"`
	Item string `json:"item"`
}

// ErrNotFound is returned for an order that there is not.
var ErrNotFound = errors.New("no such order")

// Service keeps orders in memory. It is safe for concurrent use.
type Service struct {
	mu     sync.Mutex
	last   int
	orders map[string]*Order
}

// NewService returns a service without orders.
func NewService() *Service { return &Service{orders: make(map[string]*Order)} }

// Create places an order.
func (s *Service) Create(_ context.Context, req *CreateRequest) (*Order, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	o := &Order{ID: fmt.Sprintf("o-%d", s.last), Item: req.Item}
	s.orders[o.ID] = o
	return o, nil
}

// Get returns an order, or [ErrNotFound].
func (s *Service) Get(_ context.Context, id string) (*Order, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o, ok := s.orders[id]; ok {
		return o, nil
	}
	return nil, fmt.Errorf("%w: %q", ErrNotFound, id)
}

// Search returns the first pages of the orders whose item has the text.
func (s *Service) Search(_ context.Context, item string, pages int) ([]*Order, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := []*Order{}
	for i := 1; i <= s.last && len(found) < 10*pages; i++ {
		if o, ok := s.orders[fmt.Sprintf("o-%d", i)]; ok && strings.Contains(o.Item, item) {
			found = append(found, o)
		}
	}
	return found, nil
}

// Cancel takes an order back, or returns [ErrNotFound].
func (s *Service) Cancel(_ context.Context, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.orders[id]; !ok {
		return fmt.Errorf("%w: %q", ErrNotFound, id)
	}
	delete(s.orders, id)
	return nil
}
