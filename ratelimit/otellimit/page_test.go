package otellimit_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/rlgen/rlgen/ratelimit/otellimit"
)

// meter is an observer and what has been measured by it.
type meter struct {
	*otellimit.Observer
	reader *metric.ManualReader
}

func newMeter(t testing.TB) meter {
	t.Helper()
	reader := metric.NewManualReader()
	o, err := otellimit.New(otellimit.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(reader))))
	if err != nil {
		t.Fatal(err)
	}
	return meter{o, reader}
}

func (m meter) collect(t *testing.T) metricdata.ResourceMetrics {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := m.reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// page is a line for each series: its name without "rate_limiting.", its attributes without the method, and its value, which of a
// histogram is how often something was measured.
func (m meter) page(t *testing.T) string {
	t.Helper()
	var lines []string
	for _, scope := range m.collect(t).ScopeMetrics {
		for _, s := range scope.Metrics {
			name := strings.TrimPrefix(s.Name, "rate_limiting.")
			switch data := s.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					lines = append(lines, fmt.Sprintf("%s%s = %d", name, labels(p.Attributes), p.Value))
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					lines = append(lines, fmt.Sprintf("%s%s = %d times", name, labels(p.Attributes), p.Count))
				}
			default:
				t.Fatalf("%s is a %T", s.Name, data)
			}
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func labels(set attribute.Set) string {
	var text strings.Builder
	for _, kv := range set.ToSlice() {
		if name := string(kv.Key); name != "code.function.name" {
			fmt.Fprintf(&text, " %s=%s", strings.TrimPrefix(name, "rate_limiting."), kv.Value.String())
		}
	}
	return text.String()
}

// lines is text without the indentation that it has in a test.
func lines(text string) string {
	var kept []string
	for l := range strings.Lines(text) {
		if l = strings.TrimSpace(l); l != "" {
			kept = append(kept, l)
		}
	}
	slices.Sort(kept)
	return strings.Join(kept, "\n")
}
