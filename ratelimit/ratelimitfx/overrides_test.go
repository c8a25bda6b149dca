package ratelimitfx_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/fx"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/override"
	"github.com/rlgen/rlgen/ratelimit/ratelimitfx"
)

// passing starts an app with overrides, and returns how many of three calls pass.
func passing(t *testing.T, text string) (passed int) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "limits.yaml")
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	var orders Orders
	app := fx.New(fx.NopLogger, ratelimitfx.InProcess, ratelimitfx.Module, generated(ProvideRateLimitedOrders),
		fx.Provide(NewService), fx.Supply(ratelimitfx.Overrides{override.File(path)}), fx.Populate(&orders))
	if err := app.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if orders.Create(ratelimit.WithUser(context.Background(), "alice")) == nil {
			passed++
		}
	}
	if err := app.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	return passed
}

// Overrides hold once the app has started; it starts without them where they cannot be used.
func TestOverrides(t *testing.T) {
	for text, want := range map[string]int{
		"limits:\n  Create: 2,1h\n":             2,
		"limits: {orders.Orders.Create: off}\n": 3,
		"limits:\n  Crate: 2,1h\n":              1,
		"limits":                                1,
	} {
		if got := passing(t, text); got != want {
			t.Errorf("%d calls passed by %q, want %d", got, text, want)
		}
	}
}

func TestOverridesWithoutASource(t *testing.T) {
	err := run(generated(ProvideRateLimitedOrders), fx.Provide(NewService), fx.Supply(ratelimitfx.Overrides{nil}), fx.Invoke(func(Orders) {}))
	if err == nil || !strings.Contains(err.Error(), "override: a nil Source") {
		t.Errorf("run = %v, want an error about a nil Source", err)
	}
}
