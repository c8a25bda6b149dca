package traffic

import "container/heap"

// queue is calls that may yet be overtaken, and gives them by time, those of one time as they came. What comes in order costs the same however many there are. The
// zero queue is empty.
type queue struct {
	ordered []queued // by time, from head
	head    int
	behind  late
	seen    int64
}

// queued is a call, and the how-manieth it is.
type queued struct {
	Call
	n int64
}

func (q *queued) before(other *queued) bool {
	return q.At < other.At || q.At == other.At && q.n < other.n
}

// put adds a call.
func (q *queue) put(c *Call) {
	q.seen++
	one := queued{*c, q.seen}
	if last := len(q.ordered) - 1; last >= q.head && c.At < q.ordered[last].At {
		heap.Push(&q.behind, one)
		return
	}
	q.ordered = append(q.ordered, one)
}

// first returns the first call; nil if there is none.
func (q *queue) first() *queued {
	var first *queued
	if q.head < len(q.ordered) {
		first = &q.ordered[q.head]
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
	q.head++
	if q.head >= 1024 && q.head*2 >= len(q.ordered) { // half of the memory is behind it
		q.ordered = q.ordered[:copy(q.ordered, q.ordered[q.head:])]
		q.head = 0
	}
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
