package lock

import (
	"sync"
	"time"
)

// watch has the tenures that need no renewal yet, which few ever do: they share a timer, which is set while there are
// any, and left to fire where they have ended. Each has one of its own from its first renewal on.
type watch struct {
	mu          sync.Mutex
	first, last *tenure // by when they are due
	timer       *time.Timer
	fires       time.Time // when the timer does; zero if it is not set
}

// watched is a tenure's place in a watch, whose mu guards it.
type watched struct {
	due        time.Time
	in         bool
	prev, next *tenure
}

// add takes t, which is due after most of those that there are.
func (w *watch) add(t *tenure, due time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.last
	for before != nil && before.watched.due.After(due) {
		before = before.watched.prev
	}
	t.watched = watched{due: due, in: true, prev: before, next: w.first}
	if before != nil {
		t.watched.next = before.watched.next
	}
	w.link(t, t, t)
	w.set()
}

// remove lets go of t, if it is there.
func (w *watch) remove(t *tenure) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unlink(t)
}

func (w *watch) unlink(t *tenure) {
	if t.watched.in {
		w.link(t, t.watched.next, t.watched.prev)
		t.watched = watched{}
	}
}

// link makes next follow who is before t, and prev precede who is after it.
func (w *watch) link(t, next, prev *tenure) {
	if before := t.watched.prev; before != nil {
		before.watched.next = next
	} else {
		w.first = next
	}
	if after := t.watched.next; after != nil {
		after.watched.prev = prev
	} else {
		w.last = prev
	}
}

// set makes the timer fire when the first is due.
func (w *watch) set() {
	if w.first == nil || !w.fires.IsZero() && !w.first.watched.due.Before(w.fires) {
		return
	}
	if w.timer != nil {
		w.timer.Stop()
	}
	w.fires = w.first.watched.due
	w.timer = time.AfterFunc(time.Until(w.fires), w.fire)
}

// fire gives those that are due a timer.
func (w *watch) fire() {
	w.mu.Lock()
	var due []*tenure
	for now := time.Now(); w.first != nil && !w.first.watched.due.After(now); {
		due = append(due, w.first)
		w.unlink(w.first)
	}
	w.fires = time.Time{}
	w.set()
	w.mu.Unlock()
	for _, t := range due {
		t.awake()
	}
}
