package memstore

import (
	"slices"
	"time"

	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// slidingWindow counts by sub-windows, each of which counts whole until the end of it is a window ago. Where the clock was
// set back, or something was taken ahead, those of later times count too, and what is admitted behind the oldest counts as of it.
type slidingWindow struct {
	windows []subwindows
}

// subwindows are those of one rule, known by its window and their number.
type subwindows struct {
	window, segments int64
	length           int64   // µs
	ends             int64   // when the newest has left the window, µs
	units            []int64 // admitted in the newest, the one before it, and so on; at most segments+1 and those that are to come
}

// leaves returns when the sub-window that holds t has left the window.
func (s *subwindows) leaves(t int64) int64 { return t - t%s.length + (s.segments+1)*s.length }

func (w *slidingWindow) reset() { w.windows = w.windows[:0] }

func (w *slidingWindow) fetch() int64 {
	if len(w.windows) > 0 {
		return w.windows[0].ends
	}
	return 0
}

// of returns the place of a rule's sub-windows, -1 if it has none, and them, empty at now if they have all left.
func (w *slidingWindow) of(now int64, req *store.Request, rule rules.Rule) (int, subwindows) {
	segments, length := rules.Subwindows(rule.Window, req.Segments)
	s := subwindows{window: rule.Window.Microseconds(), segments: segments, length: length.Microseconds()}
	s.ends = s.leaves(now)
	i := slices.IndexFunc(w.windows, func(old subwindows) bool { return old.window == s.window && old.segments == segments })
	if i >= 0 && w.windows[i].ends > now {
		return i, w.windows[i]
	}
	return i, s
}

func (w *slidingWindow) ask(now int64, req *store.Request, rule rules.Rule) (retryAfter, delay time.Duration) {
	room := rule.Count - req.Cost
	switch {
	case req.Cost == 0:
		return retryAfter, delay
	case room < 0:
		retryAfter = store.Never
		return retryAfter, delay
	}
	_, s := w.of(now, req, rule)
	for age, units := range s.units {
		ends := s.ends - int64(age)*s.length
		if room -= units; room < 0 && ends > now {
			retryAfter = micros(ends - now)
			break
		}
	}
	return retryAfter, delay
}

func (w *slidingWindow) describe(now int64, req *store.Request, rule rules.Rule) (remaining int64, reset time.Duration) {
	_, s := w.of(now, req, rule)
	if len(s.units) > 0 {
		reset = micros(s.ends - now)
	}
	remaining = rule.Count
	for age, units := range s.units {
		if s.ends-int64(age)*s.length > now {
			remaining -= units
		}
	}
	return max(0, remaining), reset
}

// charge charges every rule, and drops the sub-windows of former rules that have all left.
func (w *slidingWindow) charge(now int64, req *store.Request, a admission) (ends, note int64) {
	w.windows = slices.DeleteFunc(w.windows, func(s subwindows) bool { return s.ends <= now })
	for _, rule := range req.Rules {
		i, s := w.of(now, req, rule)
		s.add(now, now+req.Ahead.Microseconds(), a.cost)
		if i < 0 {
			w.windows = append(w.windows, s)
		} else {
			w.windows[i] = s
		}
	}
	for _, s := range w.windows {
		ends = max(ends, s.ends)
	}
	return ends, 0
}

// add counts cost in the sub-window that holds t, and drops those that have left at now.
func (s *subwindows) add(now, t, cost int64) {
	mine := s.leaves(t)
	if newer := (mine - s.ends) / s.length; newer > 0 {
		s.units = slices.Insert(s.units, 0, make([]int64, min(newer, 2*s.segments+2))...)
		s.ends = mine
	}
	staying := (s.ends - now + s.length - 1) / s.length
	s.units = s.units[:min(int64(len(s.units)), staying)]
	age := int(min((s.ends-mine)/s.length, s.segments))
	for len(s.units) <= age {
		s.units = append(s.units, 0)
	}
	s.units[age] += cost
}

// giveBack takes back from the sub-windows that the cost was charged in, those of them that have not left.
func (w *slidingWindow) giveBack(now int64, req *store.Request, a admission) {
	for _, rule := range req.Rules {
		i, s := w.of(now, req, rule)
		mine := s.leaves(a.at + req.Ahead.Microseconds())
		age := (s.ends - mine) / s.length
		if mine <= now || age < 0 || age >= int64(len(s.units)) {
			continue
		}
		s.units[age] = max(0, s.units[age]-a.cost)
		w.windows[i] = s.trimmed()
	}
}

// grant takes back from the newest sub-windows.
func (w *slidingWindow) grant(now int64, req *store.Request, n int64) {
	for _, rule := range req.Rules {
		i, s := w.of(now, req, rule)
		if i < 0 || len(s.units) == 0 {
			continue
		}
		left := n
		for age := range s.units {
			units := min(left, s.units[age])
			s.units[age] -= units
			left -= units
		}
		w.windows[i] = s.trimmed()
	}
}

// trimmed returns s without the newest sub-windows that hold nothing.
func (s subwindows) trimmed() subwindows {
	for len(s.units) > 0 && s.units[0] == 0 {
		s.units = s.units[1:]
		s.ends -= s.length
	}
	if len(s.units) == 0 {
		s.ends = 0
	}
	return s
}
