// Metrics is a server whose limits Prometheus sees: it answers POST /cart/{item}, twice a second for each address, and
// GET /metrics. The file dashboard.json is a Grafana dashboard of what is there.
//
//	go run . -listen localhost:8080
//	curl -X POST localhost:8080/cart/tea
//	curl localhost:8080/metrics
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/httplimit"
	"github.com/rlgen/rlgen/ratelimit/memstore"
	"github.com/rlgen/rlgen/ratelimit/otellimit"
	"github.com/rlgen/rlgen/rules"
)

func main() {
	address := flag.String("listen", "localhost:8080", "the address to listen on")
	flag.Parse()
	if err := run(*address); err != nil {
		log.Fatal(err)
	}
}

func run(address string) error {
	observer, page, err := newMetrics()
	if err != nil {
		return err
	}
	limiter, err := ratelimit.New(memstore.New(),
		ratelimit.WithObserver(observer),
		ratelimit.WithObserver(ratelimit.LogDenials(slog.Default())))
	if err != nil {
		return err
	}
	server := &http.Server{Addr: address, Handler: newHandler(limiter, page), ReadHeaderTimeout: 5 * time.Second}
	return server.ListenAndServe()
}

// newMetrics returns an observer, and the page on which Prometheus finds what it has measured.
func newMetrics() (*otellimit.Observer, http.Handler, error) {
	registry := prometheus.NewRegistry()
	reader, err := exporter.New(exporter.WithRegisterer(registry))
	if err != nil {
		return nil, nil, fmt.Errorf("exporter: %w", err)
	}
	observer, err := otellimit.New(otellimit.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(reader))))
	return observer, promhttp.HandlerFor(registry, promhttp.HandlerOpts{}), err
}

// newHandler returns the server's answers.
func newHandler(limiter *ratelimit.Limiter, page http.Handler) http.Handler {
	carts := newCarts(limiter)
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", page)
	mux.HandleFunc("POST /cart/{item}", func(w http.ResponseWriter, r *http.Request) {
		err := carts.Add(r.Context(), r.PathValue("item"))
		switch {
		case httplimit.WriteError(w, r, err):
		case err != nil:
			http.Error(w, "cannot add to the cart", http.StatusInternalServerError)
		default:
			w.WriteHeader(http.StatusCreated)
		}
	})
	return httplimit.Identify()(mux)
}

// carts stands for a service and the wrapper that rlgen writes for it where its method has
//
//	//ratelimit:ip 2,1s
//	Add(ctx context.Context, item string) error
type carts struct{ add *ratelimit.Guard }

func newCarts(limiter *ratelimit.Limiter) *carts {
	return &carts{add: limiter.Guard(&rules.Policy{
		Package: "example.com/shop", Type: "shop.Carts", Method: "Add",
		Limits: []rules.Limit{{Kind: rules.IP, Rules: []rules.Rule{{Count: 2, Window: time.Second}}}},
	})}
}

func (c *carts) Add(ctx context.Context, item string) (err error) {
	_, err = c.add.Take(ctx)
	return err
}
