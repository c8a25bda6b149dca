package otellimit

import (
	"errors"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
)

// Option configures an [Observer].
type Option interface{ apply(*config) }

type optionFunc func(*config)

func (f optionFunc) apply(c *config) { f(c) }

// WithMeterProvider makes the observer measure with p's meter of this package's name. The default is to measure nothing.
func WithMeterProvider(p metric.MeterProvider) Option {
	return optionFunc(func(c *config) { c.meters = p })
}

type config struct{ meters metric.MeterProvider }

func newConfig() config { return config{meters: noop.NewMeterProvider()} }

func (c *config) validate() error {
	if c.meters == nil {
		return errors.New("otellimit: a nil MeterProvider, want one, or no WithMeterProvider")
	}
	return nil
}
