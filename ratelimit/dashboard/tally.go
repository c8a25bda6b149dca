package dashboard

import "time"

// What is counted of a limit, or of the calls of a method.
const (
	allowed  = iota
	denied   // by the limit; of a method, by any
	degraded // decided without the store, or not at all for lack of it
	failed   // refused without a decision: no identity, a cost that can never pass, a store that cannot decide
	shadowed // would be denied, if the limit were no shadow
	kinds
)

// latencyLane is the name of the lane that counts how long decisions took, by bounds.
const latencyLane = ""

// widthOf is how many kinds a lane counts.
func widthOf(name string) int {
	if name == latencyLane {
		return len(bounds) + 1
	}
	return kinds
}

// bounds are the longest time of each kind but the last in the lane of latencies.
var bounds = [...]time.Duration{
	50 * time.Microsecond, 70 * time.Microsecond, 100 * time.Microsecond, 150 * time.Microsecond, 200 * time.Microsecond, 300 * time.Microsecond,
	400 * time.Microsecond, 500 * time.Microsecond, 700 * time.Microsecond, time.Millisecond, 1500 * time.Microsecond, 2 * time.Millisecond,
	3 * time.Millisecond, 4 * time.Millisecond, 5 * time.Millisecond, 7 * time.Millisecond, 10 * time.Millisecond, 15 * time.Millisecond,
	20 * time.Millisecond, 30 * time.Millisecond, 50 * time.Millisecond, 70 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond,
	500 * time.Millisecond, time.Second,
}

// bucket is the kind of a latency.
func bucket(d time.Duration) int {
	for i, b := range bounds {
		if d <= b {
			return i
		}
	}
	return len(bounds)
}

// quantile is the latency that a share of the counts of a latency lane do not exceed, as far as the bounds tell; 0 if there are none.
func quantile(counts []uint32, share float64) time.Duration {
	total := uint64(0)
	for _, n := range counts {
		total += uint64(n)
	}
	rank := share * float64(total)
	below := 0.0
	for i, n := range counts {
		if n == 0 || below+float64(n) < rank {
			below += float64(n)
			continue
		}
		return within(i, (rank-below)/float64(n))
	}
	return 0
}

// within is the latency at a share of the way through a bucket.
func within(bucket int, share float64) time.Duration {
	if bucket == len(bounds) {
		return bounds[bucket-1]
	}
	low := time.Duration(0)
	if bucket > 0 {
		low = bounds[bucket-1]
	}
	return low + time.Duration(share*float64(bounds[bucket]-low))
}
