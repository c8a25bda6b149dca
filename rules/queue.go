package rules

import (
	"fmt"
	"time"
)

// queue is what the rule language knows of a leaky bucket with a wait.
var queue = algorithm{name: algorithms[LeakyBucket].name, maxCount: maxCount, scaled: true, covers: coversQueue}

// known returns what the tables have of the limit's way to count.
func (l *Limit) known() algorithm {
	if l.Queues() {
		return queue
	}
	if l.Refill == RefillInterval {
		return interval
	}
	return l.Algorithm.known()
}

// QueueFits reports whether a queue that takes count in a window, and makes calls wait as long as wait, is exact to the
// microsecond: its calls go on a microsecond apart or more.
func QueueFits(count int64, window, wait time.Duration) bool {
	return count <= mostQueued(window, wait)
}

// mostQueued returns the largest count of a queue.
func mostQueued(window, wait time.Duration) int64 {
	return min(window.Microseconds(), maxProduct/(window+wait).Microseconds())
}

// checkQueue says what is wrong with the size of a queue's numbers together, "" if nothing is.
func (l *Limit) checkQueue(r Rule) string {
	if QueueFits(r.Count, r.Window, l.Wait) {
		return ""
	}
	return fmt.Sprintf("has a count of %d in its window, which is more than a queue with wait=%s can space out to the microsecond, want at most %d",
		r.Count, formatWindow(l.Wait), mostQueued(r.Window, l.Wait))
}

// coversQueue: of two rules, the slower one alone spaces the calls.
func coversQueue(_ *Limit, r, other Rule) string {
	if !noSlower(r, other) {
		return ""
	}
	return "which spaces the calls of this queue further apart, want one rule"
}

// clash says why the limit cannot have an option that its algorithm has, "" if it can. Has says whether the limit has an option, be its value good or not.
func (o option) clash(l *Limit, has func(name string) bool) string {
	switch {
	case o.name == "burst" && l.Queues():
		return "found option burst beside wait, which makes a leaky-bucket a queue without a depth, want one of the two"
	case o.name == "ban" && !has("after"):
		return "found option ban without after, want both, such as ban=15m after=3, which bans an id for 15m once it has been denied 3 times within the window"
	case o.name == "after" && !has("ban"):
		return "found option after without ban, want both, such as ban=15m after=3, which bans an id for 15m once it has been denied 3 times within the window"
	case o.name == "free" && !has("cost"):
		return "found option free without cost, but without cost each call costs 1, want both, such as cost=len(req.Items) free=allow"
	case o.name == "ban" && l.Wait > 0:
		return "found option ban beside wait, but a call that waits is denied before it passes, want one of the two"
	case o.name == "prefetch":
		return l.checkPrefetch()
	case o.name == "mode" && l.Mode == Shadow && l.Wait > 0:
		return "found option mode=shadow beside wait, but a shadow keeps no call waiting, want one of the two"
	}
	return ""
}
