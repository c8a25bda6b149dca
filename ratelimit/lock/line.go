package lock

import (
	"errors"
	"math"
	"sync"
	"time"

	"github.com/rlgen/rlgen/ratelimit/store"
)

// line has the callers of this process who wait for a name of a store, or are about to, in the order in which they came. Only the first few of them ask the
// store: it hears as much of a crowd as of its head, and whoever stands behind sends nothing until it is his turn.
type line struct {
	key         lineKey
	first, last *spot
	waiting     int   // those whose turn it is not
	limit       int64 // of the semaphore, as who asked last had it; 1 of a lock
	refused     bool  // one of those who asked was not met: there is no room for all

	free   time.Time // when the leases end that are in the way, as the latest answer has it; zero if that is unknown
	heard  time.Time // when the store last answered; zero if it has not
	failed error     // the latest asking; nil if it was answered
}

type lineKey struct {
	store Store
	name  string
	lock  bool
}

// lines are those of this process, as long as somebody is in them.
var lines = struct {
	sync.Mutex
	of    map[lineKey]*line
	spare *line
}{of: map[lineKey]*line{}}

// spot is a caller's place in a line. The zero spot is in none.
type spot struct {
	line       *line
	prev, next *spot
	turn       chan struct{} // closed when it is the caller's turn; nil if it is
	waited     bool          // for that
	stood      bool          // in the store's queue
	err        error         // why it never will be
}

const (
	// ahead is of how many of a line the store is asked at most: so many that the next one stands in the store's queue by when the one before him is met.
	ahead = 8
	// fresh is for how long what the store has said to one of a line is true for those who do not wait.
	fresh = 2 * pollEvery
)

func keyOf(s Store, c *Claim) lineKey { return lineKey{s, c.Name, c.Limit == 0} }

// enter takes the last place of the line for c.
func (s *spot) enter(of Store, c *Claim) {
	lines.Lock()
	defer lines.Unlock()
	key := keyOf(of, c)
	l := lines.of[key]
	if l == nil {
		if l = lines.spare; l == nil {
			l = &line{}
		}
		lines.spare = nil
		l.key, lines.of[key] = key, l
	}
	l.limit = max(1, c.Limit)
	s.line, s.prev = l, l.last
	if l.last == nil {
		l.first = s
	} else {
		l.last.next = s
	}
	l.last = s
}

// leave gives the place to who stands behind.
func (s *spot) leave() {
	lines.Lock()
	defer lines.Unlock()
	l := s.line
	if s.turn != nil {
		l.waiting--
	}
	if s.prev == nil {
		l.first = s.next
	} else {
		s.prev.next = s.next
	}
	if s.next == nil {
		l.last = s.prev
	} else {
		s.next.prev = s.prev
	}
	*s = spot{}
	if l.first != nil {
		l.proceed()
		return
	}
	delete(lines.of, l.key)
	*l = line{}
	lines.spare = l
}

// width is how many of the line may ask.
func (l *line) width() int {
	switch {
	case l.refused:
		return int(min(l.limit+1, ahead))
	case l.limit < ahead:
		return int(l.limit)
	}
	return math.MaxInt
}

// proceed tells those whose turn it has become: where there is no room for all, they stand in the store's queue in the order in which they came, one after the
// other. The caller holds lines.
func (l *line) proceed() {
	s := l.first
	for n := l.width(); n > 0 && s != nil && l.waiting > 0; n-- {
		s.call(nil)
		if l.refused && !s.stood {
			return
		}
		s = s.next
	}
}

// call tells a caller who waits for his turn that it is, or why it never will be. The caller of call holds lines.
func (s *spot) call(err error) {
	if s.turn != nil {
		s.err = err
		close(s.turn)
		s.turn = nil
		s.line.waiting--
	}
}

// settle has the caller wait for his turn, if it is not. Where the store fails, everybody asks for himself. The caller of settle holds lines.
func (s *spot) settle() {
	if l := s.line; s.turn == nil && !s.stood && !s.may() && !failing(l.failed) {
		s.turn, s.waited = make(chan struct{}), true
		l.waiting++
	}
}

// may says whether it is the caller's turn.
func (s *spot) may() bool {
	l := s.line
	n := l.width()
	if n == math.MaxInt {
		return true
	}
	for other := l.first; n > 0 && other != s; n-- {
		if l.refused && !other.stood {
			return false
		}
		other = other.next
	}
	return n > 0
}

// failing says whether an error of a store leaves no hope that one who asks now will be answered.
func failing(err error) bool { return err != nil && !errors.Is(err, ErrCrowded) }

// stand says what is closed once it is the caller's turn, nil if it is; and whether it is known by then that the store has no room.
func (s *spot) stand() (turn <-chan struct{}, refused bool) {
	lines.Lock()
	defer lines.Unlock()
	s.settle()
	return s.turn, s.line.refused && (s.waited || !failing(s.line.failed))
}

// called is why it never will be the caller's turn, once he was called; nil if it is.
func (s *spot) called() error {
	lines.Lock()
	defer lines.Unlock()
	return s.err
}

// hear tells the line how an asking ended, by one who stands in the store's queue since then where it was not met and queued.
func (s *spot) hear(a Answer, err error, queued bool) {
	lines.Lock()
	defer lines.Unlock()
	l := s.line
	switch {
	case err == nil:
		l.failed, l.heard = nil, time.Now()
		if !a.Held {
			l.refuse(a)
			s.stood = queued
			l.proceed()
		}
	case errors.Is(err, ErrCrowded):
		l.failed, l.heard = err, time.Now()
	case errors.As(err, new(*store.Error)):
		l.failed = err
		if !l.outlasts(err) {
			l.fail(err)
		}
	}
}

// refuse takes note of an answer that met nobody.
func (l *line) refuse(a Answer) {
	l.refused, l.free = true, time.Time{}
	if a.Left > 0 {
		l.free = l.heard.Add(a.Left)
	}
}

// outlasts says whether an error of the store's may pass before it forgets who waits.
func (l *line) outlasts(err error) bool { return passing(err) && time.Since(l.heard) <= WaiterLife }

// fail fails those whose turn it is not, as the store did who asked. The caller holds lines.
func (l *line) fail(err error) {
	for s := l.first; s != nil && l.waiting > 0; s = s.next {
		s.call(err)
	}
}

// outlasts says whether who stands at the head of the line is to go on after an error of an asking.
func (s *spot) outlasts(err error) bool {
	lines.Lock()
	defer lines.Unlock()
	return s.line.outlasts(err)
}

// admit tells the line what its semaphore's limit is now: who leaves lets so many go on.
func (s *spot) admit(limit int64) {
	lines.Lock()
	defer lines.Unlock()
	s.line.limit = limit
}

// latest is what those of the line who asked have heard.
func (s *spot) latest() (Answer, error) {
	lines.Lock()
	defer lines.Unlock()
	return s.line.now(), s.line.failed
}

// now is the latest answer that met nobody, as it is now.
func (l *line) now() Answer { return Answer{Left: max(0, time.Until(l.free))} }

// taken reports whether others of this process wait for what c names, and the store has just said that there is no room for them; and what it said.
func taken(s Store, c *Claim) (Answer, bool) {
	lines.Lock()
	defer lines.Unlock()
	l := lines.of[keyOf(s, c)]
	if l == nil || !l.refused || l.failed != nil || time.Since(l.heard) > fresh {
		return Answer{}, false
	}
	return l.now(), true
}

// Behind is how many callers of this process wait for what c names, of which only Name and Limit matter, behind those who stand in the queue of s.
func Behind(s Store, c Claim) int64 {
	lines.Lock()
	defer lines.Unlock()
	if l := lines.of[keyOf(s, &c)]; l != nil {
		return int64(l.waiting)
	}
	return 0
}
