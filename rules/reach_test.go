package rules

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A rule of a fixed or a sliding window is refused exactly if some trace exists that it denies and the other allows. Of
// windows of a few microseconds, all traces are tried.
func TestReachOfWindows(t *testing.T) {
	rule := rapid.Custom(func(t *rapid.T) Rule {
		return Rule{rapid.Int64Range(1, 4).Draw(t, "count"), time.Microsecond * time.Duration(rapid.IntRange(1, 6).Draw(t, "window"))}
	})
	for name, l := range map[string]*Limit{
		"clock":   {Algorithm: FixedWindow},
		"first":   {Algorithm: FixedWindow, Start: StartFirst},
		"one":     {Algorithm: SlidingWindow, Segments: 1},
		"two":     {Algorithm: SlidingWindow, Segments: 2},
		"three":   {Algorithm: SlidingWindow, Segments: 3},
		"default": {Algorithm: SlidingWindow},
	} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				a, b := rule.Draw(t, "a"), rule.Draw(t, "b")
				why := l.Algorithm.known().covers(l, a, b)
				if got, want := why != "", !bindsBeside(tinyOf(l, a), tinyOf(l, b)); got != want {
					t.Errorf("covers(%v, %v) = %q, want a reason: %v", a, b, why, want)
				}
			})
		})
	}
}

// A tiny counter is what one rule has counted, by microseconds. It is comparable.
type tiny interface {
	room() int64
	charged() tiny // with one permit more
	later() tiny   // by a microsecond
}

// tinyOf returns the counter of a rule before anything is counted.
func tinyOf(l *Limit, r Rule) tiny {
	if l.Algorithm == FixedWindow {
		return tinyFixed{count: r.Count, length: r.Window.Microseconds(), first: l.Start == StartFirst}
	}
	segments, length := Subwindows(r.Window, l.Segments)
	return tinySliding{count: r.Count, length: length.Microseconds(), segments: segments}
}

type tinyFixed struct {
	count, length int64
	first         bool
	now, used     int64 // µs since the window began
}

func (f tinyFixed) room() int64 { return f.count - f.used }

func (f tinyFixed) charged() tiny {
	f.used++
	return f
}

func (f tinyFixed) later() tiny {
	if f.first && f.used == 0 {
		return f
	}
	if f.now++; f.now == f.length {
		f.now, f.used = 0, 0
	}
	return f
}

type tinySliding struct {
	count, length, segments int64
	now                     int64     // µs since the newest sub-window began
	units                   [11]int64 // of the newest, of the one before it, and so on
}

func (s tinySliding) room() int64 {
	room := s.count
	for _, n := range s.units[:s.segments+1] {
		room -= n
	}
	return room
}

func (s tinySliding) charged() tiny {
	s.units[0]++
	return s
}

func (s tinySliding) later() tiny {
	if s.now++; s.now == s.length {
		s.now = 0
		copy(s.units[1:], s.units[:s.segments])
		s.units[0] = 0
	}
	return s
}

// bindsBeside reports whether a denies in some trace what b allows.
func bindsBeside(a, b tiny) bool {
	type both struct{ a, b tiny }
	seen := map[both]bool{}
	next := []both{{a, b}}
	for len(next) > 0 {
		s := next[len(next)-1]
		next = next[:len(next)-1]
		if s.a.room() < s.b.room() {
			return true
		}
		for _, then := range []both{{s.a.charged(), s.b.charged()}, {s.a.later(), s.b.later()}} {
			if then.b.room() >= 0 && !seen[then] {
				seen[then] = true
				next = append(next, then)
			}
		}
	}
	return false
}
