package otellimit

import (
	"errors"

	"go.opentelemetry.io/otel/metric"
)

const scope = "github.com/rlgen/rlgen/ratelimit/otellimit"

type instruments struct {
	requests    metric.Int64Counter
	duration    metric.Float64Histogram
	queued      metric.Float64Histogram
	leases      metric.Int64UpDownCounter
	storeErrors metric.Int64Counter
	fallbacks   metric.Int64Counter
	reloads     metric.Int64Counter
}

// A decision takes microseconds in the process, about a millisecond at a store, and its time budget at most, which is 100 ms
// unless the program says otherwise.
var checkBuckets = []float64{.00001, .00005, .0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1}

var queueBuckets = []float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}

func newInstruments(m metric.Meter) (i instruments, err error) {
	errs := make([]error, 7)
	i.requests, errs[0] = m.Int64Counter("rate_limiting.requests", metric.WithUnit("{request}"),
		metric.WithDescription("Calls, for each limit that they were asked of, by what became of them."))
	i.duration, errs[1] = m.Float64Histogram("rate_limiting.check.duration", metric.WithUnit("s"),
		metric.WithDescription("How long it takes to decide a call, without what it waits for room."),
		metric.WithExplicitBucketBoundaries(checkBuckets...))
	i.queued, errs[2] = m.Float64Histogram("rate_limiting.request.time_in_queue", metric.WithUnit("s"),
		metric.WithDescription("How long calls that wait for room have waited."),
		metric.WithExplicitBucketBoundaries(queueBuckets...))
	i.leases, errs[3] = m.Int64UpDownCounter("rate_limiting.active_request_leases", metric.WithUnit("{request}"),
		metric.WithDescription("Calls of this process that hold a place in flight or a lock."))
	i.storeErrors, errs[4] = m.Int64Counter("rate_limiting.store.errors", metric.WithUnit("{error}"),
		metric.WithDescription("What the store could not decide or take back."))
	i.fallbacks, errs[5] = m.Int64Counter("rate_limiting.fallbacks", metric.WithUnit("{request}"),
		metric.WithDescription("Calls, for each limit, that were decided without the store."))
	i.reloads, errs[6] = m.Int64Counter("rate_limiting.policy.reloads", metric.WithUnit("{reload}"),
		metric.WithDescription("How often other overrides of limits were read."))
	return i, errors.Join(errs...)
}
