package memstore

import (
	"context"
	"fmt"
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// Store is a [store.Store] inside the process. It is safe for concurrent use, starts no goroutine and needs no
// closing. The zero Store is not valid; [New] makes one.
type Store struct {
	clock  func() time.Time
	most   int // keys of one shard
	seed   maphash.Seed
	ids    atomic.Uint64
	shards [shardCount]shard
}

// Option configures a [Store].
type Option interface{ apply(*Store) }

type optionFunc func(*Store)

func (f optionFunc) apply(s *Store) { f(s) }

// WithClock makes the store read the time from clock, which may be called concurrently. The default is the
// process's monotonic clock, which no change of the system's time disturbs.
func WithClock(clock func() time.Time) Option {
	return optionFunc(func(s *Store) { s.clock = clock })
}

// DefaultMaxKeys is how many keys a store holds at most unless [WithMaxKeys] says otherwise.
const DefaultMaxKeys = 1 << 20

// WithMaxKeys sets how many keys the store holds at most, 64 or more; the default is [DefaultMaxKeys]. A new key beyond that takes the
// place of one that is about to expire, whose id then has its whole count again: raise it where more ids than that call
// within the longest window.
func WithMaxKeys(n int) Option {
	return optionFunc(func(s *Store) { s.most = max(1, n/shardCount) })
}

// New returns an empty store.
func New(opts ...Option) *Store {
	s := &Store{clock: monotonic(), most: DefaultMaxKeys / shardCount, seed: maphash.MakeSeed()}
	for _, o := range opts {
		o.apply(s)
	}
	return s
}

// monotonic returns a clock that starts at the system's time and moves with the process's monotonic clock.
func monotonic() func() time.Time {
	start := time.Now()
	return func() time.Time { return start.Add(time.Since(start)) }
}

// Take decides one call. It never waits, and fails only if ctx is done or a request is not valid.
func (s *Store) Take(ctx context.Context, requests []store.Request, detail bool, out *store.Outcome) error {
	if err := store.Ended(ctx); err != nil {
		return err
	}
	if err := validate(requests); err != nil {
		return &store.Error{Class: store.Misconfigured, Err: err}
	}
	answers := 0
	for i := range requests {
		answers += len(requests[i].Rules)
	}

	held := s.lock(requests)
	defer held.unlock()
	now := s.clock().UnixMicro()

	*out = store.Outcome{Allowed: true, Rules: make([]store.RuleOutcome, 0, answers)}
	for i := range requests {
		req := &requests[i]
		counts := s.shardOf(req.Key).counts(req, now)
		for _, rule := range req.Rules {
			answer := counts.ask(now, req, rule)
			out.Allowed = out.Allowed && answer.RetryAfter == 0
			out.Rules = append(out.Rules, answer)
		}
	}
	if out.Allowed {
		out.Receipt = s.charge(now, requests, out.Rules)
	} else {
		undelay(out.Rules)
	}
	if detail {
		s.describe(now, requests, out.Rules)
	}
	return nil
}

// charge charges every request.
func (s *Store) charge(now int64, requests []store.Request, answers []store.RuleOutcome) store.Receipt {
	receipt := store.Receipt{Requests: requests, ID: s.ids.Add(1)}
	for i := range requests {
		req := &requests[i]
		delay := answers[0].Delay
		answers = answers[len(req.Rules):]
		if req.Cost == 0 {
			continue
		}
		s.shardOf(req.Key).charge(now, req, receipt.ID, s.most)
		if !stepsOf(req).remembers {
			if receipt.Charges == nil {
				receipt.Charges = make([]store.Charge, len(requests))
			}
			receipt.Charges[i].At, receipt.Charges[i].Delay = now, delay.Microseconds()
		}
	}
	return receipt
}

// undelay takes back what queues have said to a call that another limit denies.
func undelay(answers []store.RuleOutcome) {
	for i := range answers {
		answers[i].Delay = 0
	}
}

// describe sets what remains of each rule and when it is reset.
func (s *Store) describe(now int64, requests []store.Request, answers []store.RuleOutcome) {
	for i := range requests {
		req := &requests[i]
		counts := s.shardOf(req.Key).counts(req, now)
		for j, rule := range req.Rules {
			answers[j].Remaining, answers[j].ResetAfter = counts.describe(now, req, rule)
		}
		answers = answers[len(req.Rules):]
	}
}

// GiveBack returns what receipt charged. It never fails.
func (s *Store) GiveBack(_ context.Context, receipt store.Receipt) error {
	held := s.lock(receipt.Requests)
	defer held.unlock()
	now := s.clock().UnixMicro()
	for i := range receipt.Requests {
		req := &receipt.Requests[i]
		a := admission{cost: req.Cost, id: receipt.ID}
		if receipt.Charges != nil && !stepsOf(req).remembers {
			if receipt.Charges[i].GivenBack.Swap(true) {
				continue
			}
			a.at, a.delay = receipt.Charges[i].At, receipt.Charges[i].Delay
		}
		if e, ok := s.shardOf(req.Key).entries[req.Key]; ok && req.Cost > 0 {
			e.giveBack(now, req, a)
		}
	}
	return nil
}

func validate(requests []store.Request) error {
	for i := range requests {
		if a := requests[i].Algorithm; stepsOf(&requests[i]) == nil {
			return fmt.Errorf("limit %d of the call: algorithm %v, want one that the store has", i+1, a)
		}
	}
	return store.Validate(requests)
}

const shardCount = 64

// shard is one part of the keys behind one mutex.
type shard struct {
	mu      sync.Mutex
	entries map[string]*entry
}

// counts is what a key holds. Its functions depend on nothing else and the arguments.
type counts interface {
	// ask answers one rule of req at now with the retry-after alone, and changes nothing.
	ask(now int64, req *store.Request, rule rules.Rule) store.RuleOutcome
	// describe says what remains of a rule and when it is reset.
	describe(now int64, req *store.Request, rule rules.Rule) (remaining int64, reset time.Duration)
	// charge charges a.cost for every rule of req, and returns when nothing that it charged counts any more.
	charge(now int64, req *store.Request, a admission) (ends int64)
	// giveBack takes back what a charged.
	giveBack(now int64, req *store.Request, a admission)
}

// admission is one charge of a key.
type admission struct {
	at    int64 // µs
	delay int64 // of a queue, µs
	cost  int64
	id    uint64
}

// steps are one way to count.
type steps struct {
	empty     func() counts
	remembers bool // every admission by its id
}

var (
	slidingLogSteps     = &steps{func() counts { return &slidingLog{} }, true}
	slidingWindowSteps  = &steps{func() counts { return &slidingWindow{} }, false}
	fixedWindowSteps    = &steps{func() counts { return &fixedWindow{} }, false}
	bucketSteps         = &steps{newBucket, false}
	intervalBucketSteps = &steps{newIntervalBucket, false}
	queueSteps          = &steps{newQueue, false}
)

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

// entry is one key: what it holds, by which steps, and when nothing of it counts any more.
type entry struct {
	counts
	steps   *steps
	expires int64 // µs
}

// live says whether the entry has anything to say to req.
func (e *entry) live(req *store.Request, now int64) bool {
	return e != nil && e.expires > now && e.steps == stepsOf(req)
}

// counts returns those of req's key at now, which are not to be changed: a key without admissions has no entry.
func (sh *shard) counts(req *store.Request, now int64) counts {
	if e := sh.entries[req.Key]; e.live(req, now) {
		return e.counts
	}
	return stepsOf(req).empty()
}

// charge charges req at now, and drops a few expired entries, so that what is written pays for what is removed.
func (sh *shard) charge(now int64, req *store.Request, id uint64, most int) {
	sh.sweep(now, req.Key, most)
	e := sh.entries[req.Key]
	if !e.live(req, now) {
		if sh.entries == nil {
			sh.entries = make(map[string]*entry)
		}
		steps := stepsOf(req)
		e = &entry{counts: steps.empty(), steps: steps}
		sh.entries[req.Key] = e
	}
	e.expires = max(e.expires, e.charge(now, req, admission{at: now, cost: req.Cost, id: id}))
}

// sweep looks at a few entries, each time others, and drops those that have expired. If the shard is then full and key
// is new to it, it drops the one of them that expires first.
func (sh *shard) sweep(now int64, key string, most int) {
	var first string
	var expires int64
	looked := 0
	for k, e := range sh.entries {
		if e.expires <= now {
			delete(sh.entries, k)
		} else if k != key && (first == "" || e.expires < expires) {
			first, expires = k, e.expires
		}
		if looked++; looked == 8 {
			break
		}
	}
	if _, known := sh.entries[key]; !known && len(sh.entries) >= most {
		delete(sh.entries, first)
	}
}

// Len is the number of keys that the store holds, expired ones that it has not dropped yet included.
func (s *Store) Len() int {
	n := 0
	for i := range s.shards {
		s.shards[i].mu.Lock()
		n += len(s.shards[i].entries)
		s.shards[i].mu.Unlock()
	}
	return n
}

func (s *Store) shardOf(key string) *shard { return &s.shards[s.shardIndex(key)] }

func (s *Store) shardIndex(key string) int {
	return int(maphash.String(s.seed, key) % shardCount)
}

// locked is a set of shards that are locked, in ascending order, so that two calls never wait for each other.
type locked struct {
	store   *Store
	indexes []int
}

func (s *Store) lock(requests []store.Request) locked {
	indexes := make([]int, len(requests))
	for i := range requests {
		indexes[i] = s.shardIndex(requests[i].Key)
	}
	slices.Sort(indexes)
	indexes = slices.Compact(indexes)
	for _, i := range indexes {
		s.shards[i].mu.Lock()
	}
	return locked{s, indexes}
}

func (l locked) unlock() {
	for _, i := range l.indexes {
		l.store.shards[i].mu.Unlock()
	}
}
