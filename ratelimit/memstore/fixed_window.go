package memstore

import (
	"slices"
	"time"

	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// fixedWindow counts in windows that follow one another. A window is known by its length and by when it ends. Where the
// clock was set back behind its beginning, it goes on until then.
type fixedWindow struct {
	windows []window
}

// window is what one rule has admitted until ends.
type window struct {
	length int64 // µs
	ends   int64 // µs
	used   int64
}

func (f *fixedWindow) reset() { f.windows = f.windows[:0] }

func (f *fixedWindow) fetch() int64 {
	if len(f.windows) > 0 {
		return f.windows[0].ends
	}
	return 0
}

// of returns the window of a rule at now, of which nothing is used if none has begun.
func (f *fixedWindow) of(now int64, req *store.Request, rule rules.Rule) window {
	length := rule.Window.Microseconds()
	for _, w := range f.windows {
		if w.length == length && w.ends > now {
			return w
		}
	}
	ends := now + length
	if req.Start == rules.StartClock {
		ends -= now % length
	}
	return window{length: length, ends: ends}
}

func (f *fixedWindow) ask(now int64, req *store.Request, rule rules.Rule) (retryAfter, delay time.Duration) {
	w := f.of(now, req, rule)
	switch cost := req.Cost; {
	case cost == 0:
	case cost > rule.Count:
		retryAfter = store.Never
	case w.used+cost > rule.Count:
		retryAfter = micros(w.ends - now)
	}
	return retryAfter, delay
}

func (f *fixedWindow) describe(now int64, req *store.Request, rule rules.Rule) (remaining int64, reset time.Duration) {
	w := f.of(now, req, rule)
	if w.used > 0 {
		reset = micros(w.ends - now)
	}
	return max(0, rule.Count-w.used), reset
}

// charge charges every rule, and drops the windows of former rules that have ended.
func (f *fixedWindow) charge(now int64, req *store.Request, a admission) (ends, note int64) {
	f.windows = slices.DeleteFunc(f.windows, func(w window) bool { return w.ends <= now })
	for _, rule := range req.Rules {
		w := f.of(now, req, rule)
		w.used += a.cost
		f.set(w)
	}
	for _, w := range f.windows {
		ends = max(ends, w.ends)
	}
	return ends, 0
}

// giveBack takes back from the windows that the cost was charged in, those of them that have not ended.
func (f *fixedWindow) giveBack(now int64, req *store.Request, a admission) {
	for _, rule := range req.Rules {
		w := f.of(now, req, rule)
		if a.at < w.ends-w.length || a.at >= w.ends {
			continue
		}
		if w.used = max(0, w.used-a.cost); w.used == 0 {
			w.ends = 0 // as if none had begun
		}
		f.set(w)
	}
}

// grant takes back from the windows that have not ended.
func (f *fixedWindow) grant(now int64, req *store.Request, n int64) {
	for _, rule := range req.Rules {
		w := f.of(now, req, rule)
		if w.used == 0 {
			continue
		}
		if w.used = max(0, w.used-n); w.used == 0 {
			w.ends = 0 // as if none had begun
		}
		f.set(w)
	}
}

// set puts w in the place of the window of its length.
func (f *fixedWindow) set(w window) {
	for i := range f.windows {
		if f.windows[i].length == w.length {
			f.windows[i] = w
			return
		}
	}
	f.windows = append(f.windows, w)
}
