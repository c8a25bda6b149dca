package simulation

import (
	"container/heap"

	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// living counts the ids of a limit whose keys live, where these live for longer than windows tell. The zero living counts none.
type living struct {
	ends ends
	most int
}

// end is when the key of an id was going to live no longer; more calls may have put that off.
type end struct {
	at  int64
	who *one
}

// keep lets the key of an id live up to a time, beside those that still live now.
func (l *living) keep(who *one, until, now int64) {
	for len(l.ends) > 0 && l.ends[0].at <= now {
		l.pass()
	}
	if until <= max(who.seen, now) {
		return
	}
	if who.seen == 0 {
		heap.Push(&l.ends, end{until, who})
		l.most = max(l.most, len(l.ends))
	}
	who.seen = until
}

// pass goes by the first end: that of the key, or of what was known of it.
func (l *living) pass() {
	first := &l.ends[0]
	if first.at < first.who.seen {
		first.at = first.who.seen
		heap.Fix(&l.ends, 0)
		return
	}
	first.who.seen = 0
	heap.Pop(&l.ends)
}

// outlives says whether a limit may have keys that live for longer than its longest window after a call: those of who is banned, of buckets that hold more
// than they gain in a window, and of queues.
func outlives(l *rules.Limit) bool {
	if l.Ban > 0 || l.Queues() {
		return true
	}
	for _, rule := range l.Rules {
		if l.Capacity(rule) > rule.Count {
			return true
		}
	}
	return false
}

// lasts is until when there is a key of an id to whom the rules of a limit have said this.
func (l *Limit) lasts(who *one, answers []store.RuleOutcome, denied bool, now int64) int64 {
	until := who.cell.Until().UnixMicro()
	switch banned := answers[0].Banned; {
	case banned > 0:
		return max(until, now+banned.Microseconds())
	case denied && l.Ban > 0:
		return max(until, now+l.ids.window) // for as long as the denial counts
	}
	return until
}

// ends is a heap, the first end on top.
type ends []end

func (e ends) Len() int           { return len(e) }
func (e ends) Less(i, j int) bool { return e[i].at < e[j].at }
func (e ends) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *ends) Push(x any)        { *e = append(*e, x.(end)) }
func (e *ends) Pop() any {
	last := len(*e) - 1
	x := (*e)[last]
	(*e)[last] = end{}
	*e = (*e)[:last]
	return x
}
