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
//	compact-log  a string of 6 bytes for each call; from 23 calls on with room for 20 and an eighth more; rounded up
//	             by the allocator
//	buckets, fixed-window
//	             a string with an entry for each rule
//	sliding-window
//	             the same, and in each entry the counts of the sub-windows, in digits with a comma between them; there are
//	             most digits where the count is spread evenly
const (
	bytesPerKey       = 64 // besides the key's own text
	bytesPerListed    = 27
	maxListed         = 128 // zset-max-listpack-entries
	bytesPerSkipped   = 102
	bytesPerSkipList  = 1200
	bytesPerPointer   = 8
	bytesPerPacked    = 8
	maxWhole          = 22 // that a compact log keeps without room for more
	bytesPerRoomy     = 9
	bytesOfRoom       = 250
	bytesPerBucket    = 64
	bytesPerLong      = 80 // a string of more than 44 bytes stands apart from its object
	bytesPerFixed     = 64
	bytesPerSliding   = 56 // besides the counts
	bytesOfAnID       = 64 // past which an id becomes a hash
	bytesOfAnIPPrefix = 40
)

// bytesPerID returns the most memory that limit i of a policy takes in Redis for one id, all of its count used; 0 where
// nobody measured the algorithm.
func bytesPerID(p *rules.Policy, i int) int64 {
	l := &p.Limits[i]
	key := bytesPerKey + keyLength(p, i)
	switch l.Algorithm {
	case rules.CompactLog:
		if calls := mostCalls(l); calls > maxWhole {
			return key + bytesOfRoom + bytesPerRoomy*calls
		}
		return key + bytesPerPacked*(mostCalls(l)+2)
	case rules.SlidingLog:
		calls := mostCalls(l)
		if calls <= maxListed {
			return key + bytesPerListed*calls
		}
		pointers := int64(1) << bits.Len64(uint64(calls-1))
		return key + bytesPerSkipList + bytesPerSkipped*calls + bytesPerPointer*pointers
	case rules.FixedWindow:
		return key + bytesPerLong + bytesPerFixed*int64(len(l.Rules))
	case rules.SlidingWindow:
		bytes := int64(0)
		for _, r := range l.Rules {
			segments, _ := rules.Subwindows(r.Window, l.Segments)
			bytes += bytesPerSliding + digitsOf(r.Count, segments+1)
		}
		return key + bytesPerLong + bytes + bytes/4 // which the allocator rounds up
	case rules.TokenBucket, rules.LeakyBucket, rules.GCRA:
		return key + bytesPerBucket*int64(len(l.Rules))
	}
	return 0
}

// mostCalls returns what a log of l holds: the longest window has the largest count, and all of the others' calls in it.
func mostCalls(l *rules.Limit) int64 {
	calls := int64(0)
	for _, r := range l.Rules {
		calls = max(calls, r.Count)
	}
	return calls
}

// digitsOf returns how many digits some numbers have at most that are count together, and commas behind them.
func digitsOf(count, numbers int64) int64 {
	most := numbers
	for least := int64(1); least <= count; least *= 10 {
		most += min(numbers, count/least) // no more than these are as large as least
	}
	return most
}

// keyLength returns the length of limit i's key with the longest id.
func keyLength(p *rules.Policy, i int) int64 {
	template := p.KeyTemplate(i)
	open, end := strings.IndexByte(template, '<'), strings.IndexByte(template, '>')
	if open < 0 || end < open {
		return int64(len(template))
	}
	id := bytesOfAnID
	if p.Limits[i].Whose() == rules.IP {
		id = bytesOfAnIPPrefix
	}
	return int64(len(template) - (end + 1 - open) + id)
}
