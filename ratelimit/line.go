package ratelimit

import (
	"container/list"
	"sync"
	"time"
)

// lines are the calls of this process that wait for room under a key, first come, first served. The zero lines are empty.
type lines struct {
	mu    sync.Mutex
	byKey map[string]*line
}

// line is the calls that wait for one key. The first of them asks the store; the others wait until they are the first.
type line struct {
	key    string
	places list.List // of *place
	opens  time.Time // when the first asks again, as the store has told it; zero while it asks
}

// place is a call's place in a line.
type place struct {
	line  *line
	at    *list.Element
	first chan struct{} // closed once the place is the first
}

// join puts a call at the end of the line for key, and returns its place. It returns nil where the first of the line will not have
// asked by latest.
func (ls *lines) join(key string, latest time.Time) *place {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := ls.byKey[key]
	if l == nil {
		l = &line{key: key}
		if ls.byKey == nil {
			ls.byKey = make(map[string]*line)
		}
		ls.byKey[key] = l
	}
	if l.opens.After(latest) {
		return nil
	}
	p := &place{line: l, first: make(chan struct{})}
	p.at = l.places.PushBack(p)
	if p.at == l.places.Front() {
		close(p.first)
	}
	return p
}

// leave gives p up, and makes the next call the first if p was.
func (ls *lines) leave(p *place) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := p.line
	wasFirst := p.at == l.places.Front()
	l.places.Remove(p.at)
	if !wasFirst {
		return
	}
	l.opens = time.Time{}
	if next := l.places.Front(); next != nil {
		close(next.Value.(*place).first)
	} else {
		delete(ls.byKey, l.key)
	}
}

// open takes note that the first of p's line, which is p, asks again at a time; the zero time while it asks.
func (ls *lines) open(p *place, at time.Time) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	p.line.opens = at
}

// waits reports whether somebody waits for key.
func (ls *lines) waits(key string) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return ls.byKey[key] != nil
}
