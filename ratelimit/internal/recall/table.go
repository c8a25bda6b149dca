// Package recall remembers, in little and bounded memory, what was lately let through and denied under the keys of
// limits.
package recall

import (
	"hash/maphash"
	"sync"
	"time"

	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

const (
	shardCount = 64
	shardKeys  = 256
	ways       = 4 // records in which a key may be

	// MaxKeys is how many keys a [Table] remembers at most.
	MaxKeys = shardCount * shardKeys
	// MaxRules is how many rules of a key it remembers: the first ones.
	MaxRules = 3

	parts = 7 // of a window, whose permits are counted together
)

// Table remembers keys. It takes about 5 MB at most, and less while there are few keys; a key for which there is no room takes the
// place of one that was not heard of for longer. Its times are those since an instant of the caller's choice, and the
// rules of a key are always the same ones.
//
// It is safe for concurrent use, and allocates nothing for a key. The zero Table is not valid; [New] makes one.
type Table struct {
	seed   maphash.Seed
	shards [shardCount]shard
}

type shard struct {
	mu      sync.Mutex
	records []Record // none before the first key
}

// New returns an empty table.
func New() *Table { return &Table{seed: maphash.MakeSeed()} }

// Record is what a [Table] knows of one key. The zero Record knows nothing.
type Record struct {
	key   uint64 // its hash
	heard time.Duration
	cost  int64 // that was denied
	rules [MaxRules]trail
}

// trail is what is known of one rule: what was let through, by the part of the window in which it was, and until when the rule denies
// the record's cost.
type trail struct {
	last  int64 // the latest part in which something was
	until time.Duration
	parts [parts + 1]sum // that of part p at p modulo their number
}

// sum is the permits of one part, and when the last of them was let through, in ticks since the part began.
type sum struct{ permits, at uint32 }

// Admit takes note that req was let through at now.
func (t *Table) Admit(now time.Duration, req *store.Request) {
	if req.Cost > 0 {
		t.update(now, req.Key, true, func(r *Record) { r.admit(now, req) })
	}
}

// Settle takes note at now that the store was told of cost of req, which was let through age ago: by rule i, or by each that still sees it where i is negative.
func (t *Table) Settle(now time.Duration, req *store.Request, i int, cost int64, age time.Duration) {
	t.update(now, req.Key, true, func(r *Record) {
		for j, rule := range remembered(req) {
			if i == j || i < 0 && age < rule.Window {
				r.rules[j].admit(max(0, now-age), rule, cost)
			}
		}
	})
}

// Deny takes note that req was denied at now, by the rules whose answers say so.
func (t *Table) Deny(now time.Duration, req *store.Request, answers []store.RuleOutcome) {
	t.update(now, req.Key, true, func(r *Record) { r.deny(now, req, answers) })
}

// GiveBack takes note that a request that was let through is given back at now. What denied others may then let them pass.
func (t *Table) GiveBack(now time.Duration, req *store.Request) {
	t.update(now, req.Key, false, func(r *Record) { r.giveBack(req) })
}

// Forget forgets what is known of a key.
func (t *Table) Forget(key string) {
	t.update(0, key, false, func(r *Record) { *r = Record{key: r.key, heard: r.heard} })
}

// Get returns what is known of a key.
func (t *Table) Get(key string) (got Record) {
	t.update(0, key, false, func(r *Record) { got = *r })
	return got
}

// update calls f with the record of a key, where there is one or makes says to make it.
func (t *Table) update(now time.Duration, key string, makes bool, f func(*Record)) {
	hash := max(1, maphash.String(t.seed, key)) // 0 is no key's
	sh := &t.shards[hash%shardCount]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.records == nil {
		if !makes {
			return
		}
		sh.records = make([]Record, shardKeys)
	}
	set := hash / shardCount % (shardKeys / ways) * ways
	r := find(sh.records[set:set+ways], hash)
	if r.key != hash {
		if !makes {
			return
		}
		*r = Record{key: hash}
	}
	r.heard = max(r.heard, now)
	f(r)
}

// find returns the record of hash, or else the one whose place it takes.
func find(set []Record, hash uint64) *Record {
	oldest := &set[0]
	for i := range set {
		r := &set[i]
		if r.key == hash {
			return r
		}
		if r.key == 0 || oldest.key != 0 && r.heard < oldest.heard {
			oldest = r
		}
	}
	return oldest
}

func (r *Record) admit(now time.Duration, req *store.Request) {
	for i, rule := range remembered(req) {
		if req.Cost >= r.cost {
			r.rules[i].until = 0
		}
		r.rules[i].admit(now, rule, req.Cost)
	}
}

// deny keeps what is known of a smaller cost, as long as it denies that.
func (r *Record) deny(now time.Duration, req *store.Request, answers []store.RuleOutcome) {
	for i := range r.rules {
		if r.rules[i].until > now && r.cost < req.Cost {
			return
		}
	}
	r.cost = req.Cost
	for i := range remembered(req) {
		r.rules[i].until = 0
		if retry := answers[i].RetryAfter; retry > 0 && retry < store.Never-now {
			r.rules[i].until = now + retry
		}
	}
}

func (r *Record) giveBack(req *store.Request) {
	for i := range remembered(req) {
		r.rules[i].until = 0
		r.rules[i].giveBack(req.Cost)
	}
}

// Add counts cost of req in r alone, and not in the table that it is of, as let through at now.
func (r *Record) Add(now time.Duration, req *store.Request, cost int64) {
	for i, rule := range remembered(req) {
		r.rules[i].admit(now, rule, cost)
	}
}

// Binds says whether anything is known of the key that counts at now against one of its rules.
func (r *Record) Binds(now time.Duration, of []rules.Rule) bool {
	for i, rule := range of[:min(MaxRules, len(of))] {
		if r.rules[i].until > now || r.Used(now, i, rule) > 0 {
			return true
		}
	}
	return false
}

func remembered(req *store.Request) []rules.Rule { return req.Rules[:min(MaxRules, len(req.Rules))] }

// Denied is for how much longer, from now on, rule i denies cost, as far as is known.
func (r *Record) Denied(now time.Duration, i int, cost int64) time.Duration {
	if i >= MaxRules || cost < r.cost || cost == 0 {
		return 0
	}
	return max(0, r.rules[i].until-now)
}

// Used is how many permits rule, the i-th of the key, has let through in its window that ends now: never fewer than were
// noted, and no more than in a window that is a seventh longer. Permits count together with the next ones of the same seventh.
func (r *Record) Used(now time.Duration, i int, rule rules.Rule) (used int64) {
	if i < MaxRules {
		r.rules[i].each(rule, func(s sum, ends time.Duration) {
			if ends > now {
				used += int64(s.permits)
			}
		})
	}
	return used
}

// Frees is how long it takes, from now on, until at most left of what [Record.Used] counts are still in the window.
func (r *Record) Frees(now time.Duration, i int, rule rules.Rule, left int64) (wait time.Duration) {
	excess := r.Used(now, i, rule) - left
	if excess <= 0 {
		return 0
	}
	r.rules[i].each(rule, func(s sum, ends time.Duration) {
		if ends > now && excess > 0 {
			excess -= int64(s.permits)
			wait = ends - now
		}
	})
	return wait
}

// length is that of a part of rule's windows: seven are no shorter than a window.
func length(rule rules.Rule) time.Duration { return (rule.Window + parts - 1) / parts }

// tick is the unit in which times within a part are kept.
func tick(rule rules.Rule) time.Duration { return length(rule)>>32 + 1 }

func part(now time.Duration, rule rules.Rule) int64 { return int64(now / length(rule)) }

// each calls f for what was in the parts, the oldest first, and when it has left the window.
func (t *trail) each(rule rules.Rule, f func(s sum, ends time.Duration)) {
	for p := max(0, t.last-parts); p <= t.last; p++ {
		if s := t.parts[p%int64(len(t.parts))]; s.permits > 0 {
			f(s, time.Duration(p)*length(rule)+time.Duration(s.at)*tick(rule)+rule.Window)
		}
	}
}

func (t *trail) admit(at time.Duration, rule rules.Rule, cost int64) {
	p := max(part(at, rule), t.last-parts, 0)
	t.move(p)
	s := &t.parts[p%int64(len(t.parts))]
	s.permits = uint32(min(int64(s.permits)+cost, 1<<32-1))
	if since := at - time.Duration(p)*length(rule); since > 0 {
		s.at = max(s.at, uint32((since+tick(rule)-1)/tick(rule)))
	}
}

// giveBack takes cost out of the latest parts.
func (t *trail) giveBack(cost int64) {
	for p := t.last; p >= max(0, t.last-parts) && cost > 0; p-- {
		s := &t.parts[p%int64(len(t.parts))]
		back := min(cost, int64(s.permits))
		s.permits -= uint32(back)
		cost -= back
	}
}

// move makes p the latest part, where it is not behind the latest already.
func (t *trail) move(p int64) {
	for steps := 0; t.last < p && steps < len(t.parts); steps++ {
		t.last++
		t.parts[t.last%int64(len(t.parts))] = sum{}
	}
	t.last = max(t.last, p)
}
