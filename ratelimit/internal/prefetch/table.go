package prefetch

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rlgen/rlgen/ratelimit/store"
)

const (
	setCount = 256
	ways     = 4

	// MaxKeys is of how many keys a store takes permits ahead at most: those that are called most often, mostly.
	MaxKeys = setCount * ways
)

// set is the pools of the keys of some hashes. It is read without a lock.
type set struct {
	pools [ways]atomic.Pointer[pool]
	seen  atomic.Uint64 // the hash of the latest key that has no pool

	mu sync.Mutex // of who adds one
}

// pool returns that of a request's limit and key; nil for a key that is not called twice in a row by those of its set, or where there is no place.
func (s *Store) pool(req *store.Request, now time.Time) *pool {
	hash := maphash.String(s.seed, req.Key)
	set := &s.sets[hash%setCount]
	if p := set.find(hash, req); p != nil {
		return p
	}
	if set.seen.Swap(hash) != hash {
		return nil
	}
	return s.add(set, hash, req, now)
}

func (set *set) find(hash uint64, req *store.Request) *pool {
	for i := range set.pools {
		if p := set.pools[i].Load(); p != nil && p.hash == hash && p.of(req) {
			return p
		}
	}
	return nil
}

// add makes a pool, in a free place or in that of one that is idle.
func (s *Store) add(set *set, hash uint64, req *store.Request, now time.Time) *pool {
	set.mu.Lock()
	defer set.mu.Unlock()
	if p := set.find(hash, req); p != nil {
		return p
	}
	for i := range set.pools {
		if old := set.pools[i].Load(); old != nil && !old.retire(now) {
			continue
		}
		p := &pool{store: s, hash: hash, limit: *req, pace: newPace(req)}
		set.pools[i].Store(p)
		return p
	}
	return nil
}

// pools returns those of a key, by whatever rules.
func (s *Store) pools(key string) (pools []*pool) {
	set := &s.sets[maphash.String(s.seed, key)%setCount]
	for i := range set.pools {
		if p := set.pools[i].Load(); p != nil && p.limit.Key == key {
			pools = append(pools, p)
		}
	}
	return pools
}
