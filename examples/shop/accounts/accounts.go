// Package accounts knows the customers of the shop.
package accounts

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
)

//go:generate go tool rlgen

// Accounts knows who is a customer, and on which plan.
type Accounts interface {
	// Login returns nil if the password is the customer's. Who fails five times within 15 minutes, with whatever names, is not let
	// try again until the first of these is 15 minutes ago; a login that succeeds is not counted.
	//
	//ratelimit:ip 5,15m charge=error
	Login(ctx context.Context, name, password string) error

	// Plan is the plan that a customer is on. It is not limited.
	Plan(name string) string
}

// ErrLogin is returned for a name or a password that is wrong.
var ErrLogin = errors.New("no such customer, or another password")

// The plans that limits are written for, by plan=.
const (
	Free = "free"
	Pro  = "pro"
)

// Service is an Accounts of a few customers, who are written below. It is safe for concurrent use.
type Service struct{ customers map[string]customer }

type customer struct{ password, plan string }

// NewService returns the shop's customers.
func NewService() *Service {
	return &Service{customers: map[string]customer{
		"alice": {"wonderland", Free},
		"paula": {"professional", Pro},
	}}
}

// Login compares the password. A real service compares slow hashes, which is one more reason to limit it.
func (s *Service) Login(_ context.Context, name, password string) error {
	known, ok := s.customers[name]
	want, got := sha256.Sum256([]byte(known.password)), sha256.Sum256([]byte(password))
	if subtle.ConstantTimeCompare(want[:], got[:]) != 1 || !ok {
		return ErrLogin
	}
	return nil
}

// Plan is the customer's plan, and [Free] for everybody else.
func (s *Service) Plan(name string) string {
	if known, ok := s.customers[name]; ok {
		return known.plan
	}
	return Free
}
