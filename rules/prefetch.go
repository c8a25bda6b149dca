package rules

import (
	"fmt"
	"time"
)

const (
	// MaxPrefetch is the longest Prefetch of a limit.
	MaxPrefetch = 10 * time.Second

	// minPrefetched is the smallest count of which permits may be taken ahead: a process takes an eighth of it at once, which is to be two or more.
	minPrefetched = 16
)

// ahead are the algorithms of which permits may be taken ahead. Those of a window of the clock are of no use in the next one.
var ahead = []Algorithm{SlidingLog, CompactLog, SlidingWindow, TokenBucket, LeakyBucket, GCRA}

// suitPrefetch takes the limit's Prefetch away where what stands beside it does not suit it.
func (l *Limit) suitPrefetch() {
	if l.Prefetch > 0 && l.checkPrefetch() != "" {
		l.Prefetch = 0
	}
}

// checkPrefetch says why no process takes permits of the limit ahead, "" if it may.
func (l *Limit) checkPrefetch() string {
	switch {
	case l.Wait > 0:
		return "found option prefetch beside wait, but calls that wait ask Redis for their turn, want one of the two"
	case l.Ban > 0:
		return "found option prefetch beside ban, but permits in hand would let calls through that a ban is to stop, want one of the two"
	case l.Refill == RefillInterval:
		return "found option prefetch beside refill=interval, whose tokens come all at once, want one of the two"
	}
	for _, r := range l.Rules {
		if most := r.Window / 2; l.Prefetch > most {
			return fmt.Sprintf("found prefetch=%s beside the rule %s, want at most half of the shortest window, %s", formatWindow(l.Prefetch), r, formatWindow(most))
		}
		if n := l.Capacity(r); n < minPrefetched {
			return fmt.Sprintf("found option prefetch beside a count of %d in %s, of which a process cannot take an eighth ahead, want counts of %d or more, or no prefetch", n, formatWindow(r.Window), minPrefetched)
		}
	}
	return ""
}
