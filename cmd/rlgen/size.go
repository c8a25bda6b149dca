package main

import (
	"math/bits"
	"strings"

	"github.com/rlgen/rlgen/rules"
)

// What Redis needs, by MEMORY USAGE key SAMPLES 0 of Redis 7.0 on 64 bits with jemalloc; TestBytesPerID asks again.
//
//	sliding-log  a set of n calls is a listpack up to 128 of them, 22 to 27 bytes each, and from then on a
//	             skip list, whose levels are drawn by lot, 94 to 102 bytes each, and a table of pointers, a power of
//	             two of them
//	buckets      a string with an entry for each rule
const (
	bytesPerKey       = 64 // besides the key's own text
	bytesPerListed    = 27
	maxListed         = 128 // zset-max-listpack-entries
	bytesPerSkipped   = 102
	bytesPerSkipList  = 1200
	bytesPerPointer   = 8
	bytesPerBucket    = 64
	bytesOfAnID       = 64 // past which an id becomes a hash
	bytesOfAnIPPrefix = 40
)

// bytesPerID returns the most memory that limit i of a policy takes in Redis for one id, all of its count used; 0 where
// nobody measured the algorithm.
func bytesPerID(p *rules.Policy, i int) int64 {
	l := &p.Limits[i]
	key := bytesPerKey + keyLength(p, i)
	switch l.Algorithm {
	case rules.SlidingLog:
		calls := int64(0) // the longest window has the largest count, and all of the others' calls in it
		for _, r := range l.Rules {
			calls = max(calls, r.Count)
		}
		if calls <= maxListed {
			return key + bytesPerListed*calls
		}
		pointers := int64(1) << bits.Len64(uint64(calls-1))
		return key + bytesPerSkipList + bytesPerSkipped*calls + bytesPerPointer*pointers
	case rules.TokenBucket, rules.LeakyBucket, rules.GCRA:
		return key + bytesPerBucket*int64(len(l.Rules))
	}
	return 0
}

// keyLength returns the length of limit i's key with the longest id.
func keyLength(p *rules.Policy, i int) int64 {
	template := p.KeyTemplate(i)
	open, end := strings.IndexByte(template, '<'), strings.IndexByte(template, '>')
	if open < 0 || end < open {
		return int64(len(template))
	}
	id := bytesOfAnID
	if p.Limits[i].Kind == rules.IP {
		id = bytesOfAnIPPrefix
	}
	return int64(len(template) - (end + 1 - open) + id)
}
