package rules

import (
	"fmt"
	"time"
)

// interval is what the rule language knows of a token bucket that is refilled at intervals.
var interval = algorithm{name: algorithms[TokenBucket].name, maxCount: maxCount, covers: coversInterval}

// IntervalFits reports whether a bucket of burst tokens that gains count of them whenever a window has passed is exact to
// the microsecond: the time after which it is full again, and that time of day, are.
func IntervalFits(count, burst int64, window time.Duration) bool {
	return gains(burst, count) <= mostGains(window)
}

// gains returns how many times count make burst.
func gains(burst, count int64) int64 { return (burst + count - 1) / count }

// mostGains returns after how many windows a bucket is full again at the latest.
func mostGains(window time.Duration) int64 { return maxProduct / 2 / window.Microseconds() }

// checkInterval says what is wrong with the size of an interval bucket's numbers together, "" if nothing is.
func (l *Limit) checkInterval(r Rule) string {
	if IntervalFits(r.Count, l.Capacity(r), r.Window) {
		return ""
	}
	most := times(mostGains(r.Window), r.Count)
	return fmt.Sprintf("has a burst of %d, which takes longer to come back than %s can count to the microsecond, want at most %d; write burst=%d or a shorter window",
		l.Capacity(r), l.Algorithm, most, most)
}

// coversInterval: from when its bucket was last full, r has its burst and what it has gained. What the other rule admits
// meanwhile is the most where it too is full then, or where it lacks a token and is about to gain.
func coversInterval(l *Limit, r, other Rule) string {
	const (
		steps = 10_000 // of r, after which it is taken to deny
		never = "whose bucket never has more tokens, want a lower count or burst than its"
	)
	if r.Window == other.Window && l.Burst <= min(r.Count, other.Count) && l.Capacity(r) >= l.Capacity(other) {
		return never // both are full whenever they gain, which they do together
	}
	burst, gain := l.Capacity(other), min(other.Count, l.Capacity(other))
	if !noSlower(r, Rule{gain, other.Window}) {
		return ""
	}
	for n := range int64(steps) {
		last := times(n+1, int64(r.Window/time.Microsecond)) - 1 // µs, before r gains again
		step := other.Window.Microseconds()
		has := times(n, r.Count) + l.Capacity(r)
		if times(last/step, gain)+burst > has || burst > 1 && times((last+step-1)/step, gain)+burst-1 > has {
			return ""
		}
		if (n+1)%(step/gcdOf(step, r.Window.Microseconds())) == 0 {
			return never
		}
	}
	return ""
}

func gcdOf(a, b int64) int64 { return int64(gcd(time.Duration(a), time.Duration(b))) }
