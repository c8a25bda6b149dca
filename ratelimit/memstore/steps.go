package memstore

import (
	"time"

	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// counts is what a key holds. Its functions depend on nothing else and the arguments.
type counts interface {
	// ask says of one rule of req at now how long until it has room, and for how long a queue that has delays the call. It changes nothing.
	ask(now int64, req *store.Request, rule rules.Rule) (retryAfter, delay time.Duration)
	// describe says what remains of a rule and when it is reset.
	describe(now int64, req *store.Request, rule rules.Rule) (remaining int64, reset time.Duration)
	// charge charges a.cost for every rule of req, and returns when nothing that it charged counts any more, and what giveBack has to be told.
	charge(now int64, req *store.Request, a admission) (ends, note int64)
	// giveBack takes back what a charged.
	giveBack(now int64, req *store.Request, a admission)
	// grant takes back the last n units that were charged, of every rule of req, as far as there are so many.
	grant(now int64, req *store.Request, n int64)
	// reset forgets everything, and keeps the memory of it.
	reset()
	// fetch reads a little of what ask looks at first, and returns some of it.
	fetch() int64
}

// admission is one charge of a key.
type admission struct {
	at   int64 // µs: when it was made, whatever the time as of which it counts
	note int64 // what charge said of it; to give back only
	cost int64
	id   uint64
}

// steps are one way to count.
type steps struct {
	kind      int               // which of all, 0 to kinds-1
	counts    func() counts     // that hold nothing
	book      func(*shard) book // of a shard that has none yet
	none      counts            // of all keys that hold nothing; never changed
	remembers bool              // every admission by its id
}

// countsOf is the pointers to T that are counts.
type countsOf[T any] interface {
	*T
	counts
}

func newSteps[T any, C countsOf[T]](kind int, remembers bool) *steps {
	return &steps{
		kind:      kind,
		counts:    func() counts { return C(new(T)) },
		book:      func(*shard) book { return new(table[T, C]) },
		none:      C(new(T)),
		remembers: remembers,
	}
}

// withBook makes s count in a book that a shard has from its beginning.
func withBook(s *steps, book func(*shard) book) *steps {
	s.book = book
	return s
}

var (
	bucketSteps         = withBook(newSteps[bucket](0, false), func(sh *shard) book { return &sh.buckets })
	slidingLogSteps     = newSteps[slidingLog](1, true)
	slidingWindowSteps  = newSteps[slidingWindow](2, false)
	fixedWindowSteps    = newSteps[fixedWindow](3, false)
	intervalBucketSteps = newSteps[intervalBucket](4, false)
	queueSteps          = newSteps[queue](5, false)
)

// kinds is how many steps there are.
const kinds = 6

// stepsOf returns the steps by which req counts, nil if the store has none.
func stepsOf(req *store.Request) *steps {
	switch req.Algorithm {
	case rules.SlidingLog, rules.CompactLog:
		return slidingLogSteps
	case rules.SlidingWindow:
		return slidingWindowSteps
	case rules.FixedWindow:
		return fixedWindowSteps
	case rules.TokenBucket:
		if req.Refill == rules.RefillInterval {
			return intervalBucketSteps
		}
		return bucketSteps
	case rules.LeakyBucket:
		if req.Queue {
			return queueSteps
		}
		return bucketSteps
	case rules.GCRA:
		return bucketSteps
	}
	return nil
}
