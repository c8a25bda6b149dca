package dashboard

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
)

const (
	// span is how many seconds the history goes back.
	span = 300
	// slots are a few more, so that a second which is read is not one that is being counted anew.
	slots = span + 20
)

// lane is counts of several kinds for each of the last seconds. It is safe for concurrent use; [newLane] makes one.
type lane struct {
	width int

	mu      sync.Mutex
	seconds [slots]int64
	counts  []uint32 // width of them for each slot
	sent    []uint32 // of which so many are told to others
}

func newLane(width int) *lane {
	return &lane{width: width, counts: make([]uint32, slots*width), sent: make([]uint32, slots*width)}
}

// slot returns where the counts of a second begin, which are zero if it is a new one; -1 for one that is too old.
func (l *lane) slot(second int64) int {
	n := int(second % slots)
	if second < l.seconds[n] || second < 0 {
		return -1
	}
	at := n * l.width
	if l.seconds[n] != second {
		l.seconds[n] = second
		clear(l.counts[at : at+l.width])
		clear(l.sent[at : at+l.width])
	}
	return at
}

// add counts one more of a kind.
func (l *lane) add(second int64, kind int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at := l.slot(second); at >= 0 {
		l.counts[at+kind]++
	}
}

// set makes the counts of a second what they are elsewhere.
func (l *lane) set(second int64, counts []uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at := l.slot(second); at >= 0 {
		copy(l.counts[at:at+l.width], counts)
	}
}

// read returns the counts of a kind from one second until before another.
func (l *lane) read(kind int, from, until int64) []uint32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	counts := make([]uint32, 0, max(0, until-from))
	for s := from; s < until; s++ {
		n := uint32(0)
		if slot := int(max(0, s) % slots); l.seconds[slot] == s {
			n = l.counts[slot*l.width+kind]
		}
		counts = append(counts, n)
	}
	return counts
}

// sum adds up each kind from one second until before another.
func (l *lane) sum(from, until int64) []uint32 {
	total := make([]uint32, l.width)
	for kind := range total {
		for _, n := range l.read(kind, from, until) {
			total[kind] += n
		}
	}
	return total
}

// unsent calls visit for what is counted since a second and not told yet.
func (l *lane) unsent(from int64, visit func(second int64, kind int, n uint32)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for slot, second := range l.seconds {
		if second < from {
			continue
		}
		for kind := range l.width {
			at := slot*l.width + kind
			if n := l.counts[at] - l.sent[at]; n > 0 {
				visit(second, kind, n)
			}
		}
	}
}

// tell takes note that n more of a kind are told.
func (l *lane) tell(second int64, kind int, n uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if slot := int(second % slots); l.seconds[slot] == second {
		l.sent[slot*l.width+kind] += n
	}
}

// maxLanes is how many lanes a book has at most: many more than a program has limits, and a bound where names come from others.
const maxLanes = 1 << 11

// book is lanes by name. It is safe for concurrent use, and the zero book is empty.
type book struct {
	mu    sync.Mutex // of who adds
	lanes atomic.Pointer[map[string]*lane]
}

func (b *book) all() map[string]*lane {
	if lanes := b.lanes.Load(); lanes != nil {
		return *lanes
	}
	return nil
}

// lane returns the one of a name, which is made if need be. Those beyond maxLanes are counted in vain.
func (b *book) lane(name string) *lane {
	if l, ok := b.all()[name]; ok {
		return l
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	before := b.all()
	if l, ok := before[name]; ok {
		return l
	}
	l := newLane(widthOf(name))
	if len(before) >= maxLanes {
		return l
	}
	grown := make(map[string]*lane, len(before)+1)
	maps.Copy(grown, before)
	grown[name] = l
	b.lanes.Store(&grown)
	return l
}

// names are those of the lanes, sorted.
func (b *book) names() []string { return slices.Sorted(maps.Keys(b.all())) }
