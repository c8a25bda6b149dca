package dashboard

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// who is an id of a limit, as the limit's key has it: "user=42".
type who struct{ limit, id string }

const (
	// rankMinutes is how many minutes a ranking looks back, the one that has begun included.
	rankMinutes = span/60 + 1
	// rankSize is how many ids a ranking knows in each of them.
	rankSize = 128
)

// ranking counts who is denied most often, in bounded memory however many ids there are: it keeps a space-saving sketch of each minute, in which a
// new id takes the place of the one that was seen least. It is safe for concurrent use, and the zero ranking is empty.
type ranking struct {
	mu      sync.Mutex
	minutes [rankMinutes]sketch
}

type sketch struct {
	minute  int64
	entries []entry
	places  map[who]int
}

// entry is an id in a sketch. Of count, floor may be others', whose place it took.
type entry struct {
	who
	count, floor uint32
	sent         uint32 // of those that are surely its own, so many are told to others
}

func (e *entry) sure() uint32 { return e.count - e.floor }

func minuteOf(t time.Time) int64 { return t.Unix() / 60 }

// add counts a denial.
func (r *ranking) add(now time.Time, w who) {
	r.mu.Lock()
	defer r.mu.Unlock()
	minute := minuteOf(now)
	s := &r.minutes[minute%rankMinutes]
	if s.minute != minute {
		*s = sketch{minute: minute, entries: s.entries[:0], places: make(map[who]int)}
	}
	s.add(w)
}

func (s *sketch) add(w who) {
	if at, ok := s.places[w]; ok {
		s.entries[at].count++
		return
	}
	if len(s.entries) < rankSize {
		s.places[w] = len(s.entries)
		s.entries = append(s.entries, entry{who: w, count: 1})
		return
	}
	least := 0
	for i := range s.entries {
		if s.entries[i].count < s.entries[least].count {
			least = i
		}
	}
	e := &s.entries[least]
	delete(s.places, e.who)
	s.places[w] = least
	*e = entry{who: w, count: e.count + 1, floor: e.count}
}

// ranked is how often an id was denied, at least.
type ranked struct {
	who
	count int64
}

// top returns those that were denied most often in the last minutes.
func (r *ranking) top(now time.Time, n int) []ranked {
	r.mu.Lock()
	defer r.mu.Unlock()
	sums := make(map[who]int64)
	for i := range r.minutes {
		s := &r.minutes[i]
		if s.minute <= minuteOf(now)-rankMinutes {
			continue
		}
		for j := range s.entries {
			sums[s.entries[j].who] += int64(s.entries[j].sure())
		}
	}
	return largest(sums, n)
}

// largest are the n largest sums.
func largest(sums map[who]int64, n int) []ranked {
	all := make([]ranked, 0, len(sums))
	for w, count := range sums {
		all = append(all, ranked{w, count})
	}
	slices.SortFunc(all, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(b.count, a.count), cmp.Compare(a.limit, b.limit), cmp.Compare(a.id, b.id))
	})
	return all[:min(n, len(all))]
}

// unsent returns what is to be told of the minute that has begun and the one before it, and takes note that it is. What is lost of it on the
// way is of no great weight.
func (r *ranking) unsent(now time.Time, n int) map[int64][]ranked {
	r.mu.Lock()
	defer r.mu.Unlock()
	told := make(map[int64][]ranked)
	for i := range r.minutes {
		s := &r.minutes[i]
		if s.minute < minuteOf(now)-1 {
			continue
		}
		news := make(map[who]int64)
		for j := range s.entries {
			if e := &s.entries[j]; e.sure() > e.sent {
				news[e.who] = int64(e.sure() - e.sent)
			}
		}
		for _, most := range largest(news, n) {
			e := &s.entries[s.places[most.who]]
			e.sent = e.sure()
			told[s.minute] = append(told[s.minute], most)
		}
	}
	return told
}

// takeBack takes note that what was to be told is not.
func (r *ranking) takeBack(told map[int64][]ranked) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for minute, list := range told {
		s := &r.minutes[minute%rankMinutes]
		for _, one := range list {
			if at, ok := s.places[one.who]; ok && s.minute == minute {
				e := &s.entries[at]
				e.sent -= min(e.sent, uint32(one.count))
			}
		}
	}
}
