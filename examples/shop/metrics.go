package main

import (
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.uber.org/fx"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/otellimit"
)

// metrics has the limiter tell Prometheus of all that it decides, and the log now and then of what it denies. examples/metrics has a dashboard of it.
var metrics = fx.Provide(newMetrics)

// page is where Prometheus finds what is measured.
type page struct{ http.Handler }

// measured is the page, and whom the limiter tells.
type measured struct {
	fx.Out

	Page  page
	Meter ratelimit.Observer `group:"ratelimit.observers"`
	Log   ratelimit.Observer `group:"ratelimit.observers"`
}

func newMetrics(lc fx.Lifecycle, log *slog.Logger) (measured, error) {
	registry := prometheus.NewRegistry()
	reader, err := exporter.New(exporter.WithRegisterer(registry))
	if err != nil {
		return measured{}, err
	}
	provider := metric.NewMeterProvider(metric.WithReader(reader))
	lc.Append(fx.StopHook(provider.Shutdown))
	meter, err := otellimit.New(otellimit.WithMeterProvider(provider))
	return measured{
		Page:  page{promhttp.HandlerFor(registry, promhttp.HandlerOpts{})},
		Meter: meter,
		Log:   ratelimit.LogDenials(log),
	}, err
}
