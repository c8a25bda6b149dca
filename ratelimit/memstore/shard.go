package memstore

import "sync"

const shardCount = 64

// shard is one part of the keys behind one mutex.
type shard struct {
	mu      sync.Mutex
	names   uint64 // admissions that it has named
	tended  int64  // when keys were last looked at for having expired, µs
	buckets table[bucket, *bucket]
	books   [kinds]book      // of the keys, by the kinds of their steps, that of buckets too; nil where there are none yet
	doors   map[string]*door // of keys whose limits have bans, and that have been denied
	_       [40]byte         // two shards share no cache line
}

// book is the keys that count by the same steps.
type book interface {
	len() int
	// get returns what a key holds and when nothing of it counts any more, nil if it is not there.
	get(hash uint64, key string) (counts, *int64)
	// put adds a key that is not there, and returns what get does.
	put(hash uint64, key string) (counts, *int64)
	// sweep looks at the next n keys, and drops those that have expired.
	sweep(now int64, n int)
	// evict drops that one of the next few keys which expires first. There must be one.
	evict()
}

// name returns the name of an admission that no other shard, of which this one is number index, gives.
func (sh *shard) name(index int) uint64 {
	sh.names++
	return sh.names*shardCount + uint64(index)
}

// book returns the keys that count by steps.
func (sh *shard) book(steps *steps) book {
	if sh.books[steps.kind] == nil {
		sh.books[steps.kind] = steps.book(sh)
	}
	return sh.books[steps.kind]
}

// fresh adds a key, and returns what it holds, which is nothing yet. What is written pays for what is removed.
func (sh *shard) fresh(now int64, hash uint64, key string, steps *steps, most int) (counts, *int64) {
	b := sh.book(steps)
	sh.sweep(now, looksNew)
	if sh.len() >= most {
		sh.evict(b)
	}
	return b.put(hash, key)
}

// looksNew is how many keys are looked at for a new one, which are expired for the most part where keys come once and never again.
const looksNew = 4

// tend looks at a key of each kind, or at a few slots that are free, once in a while: where only ids call that are known, there are no new keys to pay.
func (sh *shard) tend(now int64) {
	if uint64(now-sh.tended) >= tendEvery { // a clock that was set back is far away
		sh.sweep(now, 1)
	}
}

// tendEvery is in µs: all shards then look at 64,000 keys of each kind in a second at most, which takes half a percent of a processor's time.
const tendEvery = 1000

// sweep drops those of the next n keys of each kind that have expired.
func (sh *shard) sweep(now int64, n int) {
	sh.tended = now
	for _, b := range sh.books {
		if b != nil {
			b.sweep(now, n)
		}
	}
}

// evict drops a key, of another kind if b has none.
func (sh *shard) evict(b book) {
	for _, other := range sh.books {
		if b.len() == 0 && other != nil {
			b = other
		}
	}
	b.evict()
}

func (sh *shard) len() (n int) {
	for _, b := range sh.books {
		if b != nil {
			n += b.len()
		}
	}
	return n
}
