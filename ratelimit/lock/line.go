package lock

import (
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rlgen/rlgen/ratelimit/store"
)

// line has the callers of this process who wait for a name of a store, or are about to, in the order in which they came. Only the first few of them ask the
// store: it hears as much of a crowd as of its head, and whoever stands behind sends nothing until it is his turn.
type line struct {
	key     lineKey
	row     row   // those whose turn it is, and behind them those whose turn it will be
	late    row   // those who have too little time left to be called while there are others
	callers int   // all of them, and those who have stood and are to stand no more
	waiting int   // those whose turn it is not
	limit   int64 // of the semaphore, as he has it of those who asked who has most; 1 of a lock
	refused bool  // one of those who asked was not met: there is no room for all

	free   time.Time     // when the leases end that are in the way, as the latest answer has it; zero if that is unknown
	heard  time.Time     // when the store last answered; zero if it has not
	took   time.Duration // what an asking takes at least, of late; zero if that is unknown
	failed error         // the latest asking; nil if it was answered
}

// row is callers one behind the other. The zero row is empty.
type row struct{ first, last *spot }

func (r *row) push(s *spot) {
	s.row, s.prev, s.next = r, r.last, nil
	if r.last == nil {
		r.first = s
	} else {
		r.last.next = s
	}
	r.last = s
}

func (r *row) remove(s *spot) {
	if s.prev == nil {
		r.first = s.next
	} else {
		s.prev.next = s.next
	}
	if s.next == nil {
		r.last = s.prev
	} else {
		s.next.prev = s.prev
	}
	s.row, s.prev, s.next = nil, nil, nil
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
	only  *line // one that is not in of, which a caller who is alone need not look into
	spare *line
}{of: map[lineKey]*line{}}

// refusing is how many of lines are refused: mostly none, and then nobody need look for one.
var refusing atomic.Int64

// spot is a caller's place in a line. The zero spot is in none.
type spot struct {
	line       *line
	row        *row // nil where the caller stands in none any more
	prev, next *spot
	cost       int64         // 0 of a lock
	end        time.Time     // of the caller's wait; zero if it has none
	turn       chan struct{} // closed when it is the caller's turn; nil if it is
	waited     bool          // for that
	stood      bool          // in the store's queue
	err        error         // why it never will be
	met        time.Time     // when the asking was sent by which the caller was met, of which the line has not heard; zero if there is none
}

const (
	// ahead is of how many of a line the store is asked at most: so many that the next one stands in the store's queue by when the one before him is met.
	ahead = 8
	// lead is how many times what an asking takes has to be left of a wait, for a caller to be called, and for him not to ask for the last time.
	lead = 2
	// fresh is for how long what the store has said to one of a line is true for those who do not wait.
	fresh = 2 * pollEvery
)

func keyOf(s Store, c *Claim) lineKey { return lineKey{s, c.Name, c.Limit == 0} }

// lineOf returns the line of key, nil if nobody is in one. The caller holds lines.
func lineOf(key lineKey) *line {
	if l := lines.only; l != nil && l.key == key {
		return l
	}
	if len(lines.of) == 0 {
		return nil
	}
	return lines.of[key]
}

// enter takes the last place of the line for c, which waits until end, or without one if that is zero. It reports whether nobody else is in the line.
func (s *spot) enter(of Store, c *Claim, end time.Time) (alone bool) {
	lines.Lock()
	defer lines.Unlock()
	key := keyOf(of, c)
	l := lineOf(key)
	if l == nil {
		if l = lines.spare; l == nil {
			l = &line{}
		}
		lines.spare = nil
		l.key = key
		if lines.only == nil {
			lines.only = l
		} else {
			lines.of[key] = l
		}
	}
	l.callers++
	l.limit = max(1, l.limit, c.Limit)
	s.line, s.cost, s.end = l, c.Cost, end
	l.row.push(s)
	return l.callers == 1
}

// leave gives the place to who stands behind.
func (s *spot) leave() {
	lines.Lock()
	defer lines.Unlock()
	l := s.line
	if s.turn != nil {
		l.waiting--
	}
	s.part()
	met := s.met
	*s = spot{}
	if l.callers--; l.callers > 0 {
		if !met.IsZero() {
			l.answered(met)
		}
		l.proceed()
		return
	}
	if lines.only == l {
		lines.only = nil
	} else {
		delete(lines.of, l.key)
	}
	if l.refused {
		refusing.Add(-1)
	}
	*l = line{}
	lines.spare = l
}

// retire gives the place to who stands behind, as leave does, but the caller goes on to hear what the line hears.
func (s *spot) retire() {
	lines.Lock()
	defer lines.Unlock()
	s.part()
	s.line.proceed()
}

// part takes the caller out of his row. The caller of part holds lines.
func (s *spot) part() {
	if s.row != nil {
		s.row.remove(s)
	}
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

// proceed tells those whose turn it has become: where there is no room for all, they stand in the store's queue in the order in which they came. The caller holds lines.
func (l *line) proceed() {
	s := l.row.first
	for n := l.width(); n > 0 && l.waiting > 0; n-- {
		if s = l.inTime(s); s == nil {
			return
		}
		s.call(nil)
		if !s.lets() {
			return
		}
		s = s.next
	}
}

// inTime returns s, or, where it waits for its turn and has too little time left for that, the first behind it who has enough: what a caller is given who has given up by
// then is of no use to anybody for a while. Where nobody has enough, it is one of those who came last.
func (l *line) inTime(s *spot) *spot {
	for s != nil && s.turn != nil && s.hasty(lead*l.took) {
		next := s.next
		l.row.remove(s)
		l.late.push(s)
		s = next
	}
	if s == nil && l.late.last != nil {
		s = l.late.last
		l.late.remove(s)
		l.row.push(s)
	}
	return s
}

// hasty says whether the caller's wait ends before d has passed.
func (s *spot) hasty(d time.Duration) bool { return !s.end.IsZero() && time.Until(s.end) < d }

// left is how long the caller's wait still lasts, and how long an asking takes.
func (s *spot) left() (left, took time.Duration) {
	lines.Lock()
	defer lines.Unlock()
	if s.end.IsZero() {
		return math.MaxInt64, s.line.took
	}
	return time.Until(s.end), s.line.took
}

// lets says whether the caller, whose turn it is, lets who stands behind him ask, too, where there is room for that in front. It is so once he stands in the store's queue, and
// where both want as much of a semaphore: such may change places on the way.
func (s *spot) lets() bool {
	l := s.line
	return !l.refused || s.stood || l.limit > 1 && s.next != nil && s.next.cost == s.cost
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
	for other := l.row.first; n > 0 && other != s; n-- {
		if !other.lets() {
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

// hear tells the line how an asking ended that began at sent, by one who stands in the store's queue since then where it was not met and queued.
func (s *spot) hear(a Answer, sent time.Time, err error, queued bool) {
	lines.Lock()
	defer lines.Unlock()
	l := s.line
	switch {
	case err == nil:
		l.answered(sent)
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

// answered takes note of an answer to what was asked at sent.
func (l *line) answered(sent time.Time) {
	l.failed, l.heard = nil, time.Now()
	l.takes(l.heard.Sub(sent))
}

// takes takes note of how long an asking took: one that is slow, as when the machine stops, says little of the next.
func (l *line) takes(d time.Duration) {
	if l.took == 0 || d < l.took {
		l.took = d
	} else {
		l.took += (d - l.took) / 4
	}
}

// refuse takes note of an answer that met nobody.
func (l *line) refuse(a Answer) {
	if !l.refused {
		refusing.Add(1)
	}
	l.refused, l.free = true, time.Time{}
	if a.Left > 0 {
		l.free = l.heard.Add(a.Left)
	}
}

// outlasts says whether an error of the store's may pass before it forgets who waits.
func (l *line) outlasts(err error) bool { return passing(err) && time.Since(l.heard) <= WaiterLife }

// fail fails those whose turn it is not, as the store did who asked. The caller holds lines.
func (l *line) fail(err error) {
	for _, r := range []row{l.row, l.late} {
		for s := r.first; s != nil; s = s.next {
			s.call(err)
		}
	}
}

// outlasts says whether who stands at the head of the line is to go on after an error of an asking.
func (s *spot) outlasts(err error) bool {
	lines.Lock()
	defer lines.Unlock()
	return s.line.outlasts(err)
}

// admit tells the line what the caller has for its semaphore's limit now: who leaves lets so many go on, or as many as another of the line has it.
func (s *spot) admit(limit int64) {
	lines.Lock()
	defer lines.Unlock()
	s.line.limit = max(s.line.limit, limit)
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
	if refusing.Load() == 0 {
		return Answer{}, false
	}
	lines.Lock()
	defer lines.Unlock()
	l := lineOf(keyOf(s, c))
	if l == nil || !l.refused || l.failed != nil || time.Since(l.heard) > fresh {
		return Answer{}, false
	}
	return l.now(), true
}

// Awaited says whether others of this process, of whom one at least may stand in the queue of s, wait for what c names, of which only Name and Limit matter.
func Awaited(s Store, c Claim) bool {
	if refusing.Load() == 0 {
		return false
	}
	lines.Lock()
	defer lines.Unlock()
	l := lineOf(keyOf(s, &c))
	return l != nil && l.refused
}

// Behind is how many callers of this process wait for what c names, of which only Name and Limit matter, behind those who stand in the queue of s.
func Behind(s Store, c Claim) int64 {
	lines.Lock()
	defer lines.Unlock()
	if l := lineOf(keyOf(s, &c)); l != nil {
		return int64(l.waiting)
	}
	return 0
}
