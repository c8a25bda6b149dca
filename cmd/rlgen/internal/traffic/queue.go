package traffic

import "container/heap"

// queue is calls that may yet be overtaken, and gives them by time, those of one time as they came. What comes in order costs the same however many there are. The
// zero queue is empty.
type queue struct {
	ring   []queued // the calls in order, from first on by time, a power of two of places
	next   uint64   // the place of the first, but for the ring's size
	end    uint64   // that behind the last
	behind late
	seen   int64
}

// queued is a call, and the how-manieth it is.
type queued struct {
	Call
	n int64
}

func (q *queued) before(other *queued) bool {
	return q.At < other.At || q.At == other.At && q.n < other.n
}

// at returns a place of the ring.
func (q *queue) at(i uint64) *queued { return &q.ring[i&uint64(len(q.ring)-1)] }

// put adds a call.
func (q *queue) put(c *Call) {
	q.seen++
	if q.end > q.next && c.At < q.at(q.end-1).At {
		heap.Push(&q.behind, queued{*c, q.seen})
		return
	}
	if q.end-q.next == uint64(len(q.ring)) {
		q.grow()
	}
	last := q.at(q.end)
	last.Call, last.n = *c, q.seen
	q.end++
}

const fewestQueued = 1 << 10

// grow doubles the ring.
func (q *queue) grow() {
	bigger := queue{ring: make([]queued, max(fewestQueued, 2*len(q.ring)))}
	for i := q.next; i < q.end; i++ {
		*bigger.at(i) = *q.at(i)
	}
	q.ring = bigger.ring
}

// first returns the first call; nil if there is none.
func (q *queue) first() *queued {
	var first *queued
	if q.next < q.end {
		first = q.at(q.next)
	}
	if len(q.behind) > 0 && (first == nil || q.behind[0].before(first)) {
		first = &q.behind[0]
	}
	return first
}

// drop takes the first call away.
func (q *queue) drop() {
	if len(q.behind) > 0 && q.first() == &q.behind[0] {
		heap.Pop(&q.behind)
		return
	}
	q.next++
}

// late is a heap of calls, the first by time on top.
type late []queued

func (l late) Len() int           { return len(l) }
func (l late) Less(i, j int) bool { return l[i].before(&l[j]) }
func (l late) Swap(i, j int)      { l[i], l[j] = l[j], l[i] }
func (l *late) Push(x any)        { *l = append(*l, x.(queued)) }
func (l *late) Pop() any {
	last := len(*l) - 1
	x := (*l)[last]
	(*l)[last] = queued{}
	*l = (*l)[:last]
	return x
}
