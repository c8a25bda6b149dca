package rules

import (
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"time"
)

// Algorithm says how a limit counts. The zero Algorithm is [SlidingLog], the default.
type Algorithm uint8

const (
	// SlidingLog records each admission and counts those of the last window. It is exact, and remembers at most
	// 10,000 admissions of an id.
	SlidingLog Algorithm = iota
	// CompactLog is SlidingLog in one string of Redis: the same decisions in less memory. It remembers at most
	// 100,000 admissions of an id.
	CompactLog
	// SlidingWindow counts by sub-windows, [Limit.Segments] of them in a window, each of which counts whole until it has
	// left the window. No window ever sees more than the count.
	SlidingWindow
	// FixedWindow counts in windows that follow one another, as [Limit.Start] says.
	FixedWindow
	// TokenBucket holds [Limit.Burst] tokens and gains the rule's count of them in each window, evenly. In any time D
	// it admits at most burst + D·count/window.
	TokenBucket
	// LeakyBucket is filled by calls up to [Limit.Burst] and loses the rule's count in each window, evenly: the
	// mirror image of TokenBucket, with the same decisions.
	LeakyBucket
	// GCRA keeps the time at which a bucket is full again: TokenBucket by its other name.
	GCRA
)

// unknownAlgorithm is that of a limit whose directive names none that is known.
const unknownAlgorithm Algorithm = 255

// An algorithm is what the rule language knows of one. The table below is the only place that knows them.
type algorithm struct {
	name     string
	maxCount int64 // the largest count of a rule
	scaled   bool  // it counts in units of burst times window: their product has an end

	// covers says why a rule never denies what another one allows, "" if it does.
	covers func(l *Limit, r, other Rule) string
}

// MaxCount is the largest count of a rule; logs have smaller ones in directives.
const MaxCount = 1_000_000_000

const (
	maxLogCount     = 10_000
	maxCompactCount = 100_000
	maxCount        = MaxCount

	// maxProduct is the largest product of a burst and a window in µs. Sums of two such terms and a count are exact in
	// the numbers of Lua, which has 53 bits for them.
	maxProduct = 1<<53 - 1<<31
)

// algorithms has each at its Algorithm. One without an entry is not accepted.
var algorithms = []algorithm{
	SlidingLog:    {name: "sliding-log", maxCount: maxLogCount, covers: coversLog},
	CompactLog:    {name: "compact-log", maxCount: maxCompactCount, covers: coversLog},
	SlidingWindow: {name: "sliding-window", maxCount: maxCount, covers: coversSlidingWindow},
	FixedWindow:   {name: "fixed-window", maxCount: maxCount, covers: coversFixedWindow},
	TokenBucket:   {name: "token-bucket", maxCount: maxCount, scaled: true, covers: coversBucket},
	LeakyBucket:   {name: "leaky-bucket", maxCount: maxCount, scaled: true, covers: coversBucket},
	GCRA:          {name: "gcra", maxCount: maxCount, scaled: true, covers: coversBucket},
}

var algorithmNames = namesOf(algorithms, func(a algorithm) string { return a.name })

// Logs reports whether the algorithm remembers every admission.
func (a Algorithm) Logs() bool { return a == SlidingLog || a == CompactLog }

// buckets have a burst.
var buckets = []Algorithm{TokenBucket, LeakyBucket, GCRA}

// String returns the word that directives have for the algorithm: "sliding-log".
func (a Algorithm) String() string { return wordFor("Algorithm", algorithmNames, a) }

func (a Algorithm) exists() bool { return int(a) < len(algorithms) && algorithms[a].name != "" }

// known returns what the table has of a; of an unknown algorithm, what refuses nothing.
func (a Algorithm) known() algorithm {
	if a.exists() {
		return algorithms[a]
	}
	return algorithm{maxCount: mostCount(), covers: func(*Limit, Rule, Rule) string { return "" }}
}

// mostCount returns the largest count of any algorithm.
func mostCount() int64 {
	most := int64(0)
	for _, a := range algorithms {
		most = max(most, a.maxCount)
	}
	return most
}

// largerCounts returns which algorithms take the count, as the end of a message, and "" if none does.
func largerCounts(count int64) string {
	takes := slices.DeleteFunc(slices.Clone(algorithms), func(a algorithm) bool { return a.maxCount < count })
	if len(takes) == 0 {
		return ""
	}
	return "; write algo=" + list(namesOf(takes, func(a algorithm) string { return a.name }))
}

// Capacity returns the largest cost that rule r of l ever allows: the burst of a bucket, else the count.
func (l *Limit) Capacity(r Rule) int64 {
	if l.Burst > 0 {
		return l.Burst
	}
	return r.Count
}

// Fits reports whether the algorithm can count to a capacity by rule r, exact to the microsecond: what it counts in, and the
// time at which a bucket is full again.
func (a Algorithm) Fits(r Rule, capacity int64) bool {
	if !a.exists() || !algorithms[a].scaled {
		return capacity <= maxProduct
	}
	return capacity <= 0 || times(capacity, r.Window.Microseconds()) <= mostProduct(r) // so that no call has to divide for it
}

// mostProduct returns the largest product of a burst and the window in µs of a bucket that gains by r.
func mostProduct(r Rule) int64 { return min(maxProduct, times(maxProduct/2, r.Count)) }

// mostCapacity returns the largest burst of a bucket that gains by r.
func mostCapacity(r Rule) int64 {
	return mostProduct(r) / r.Window.Microseconds()
}

// checkProduct says what is wrong with the size of a rule's numbers together, "" if nothing is.
func (l *Limit) checkProduct(r Rule) string {
	if l.Queues() {
		return l.checkQueue(r)
	}
	if l.Refill == RefillInterval {
		return l.checkInterval(r)
	}
	if l.Algorithm.Fits(r, l.Capacity(r)) {
		return ""
	}
	most := mostCapacity(r)
	return fmt.Sprintf("has a burst of %d in its window, which is more than %s can count to the microsecond, want at most %d; write burst=%d or a shorter window",
		l.Capacity(r), l.Algorithm, most, most)
}

// atMost says that other admits at most n in the window of r, if r admits as much.
func atMost(n int64, r Rule) string {
	if r.Count < n {
		return ""
	}
	return "which admits at most " + strconv.FormatInt(n, 10) + " in " + formatWindow(r.Window) + ", want a count under that"
}

// times returns a product of positive numbers that is at most the largest int64.
func times(a, b int64) int64 {
	high, low := bits.Mul64(uint64(a), uint64(b))
	if high > 0 || low > 1<<63-1 {
		return 1<<63 - 1
	}
	return int64(low)
}

// coversLog: a rule admits its count at once, and again each time its window has passed: at most that many in any
// window that the other rule looks at.
func coversLog(_ *Limit, r, other Rule) string {
	return atMost(times(int64((r.Window-1)/other.Window)+1, other.Count), r)
}

// coversBucket: a bucket that is no smaller and gains no less is never behind another.
func coversBucket(l *Limit, r, other Rule) string {
	if l.Capacity(r) < l.Capacity(other) || !noSlower(r, other) {
		return ""
	}
	return "whose bucket is no deeper and gains no more, want a lower count or burst than its"
}

// noSlower says whether r has at least the rate of other.
func noSlower(r, other Rule) bool {
	h1, l1 := bits.Mul64(uint64(r.Count), uint64(other.Window))
	h2, l2 := bits.Mul64(uint64(other.Count), uint64(r.Window))
	return h1 > h2 || h1 == h2 && l1 >= l2
}

// coversFixedWindow: in a window of r, each window of the other rule that it meets may admit its whole count.
func coversFixedWindow(l *Limit, r, other Rule) string {
	if l.Start == StartFirst {
		return atMost(mostAnchored(r.Window, other), r)
	}
	return atMost(times(overlaps(r.Window, r.Window, other.Window), other.Count), r)
}

// overlaps returns the largest number of windows, at the multiples of their length, that a span meets which begins at a
// multiple of step.
func overlaps(span, step, window time.Duration) int64 {
	latest := window - gcd(step, window) // into one of the windows that such a span begins
	return int64((latest+span-1)/window) + 1
}

// mostAnchored returns what a rule admits at most in a span that begins with an admission and ends a window of another
// length. Its own window may begin there too, or have admitted no more than one permit, and end 1 µs later.
func mostAnchored(span time.Duration, r Rule) int64 {
	begun := times(int64((span+r.Window-1)/r.Window), r.Count)
	if span == r.Window {
		return begun
	}
	const rest = time.Microsecond
	return max(begun, times(int64((span-rest+r.Window-1)/r.Window), r.Count)+r.Count-1)
}

// coversSlidingWindow: the other rule admits its count in any so many of its sub-windows.
func coversSlidingWindow(l *Limit, r, other Rule) string {
	segments, length := Subwindows(r.Window, l.Segments)
	_, others := Subwindows(other.Window, l.Segments)
	seen := overlaps(length*time.Duration(segments+1), length, others)
	return atMost(times((seen+segments)/(segments+1), other.Count), r)
}

func gcd(a, b time.Duration) time.Duration {
	for b > 0 {
		a, b = b, a%b
	}
	return a
}
