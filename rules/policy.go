package rules

import "time"

// Rule admits Count permits in any window of length Window.
type Rule struct {
	Count  int64
	Window time.Duration
}

// Limit is one directive line: all of its Rules count the same calls of the same id, and a call passes
// if every rule has room for it. A [Concurrency] has a Count in place of rules, and a [Lock] neither.
type Limit struct {
	Kind  Kind
	Rules []Rule
	// Count is the cost of a concurrency's calls in flight, at most [MaxConcurrency], and Per says whose calls those are.
	Count int64
	Per   Per

	Algorithm Algorithm
	// Burst is the depth of a bucket; 0 for each rule's count.
	Burst int64
	// Start says where the windows of a fixed window begin.
	Start Start
	// Refill says how a token bucket gains its tokens.
	Refill Refill
	// Segments is the number of sub-windows of a sliding window, at most [MaxSegments]; 0 for [DefaultSegments]. Of a lock it is
	// the number of locks that its ids share; 0 for one each.
	Segments int64

	// By, Cost and When are Go expressions over the method's parameters, as written; empty where the
	// directive has none.
	By, Cost, When string
	// Free says what a Cost below 1 is.
	Free Free

	// Name is the handle of the limit in errors, metrics and overrides; empty for the default, which
	// [Policy.Name] gives.
	Name string
	// Bucket is shared by the limits that count together; empty for a bucket of the method's own.
	Bucket string
	// Prefix is the first part of the key; empty for [DefaultPrefix].
	Prefix string

	Missing Missing
	OnFail  OnFail
	// Deny is DenyZero on a limit of a method without an error result.
	Deny Deny

	// Charge says which calls are charged, by how they end.
	Charge Charge
	// Lease is how long a hold outlives a process that is gone, in whole milliseconds, [MinLease] to [MaxLease]; 0 for
	// [DefaultLease].
	Lease time.Duration

	// Wait is how long a call waits at most where there is no room for it, and [MaxWait] at most; 0 for not at all. It
	// makes a [LeakyBucket] a queue: see [Limit.Queues].
	Wait time.Duration

	// Ban is how long an id is denied once it has been denied After times within the longest window, in whole microseconds and
	// [MaxBan] at most; 0 for no bans, and then After is 0 too.
	Ban   time.Duration
	After int64

	// Prefetch is how long before their use a process may take permits of the limit, many at once, in whole microseconds: [MaxPrefetch] and half of
	// the shortest window at most; 0 for not at all.
	Prefetch time.Duration

	// Mode says whether the limit denies calls.
	Mode Mode
	// Plan is the plan whose callers the limit is for; empty for all callers. Each plan has its own count.
	Plan string
}

// Queues reports whether the limit is a queue: a leaky bucket with a Wait. It has one rule, and lets each call go on
// when those before it have drained, window/count for each permit; it denies a call that would wait longer than Wait.
func (l *Limit) Queues() bool { return l.Algorithm == LeakyBucket && l.Wait > 0 }

// Whose returns whose calls the limit is about: that of a concurrency is what it is per, a lock's is Key where it has a By,
// and else Global.
func (l *Limit) Whose() Kind {
	switch {
	case l.Kind == Concurrency && int(l.Per) < len(perKinds):
		return perKinds[l.Per]
	case l.Kind == Lock && l.By != "":
		return Key
	case l.Kind == Lock:
		return Global
	}
	return l.Kind
}

var perKinds = []Kind{PerGlobal: Global, PerIP: IP, PerUser: User, PerKey: Key}

// Holds are within these bounds, which are those of package lock.
const (
	MaxConcurrency = 1_000_000
	MinLease       = 10 * time.Millisecond
	MaxLease       = 24 * time.Hour
	DefaultLease   = 30 * time.Second
)

// A ban lasts MaxBan at most, and comes after MaxAfter denials at most.
const (
	MaxBan   = 366 * 24 * time.Hour
	MaxAfter = 100
)

// MaxWait is the longest Wait of a limit.
const MaxWait = 24 * time.Hour

// Policy is what stands over one method: limits that a call must all pass. Its methods do not change it. Those that take
// the index of a limit panic if it is out of range.
type Policy struct {
	// Package is the import path of the package that declares the type.
	Package string
	// Type is the type's name behind its package's name: "orders.Orders".
	Type string
	// Method is the method's name.
	Method string

	Limits []Limit
}

// A sliding window has DefaultSegments sub-windows where no directive says otherwise, and never more than MaxSegments.
const (
	DefaultSegments = 10
	MaxSegments     = 100
)

// Subwindows returns how many sub-windows of which length a sliding window has: segments of them, or [DefaultSegments] if
// that is 0. Their length is rounded up to a microsecond, so that together they are no shorter than the window.
func Subwindows(window time.Duration, segments int64) (n int64, length time.Duration) {
	if segments == 0 {
		segments = DefaultSegments
	}
	d := time.Duration(segments) * time.Microsecond
	return segments, (window + d - 1) / d * time.Microsecond
}

// DefaultPrefix is the first part of a key where no directive names another.
const DefaultPrefix = "rl"
