package simulation

import (
	"cmp"
	"slices"
)

// Top finds those of many texts that occur most often, in memory that is bounded: it keeps counts for as many as mostHit, and
// where there are more of them, the counts are at least what is said less [Top.Error] (Metwally et al.,
// Space-Saving, 2005).
type Top struct {
	counts map[string]*hit
	heap   []*hit // by count, the least first
	over   bool
}

type hit struct {
	id    string
	count int64
	error int64
	at    int
}

const mostHit = 10_000

// Add counts one occurrence.
func (t *Top) Add(id string) { t.add(nil, id) }

// add counts one occurrence, whose place may be the one of the last time, and returns its place.
func (t *Top) add(last *hit, id string) *hit {
	h, ok := last, last != nil && last.id == id
	if !ok {
		h, ok = t.counts[id]
	}
	if ok {
		h.count++
		t.down(h.at)
		return h
	}
	if t.counts == nil {
		t.counts = make(map[string]*hit)
	}
	if len(t.heap) < mostHit {
		h := &hit{id: id, count: 1, at: len(t.heap)}
		t.counts[id] = h
		t.heap = append(t.heap, h)
		t.up(h.at)
		return h
	}
	t.over = true
	least := t.heap[0]
	delete(t.counts, least.id)
	least.id, least.error = id, least.count
	least.count++
	t.counts[id] = least
	t.down(0)
	return least
}

func (t *Top) down(i int) {
	for {
		least := i
		for _, child := range []int{2*i + 1, 2*i + 2} {
			if child < len(t.heap) && t.heap[child].count < t.heap[least].count {
				least = child
			}
		}
		if least == i {
			return
		}
		t.swap(i, least)
		i = least
	}
}

func (t *Top) up(i int) {
	for i > 0 && t.heap[(i-1)/2].count > t.heap[i].count {
		t.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
}

func (t *Top) swap(i, j int) {
	t.heap[i], t.heap[j] = t.heap[j], t.heap[i]
	t.heap[i].at, t.heap[j].at = i, j
}

// Hit is a text and how often it occurred: so often at most, and Error fewer at least.
type Hit struct {
	ID    string
	Count int64
	Error int64
}

// Len returns how many different texts there were, and whether there were more than that.
func (t *Top) Len() (n int, more bool) { return len(t.heap), t.over }

// First returns the n most frequent ones, the most frequent first.
func (t *Top) First(n int) []Hit {
	hits := make([]Hit, 0, len(t.heap))
	for _, h := range t.heap {
		hits = append(hits, Hit{h.id, h.count, h.error})
	}
	slices.SortFunc(hits, func(a, b Hit) int { return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.ID, b.ID)) })
	return hits[:min(n, len(hits))]
}
