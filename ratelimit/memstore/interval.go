package memstore

import (
	"slices"
	"time"

	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// intervalBucket is a token bucket of burst tokens at most, which gains count of them at once whenever a window has
// passed since it was last full. It knows for each rule when the bucket will be full, and the gains until then say what
// is missing: a time is only ever moved by whole windows, and nothing is lost between two gains.
//
// A clock that is set back is further away from the time at which the bucket is full.
type intervalBucket struct {
	gaps []gap
}

// gap is what is missing in one rule's bucket, known by its window.
type gap struct {
	window   int64 // µs
	start    int64 // µs, when the bucket was last full
	full     int64 // µs, when it is full again
	fraction       // of the gain at full, the tokens that it has no room for
}

func (b *intervalBucket) reset() { b.gaps = b.gaps[:0] }

func (b *intervalBucket) fetch() int64 {
	if len(b.gaps) > 0 {
		return b.gaps[0].full
	}
	return 0
}

// of returns the gap of a rule, with nothing missing if it has none at now.
func (b *intervalBucket) of(now int64, rule rules.Rule) gap {
	window := rule.Window.Microseconds()
	for _, g := range b.gaps {
		if g.window == window && g.full > now {
			g.fraction = g.fraction.of(rule.Count)
			return g
		}
	}
	return gap{window: window, start: now, full: now, fraction: fraction{count: rule.Count}}
}

// gains is how many of them there are after now until the bucket is full.
func (g *gap) gains(now int64) int64 { return (g.full - now + g.window - 1) / g.window }

// moved returns g with more tokens missing, or fewer below 0.
func (g gap) moved(tokens int64) gap {
	steps, left := g.move(tokens)
	g.full, g.fraction = g.full+steps*g.window, left
	return g
}

func (b *intervalBucket) ask(now int64, req *store.Request, rule rules.Rule) (retryAfter, delay time.Duration) {
	burst := req.Capacity(rule)
	switch cost := req.Cost; {
	case cost == 0:
	case cost > burst:
		retryAfter = store.Never
	default:
		g := b.of(now, rule)
		retryAfter = micros(max(0, g.full-now-(burst-cost+g.early)/g.count*g.window))
	}
	return retryAfter, delay
}

func (b *intervalBucket) describe(now int64, req *store.Request, rule rules.Rule) (remaining int64, reset time.Duration) {
	g := b.of(now, rule)
	most := req.Capacity(rule)
	if g.gains(now) > most/g.count+1 {
		return 0, micros(g.full - now) // more than a burst is missing: the clock was set back, or the burst was larger
	}
	return max(0, most+g.early-g.gains(now)*g.count), micros(g.full - now)
}

func (b *intervalBucket) charge(now int64, req *store.Request, a admission) (ends, note int64) {
	for _, rule := range req.Rules {
		b.put(b.of(now, rule).moved(a.cost))
	}
	for _, g := range b.gaps {
		ends = max(ends, g.full)
	}
	return ends, 0
}

// giveBack takes back what has not come back by itself since: all of it where the bucket has been full in between.
func (b *intervalBucket) giveBack(now int64, req *store.Request, a admission) {
	for _, rule := range req.Rules {
		g := b.of(now, rule)
		if g.full == now || a.at < g.start {
			continue
		}
		gained := (now-g.start)/g.window - (a.at-g.start)/g.window
		gained = min(max(0, gained), a.cost/g.count+1)
		b.fill(now, g, max(0, a.cost-gained*g.count))
	}
}

// grant fills the buckets.
func (b *intervalBucket) grant(now int64, req *store.Request, n int64) {
	for _, rule := range req.Rules {
		b.fill(now, b.of(now, rule), min(n, req.Capacity(rule)))
	}
}

// fill makes fewer tokens missing in the bucket of g.
func (b *intervalBucket) fill(now int64, g gap, tokens int64) {
	if g = g.moved(-tokens); g.full > now {
		b.put(g)
	} else {
		b.gaps = slices.DeleteFunc(b.gaps, func(other gap) bool { return other.window == g.window })
	}
}

// put puts g in the place of the gap of its window.
func (b *intervalBucket) put(g gap) {
	for i := range b.gaps {
		if b.gaps[i].window == g.window {
			b.gaps[i] = g
			return
		}
	}
	b.gaps = append(b.gaps, g)
}
