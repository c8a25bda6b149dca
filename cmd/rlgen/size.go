package main

import (
	"math/bits"
	"slices"
	"strings"

	"github.com/rlgen/rlgen/rules"
)

// What Redis needs, by MEMORY USAGE key SAMPLES 0 of Redis 7.0 on 64 bits with jemalloc; TestBytesPerID asks again.
//
//	sliding-log  a set that has never had more than 128 permits is a listpack, 22 to 27 bytes each. Others are a skip
//	             list, whose levels are drawn by lot, 94 to 102 bytes each, and 16 more where a call may take several; and a
//	             table of pointers, a power of two of them, beside the one before it for as long as it moves. A call is added
//	             before those that have left the window are dropped
//	compact-log  a string of 6 bytes for each call; from 23 calls on with room for 20 and an eighth more; rounded up
//	             by the allocator
//	buckets, fixed-window
//	             a string with an entry for each rule; that of a bucket whose calls may be given back says what was charged since it was full
//	sliding-window
//	             the same, and in each entry the counts of the sub-windows, in digits with a comma between them; there are
//	             most digits where the count is spread evenly. With prefetch=, those to come count as well, and a bucket
//	             has the time as of which it was charged
//	a ban        beside the limit a string of another key, with the times of all denials but the last
const (
	bytesPerKey       = 64 // besides the key's own text
	bytesPerListed    = 27
	maxListed         = 128 // zset-max-listpack-entries
	bytesPerSkipped   = 102
	bytesPerNumber    = 16 // which the later permits of a call have in their names
	bytesPerSkipList  = 1200
	bytesPerPointer   = 8
	bytesPerPacked    = 8
	maxWhole          = 22 // that a compact log keeps without room for more
	bytesPerRoomy     = 9
	bytesOfRoom       = 250
	bytesPerBucket    = 64
	bytesPerReturned  = 32 // what was charged since the bucket was full, which may be long, and often
	bytesPerAhead     = 24 // the time as of which permits were taken ahead
	bytesPerLong      = 80 // a string of more than 44 bytes stands apart from its object
	bytesPerFixed     = 64
	bytesPerSliding   = 56 // besides the counts
	bytesPerDenial    = 17
	bytesOfBanKey     = 7  // besides the prefix and the limit's key
	bytesOfBan        = 7  // besides the denials
	bytesOfAnID       = 64 // past which an id becomes a hash
	bytesOfAnIPPrefix = 40
)

// bytesPerID returns the most memory that limit i of a policy takes in Redis for one id, all of its count used; 0 where
// nobody measured the algorithm.
func bytesPerID(p *rules.Policy, i int) int64 {
	bytes := bytesOfLimit(p, i)
	if l := &p.Limits[i]; l.Ban > 0 {
		prefix, _, _ := strings.Cut(p.KeyTemplate(i), ":")
		text := bytesOfBan + bytesPerDenial*max(1, l.After-1)
		bytes += bytesPerKey + int64(len(prefix)) + bytesOfBanKey + keyLength(p, i) + text + text/4 // which the allocator rounds up
	}
	return bytes
}

// bytesOfLimit returns the most memory of the limit's own key.
func bytesOfLimit(p *rules.Policy, i int) int64 {
	l := &p.Limits[i]
	key := bytesPerKey + keyLength(p, i)
	switch l.Algorithm {
	case rules.CompactLog:
		if calls := mostCalls(l); calls > maxWhole {
			return key + bytesOfRoom + bytesPerRoomy*calls
		}
		return key + bytesPerPacked*(mostCalls(l)+2)
	case rules.SlidingLog:
		return key + bytesOfSet(mostCalls(l), largestCall(l))
	case rules.FixedWindow:
		return key + bytesPerLong + bytesPerFixed*int64(len(l.Rules))
	case rules.SlidingWindow:
		bytes := int64(0)
		for _, r := range l.Rules {
			segments, _ := rules.Subwindows(r.Window, l.Segments)
			ahead := (int64(l.Prefetch)*segments + int64(r.Window) - 1) / int64(r.Window) // sub-windows to come that count, too
			bytes += bytesPerSliding + digitsOf(r.Count, segments+1+ahead)
		}
		return key + bytesPerLong + bytes + bytes/4 // which the allocator rounds up
	case rules.TokenBucket, rules.LeakyBucket, rules.GCRA:
		each := int64(bytesPerBucket)
		if l.Refill == rules.RefillSmooth && !l.Queues() && returns(p, i) {
			each += bytesPerReturned
		}
		if l.Prefetch > 0 {
			each += bytesPerAhead
		}
		return key + each*int64(len(l.Rules))
	}
	return 0
}

// returns says whether calls of a limit may be given back some time after they were charged: for how they end, because what was taken ahead was not used, or
// because they wait for another limit's queue, or for what it holds, in vain.
func returns(p *rules.Policy, i int) bool {
	l := &p.Limits[i]
	return l.Charge != rules.ChargeAlways || l.Prefetch > 0 || slices.ContainsFunc(p.Limits, func(l rules.Limit) bool { return l.Queues() || l.Kind.Holds() })
}

// bytesOfSet returns the bytes of a sorted set of permits that a call of several joins before as many leave.
func bytesOfSet(permits, joining int64) int64 {
	if permits+joining <= maxListed {
		return bytesPerListed * permits
	}
	each := int64(bytesPerSkipped)
	if joining > 1 {
		each += bytesPerNumber
	}
	pointers := int64(1) << bits.Len64(uint64(permits+joining-1))
	return bytesPerSkipList + each*permits + bytesPerPointer*(pointers+pointers/2)
}

// largestCall returns the most permits that are taken of l at once: another method may be what calls a bucket, and what is
// taken ahead is taken for many calls.
func largestCall(l *rules.Limit) int64 {
	if l.Cost == "" && l.Bucket == "" && l.Prefetch == 0 {
		return 1
	}
	return mostCalls(l)
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
