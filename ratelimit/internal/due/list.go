// Package due tells items when their time has come, by one timer for all of a list: for what mostly is over before.
package due

import (
	"sync"
	"time"
)

// Item is what waits for its time.
type Item interface {
	// Due is called once, in a goroutine of the list's, when the time has come. It must not block.
	Due()
}

// List has items in the order of their times. It is safe for concurrent use; the zero List is empty. Its timer is set while
// there are any, and left to fire where they are gone.
type List struct {
	mu          sync.Mutex
	first, last *Entry
	timer       *time.Timer
	fires       time.Time // when the timer does; zero if it is not set
}

// Entry is an item's place in a list, which is one list only. The zero Entry is in none.
type Entry struct {
	item       Item // nil if it is in none
	at         time.Time
	prev, next *Entry
}

// Add makes item due at a time, which is best later than most of those in the list. Its entry is in no list.
func (l *List) Add(e *Entry, item Item, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.last
	for before != nil && before.at.After(at) {
		before = before.prev
	}
	*e = Entry{item: item, at: at, prev: before, next: l.first}
	if before != nil {
		e.next = before.next
	}
	l.link(e, e, e)
	l.set()
}

// Remove takes an entry out of the list, if it is there. Its item may be told all the same where its time has come.
func (l *List) Remove(e *Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unlink(e)
}

func (l *List) unlink(e *Entry) {
	if e.item != nil {
		l.link(e, e.next, e.prev)
		*e = Entry{}
	}
}

// link makes next follow who is before e, and prev precede who is after it.
func (l *List) link(e, next, prev *Entry) {
	if before := e.prev; before != nil {
		before.next = next
	} else {
		l.first = next
	}
	if after := e.next; after != nil {
		after.prev = prev
	} else {
		l.last = prev
	}
}

// set makes the timer fire when the first is due.
func (l *List) set() {
	if l.first == nil || !l.fires.IsZero() && !l.first.at.Before(l.fires) {
		return
	}
	if l.timer != nil {
		l.timer.Stop()
	}
	l.fires = l.first.at
	l.timer = time.AfterFunc(time.Until(l.fires), l.fire)
}

func (l *List) fire() {
	for _, item := range l.take() {
		item.Due()
	}
}

// take takes those out that are due.
func (l *List) take() []Item {
	l.mu.Lock()
	defer l.mu.Unlock()
	var items []Item
	for now := time.Now(); l.first != nil && !l.first.at.After(now); {
		items = append(items, l.first.item)
		l.unlink(l.first)
	}
	l.fires = time.Time{}
	l.set()
	return items
}
