package otellimit_test

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/memstore"
	"github.com/rlgen/rlgen/ratelimit/otellimit"
	"github.com/rlgen/rlgen/rules"
)

func Example() {
	reader := metric.NewManualReader() // a real program exports, to Prometheus for instance
	observer, err := otellimit.New(otellimit.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(reader))))
	if err != nil {
		fmt.Println(err)
		return
	}
	limiter, err := ratelimit.New(memstore.New(), ratelimit.WithObserver(observer))
	if err != nil {
		fmt.Println(err)
		return
	}
	guard := limiter.Guard(&rules.Policy{
		Package: "example.com/shop", Type: "shop.Carts", Method: "Add",
		Limits: []rules.Limit{{Kind: rules.User, Rules: []rules.Rule{{Count: 2, Window: time.Hour}}}},
	})
	ctx := ratelimit.WithUser(context.Background(), "alice")
	for range 5 {
		_, _ = guard.Take(ctx)
	}

	var measured metricdata.ResourceMetrics
	if err := reader.Collect(ctx, &measured); err != nil {
		fmt.Println(err)
		return
	}
	for _, m := range measured.ScopeMetrics[0].Metrics {
		if requests, ok := m.Data.(metricdata.Sum[int64]); ok {
			for _, p := range requests.DataPoints {
				limit, _ := p.Attributes.Value("rate_limiting.policy")
				result, _ := p.Attributes.Value("rate_limiting.result")
				fmt.Println(m.Name, limit.AsString(), result.AsString(), p.Value)
			}
		}
	}
	// Unordered output:
	// rate_limiting.requests Add acquired 2
	// rate_limiting.requests Add rejected 3
}
