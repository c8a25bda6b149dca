package ratelimitfx_test

import (
	"errors"
	"testing"

	"go.uber.org/fx"

	"github.com/rlgen/rlgen/ratelimit/ratelimitfx"
)

func TestProvideCleanup(t *testing.T) {
	cleaned := 0
	constructor := func(...int) (*Service, func(), error) { return &Service{}, func() { cleaned++ }, nil }
	err := run(ratelimitfx.Provide[Orders](constructor, NewRateLimitedOrders), fx.Invoke(func(o Orders) {
		if !limited(o, "alice") {
			t.Error("Create is not limited")
		}
		if cleaned != 0 {
			t.Error("the clean-up ran before the app stopped")
		}
	}))
	if err != nil || cleaned != 1 {
		t.Errorf("run = %v, cleaned %d times, want nil and once", err, cleaned)
	}
}

func TestProvideCleanupFails(t *testing.T) {
	broken := errors.New("broken")
	constructor := func() (*Service, func(), error) { return nil, func() { t.Error("the clean-up ran") }, broken }
	err := run(ratelimitfx.Provide[Orders](constructor, NewRateLimitedOrders), fx.Invoke(func(Orders) {}))
	if !errors.Is(err, broken) {
		t.Errorf("run = %v, want %v", err, broken)
	}
}
