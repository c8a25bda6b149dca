package ratelimitfx

import (
	"context"
	"errors"

	"go.uber.org/fx"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/override"
)

// Overrides are where the app's limits are overridden from while it runs, a later one in place of an earlier one:
//
//	fx.Supply(ratelimitfx.Overrides{override.File("/etc/shop/limits.yaml")})
//
// They are read when the app starts, and watched until it stops. An app starts with the limits as they are written where they cannot be read or used, which
// is logged. An app has one Overrides or none.
type Overrides []override.Source

// watch makes l heed the sources while the app runs.
func (o Overrides) watch(l *ratelimit.Limiter, lifecycle fx.Lifecycle) error {
	if len(o) == 0 {
		return nil
	}
	w, err := override.New(l, o)
	if err != nil {
		return errors.Join(errors.New("ratelimitfx: Overrides"), err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan struct{})
	lifecycle.Append(fx.StartStopHook(func(start context.Context) {
		_ = w.Read(start) // told by the limiter
		go func() {
			defer close(stopped)
			_ = w.Run(ctx)
		}()
	}, func(stop context.Context) error {
		cancel()
		select {
		case <-stopped:
			return nil
		case <-stop.Done():
			return context.Cause(stop)
		}
	}))
	return nil
}
