package memstore

import "sync"

const shardCount = 64

// shard is one part of the keys behind one mutex.
type shard struct {
	mu     sync.Mutex
	table                   // of all entries, by their keys
	all    []*entry         // in any order
	hand   int              // where in all the next look is
	names  uint64           // admissions that it has named
	spares []*entry         // some that are used no more, for new keys
	doors  map[string]*door // of keys whose limits have bans, and that have been denied
	_      [16]byte         // two shards share no cache line
}

// entry is one key: what it holds, by which steps, and when nothing of it counts any more. It is in one piece with its first counts, and a bucket's with all
// that it holds, so that a call which finds it has to fetch little more.
type entry struct {
	key string
	counts
	steps   *steps
	expires int64 // µs
	hash    uint64
}

// name returns the name of an admission that no other shard, of which this one is number index, gives.
func (sh *shard) name(index int) uint64 {
	sh.names++
	return sh.names*shardCount + uint64(index)
}

// charge charges the request at now, and drops a few expired entries, so that what is written pays for what is removed. It
// returns what giving back has to be told.
func (p *place) charge(now int64, id uint64, most int) int64 {
	if p.entry == nil {
		p.entry = p.shard.fresh(now, p.hash, p.req.Key, p.steps, most)
	} else if p.shard.names%looksNew == 0 {
		p.shard.sweep(now, 1)
	}
	e := p.entry
	ends, note := e.charge(now, p.req, admission{at: now, cost: p.req.Cost, id: id})
	e.expires = max(e.expires, ends)
	return note
}

// fresh returns an entry of key that holds nothing.
func (sh *shard) fresh(now int64, hash uint64, key string, steps *steps, most int) *entry {
	e := sh.get(hash, key)
	if e == nil {
		sh.sweep(now, looksNew)
		if len(sh.all) >= most {
			sh.evict()
		}
		if e = sh.spare(); e == nil {
			e = steps.entry()
			e.steps = steps
		}
		e.key, e.hash = key, hash
		sh.put(e)
		sh.all = append(sh.all, e)
	}
	if e.steps == steps {
		e.reset()
	} else {
		e.counts, e.steps = steps.entry().counts, steps
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
				e.key = ""
				sh.spares = append(sh.spares, e)
			}
		} else {
			sh.hand++
		}
	}
}

// mostSpares bounds the memory that entries have which are used no more.
const mostSpares = 16

// spare returns an entry that is used no more, nil if there is none.
func (sh *shard) spare() *entry {
	last := len(sh.spares) - 1
	if last < 0 {
		return nil
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
	sh.remove(sh.all[at])
	sh.all[at], sh.all[last] = sh.all[last], nil
	sh.all = sh.all[:last]
}
