package memstore

import "sync"

const shardCount = 64

// shard is one part of the keys behind one mutex.
type shard struct {
	mu      sync.Mutex
	entries map[uint64]*entry // by the hashes of their keys; the first one of a hash
	all     []*entry          // all entries, in any order
	hand    int               // where in all the next look is
	names   uint64            // admissions that it has named
	spares  []*entry          // some that are used no more, for new keys
	doors   map[string]*door  // of keys whose limits have bans, and that have been denied
	_       [24]byte          // two shards share no cache line
}

// entry is one key: what it holds, by which steps, and when nothing of it counts any more.
type entry struct {
	counts
	key     string
	hash    uint64
	next    *entry // of another key of the same hash
	steps   *steps
	expires int64 // µs
}

// name returns the name of an admission that no other shard, of which this one is number index, gives.
func (sh *shard) name(index int) uint64 {
	sh.names++
	return sh.names*shardCount + uint64(index)
}

// charge charges the request at now, and drops a few expired entries, so that what is written pays for what is removed.
func (p *place) charge(now int64, id uint64, most int) {
	if p.entry == nil {
		p.entry = p.shard.fresh(now, p.hash, p.req.Key, p.steps, most)
	} else if p.shard.names%looksNew == 0 {
		p.shard.sweep(now, 1)
	}
	e := p.entry
	e.expires = max(e.expires, e.charge(now, p.req, admission{at: now, cost: p.req.Cost, id: id}))
}

// get returns the entry of a key, nil if there is none.
func (sh *shard) get(hash uint64, key string) *entry {
	e := sh.entries[hash]
	for e != nil && e.key != key {
		e = e.next
	}
	return e
}

// unlink takes an entry out of those of its hash.
func (sh *shard) unlink(e *entry) {
	first := sh.entries[e.hash]
	switch {
	case first != e:
		for first.next != e {
			first = first.next
		}
		first.next = e.next
	case e.next != nil:
		sh.entries[e.hash] = e.next
	default:
		delete(sh.entries, e.hash)
	}
}

// fresh returns an entry of key that holds nothing.
func (sh *shard) fresh(now int64, hash uint64, key string, steps *steps, most int) *entry {
	e := sh.get(hash, key)
	if e == nil {
		sh.sweep(now, looksNew)
		if len(sh.all) >= most {
			sh.evict()
		}
		if sh.entries == nil {
			sh.entries = make(map[uint64]*entry)
		}
		e = sh.spare()
		e.key, e.hash, e.next = key, hash, sh.entries[hash]
		sh.entries[hash] = e
		sh.all = append(sh.all, e)
	}
	if e.steps == steps {
		e.reset()
	} else {
		e.counts, e.steps = steps.empty(), steps
	}
	e.expires = 0
	return e
}

// looksNew is how many entries are looked at for a new key, which are expired for the most part where keys come once and never again.
const looksNew = 4

// sweep looks at the next n entries, and drops those that have expired.
func (sh *shard) sweep(now int64, n int) {
	for range min(n, len(sh.all)) {
		if sh.hand >= len(sh.all) {
			sh.hand = 0
		}
		if e := sh.all[sh.hand]; e.expires <= now {
			sh.drop(sh.hand)
			if len(sh.spares) < mostSpares {
				e.key, e.next = "", nil
				sh.spares = append(sh.spares, e)
			}
		} else {
			sh.hand++
		}
	}
}

// mostSpares bounds the memory that entries have which are used no more.
const mostSpares = 16

// spare returns an entry that is used no more, a new one if there is none.
func (sh *shard) spare() *entry {
	last := len(sh.spares) - 1
	if last < 0 {
		return new(entry)
	}
	e := sh.spares[last]
	sh.spares[last] = nil
	sh.spares = sh.spares[:last]
	return e
}

// evict drops that one of the next few entries which expires first.
func (sh *shard) evict() {
	first := sh.hand % len(sh.all)
	for range min(2*looksNew, len(sh.all)) {
		sh.hand = (sh.hand + 1) % len(sh.all)
		if sh.all[sh.hand].expires < sh.all[first].expires {
			first = sh.hand
		}
	}
	sh.drop(first)
}

// drop removes the entry at a place in all.
func (sh *shard) drop(at int) {
	last := len(sh.all) - 1
	sh.unlink(sh.all[at])
	sh.all[at], sh.all[last] = sh.all[last], nil
	sh.all = sh.all[:last]
}
