// Package rules is the language of rate limits: what a directive says, as text and as data.
//
// A directive is a comment of one line on a method, or on a type for all of its methods:
//
//	//ratelimit:user 10,1s 100,1m
//	//ratelimit:key 5000,24h by=req.Customer cost=len(req.Items)
//	//ratelimit:global 5000,1s onfail=closed
//
// Each is one [Limit]: whose calls it counts (its [Kind]), one or more rules that all must have room, and
// options. The limits over one method are a [Policy].
//
// # Reading and writing
//
// [Match] tells directives from prose, and from comments that were meant as directives and that nothing would
// heed: "// ratelimit:user", "//ratelimit:User". [Parse] reads a directive or reports all of its problems
// with their columns. A [Directive] and a [Limit] print in one canonical form, which Parse reads back as the same
// value. [Policy.Validate] checks what was written in Go by hand as Parse checks a line.
//
// # Grammar
//
//	directive  = "//ratelimit:" ( limit | hold | "none" | wrapper ) .
//	limit      = ( "ip" | "user" | "global" | "key" ) rule { rule } { option } .
//	hold       = ( "concurrency" count | "lock" ) { option } .
//	wrapper    = "wrapper" ( identifier [ maker ] | maker ) .
//	maker      = "constructor=" ( identifier | "none" ) .
//	rule       = count ( "," | "/" ) window .
//	count      = decimal digits, at least 1; at most 10000 for sliding-log, 1000000000 for the others .
//	window     = a Go duration that may also have days (d) and weeks (w), 1ms to 366d, whole microseconds .
//	option     = name "=" value | a Go string that says name "=" value .
//	value      = a Go string | text without spaces .
//
// Spaces and tabs stand between these parts, and nothing else does: no other blank, no remark at the end of the line.
// Spaces in the strings, runes and brackets of a value belong to it, as in by=req.Get("a b") and by=f(a, b).
// A value that is one Go string, in double or in back quotes, means what the string says: when="a == b" is the
// expression a == b, and a string constant needs quotes twice, by=`"all"`. A value that only begins with a string
// means itself: by="tenant-"+req.Tenant.
//
// Windows are printed in hours below two days and in days from there on: 60s as 1m, 1d as 24h, 1w as 7d.
//
// # Rules
//
// A rule admits count permits in a window; what a window is, the algorithm says. One that can never deny what another rule of the limit allows is
// refused: 100,1m beside 10,1h, which admits 10 in a minute, and 600,1m beside 10,1s, which admits 600. Of two buckets, one that is
// no smaller and gains no less than the other never denies what that one allows.
//
// # Algorithms
//
//	sliding-log    in every window: at most count. Exact; a record for each permit of the window
//	sliding-window in every window: at most count. Counts for sub-windows; a permit is back up to one of them late
//	fixed-window   in each of the windows that follow one another: at most count, and so in any window at most twice as
//	               many. One number for each rule
//	token-bucket   in every time D: at most burst + D·count/window. One number for each rule
//	leaky-bucket   the same, told as a bucket that calls fill and that leaks
//	gcra           the same, told as the time at which the burst is there again
//
// A leaky-bucket with a wait is a queue: a call goes on when those before it have drained, window/count for each permit, and
// is denied if that is further away than the wait. Calls go on that far apart, and never at once as from a bucket that has room;
// it has no burst, and one rule. A call of a higher cost waits no longer than one of a lower, but those behind it do.
//
// A log suits counts that must hold in any window, and small ones.
//
// A sliding window suits large ones. It divides the window into segments= sub-windows, which begin at the multiples of their
// length since 1970-01-01 00:00 UTC, and counts all that was admitted in the sub-window of now and in as many before it as the
// window has. So a permit counts until the end of its sub-window is a window ago: more sub-windows give it back sooner, and
// take more memory. A sub-window that is not whole microseconds is rounded up, and with it the window: 1s in 7 parts is
// counted as 7 times 142,858µs.
//
// A fixed window suits quotas. With start=clock windows begin at the multiples of their length since 1970-01-01 00:00 UTC:
// minutes, hours and days are those of a clock in UTC, 7d begins on Thursdays, and no window is a month. With start=first
// a window begins with the first call that is admitted after the end of the one before. Right before and right after a boundary,
// twice the count may pass in an instant.
//
// A bucket suits large counts and calls that are to be spread:
// what it lets through at once is the burst, and each permit comes back by itself after window/count. All of it is counted in
// integers and exact to the microsecond, which is why burst times window has an end: 9,007,197,107,257,344 permits times
// microseconds, or 104,249 permits in a day.
//
// A call that is given back at once was never made. Given back later, a log forgets it; a bucket gets back what has not come
// back by itself since, and with charge= what comes back is of the calls that were charged first; a window gets it back unless it, or the sub-window, is over.
//
// # Holding
//
// A concurrency and a lock have no rules: they hold something while the call runs, so many calls at once or one. Of the options they
// have none that say how rates count, and no charge; a lock has no cost. They need a store of locks beside that of the counts.
//
// With segments, the ids of a lock share so many locks, and calls of other segments do not wait for each other. That is sound
// where a call touches nothing but what belongs to its id, and only while all instances have the same number.
//
// # Options
//
//	algo     sliding-log*, sliding-window, fixed-window, token-bucket, leaky-bucket, gcra
//	                                  how the limit counts
//	burst    number                   depth of a bucket, each rule's count by default
//	start    clock*, first            where a fixed window begins
//	segments number up to 100         sub-windows of a sliding window, 10 by default; of a lock, how many its ids share
//	per      global*, ip, user, key   whose calls in flight a concurrency counts; key must have by
//	by       Go expression            the id, in place of the context's; key must have it
//	cost     Go expression            permits that a call takes, 1 by default; a value below 1 counts as 1
//	free     deny, allow              whether a call of cost 0 passes without being charged
//	when     Go expression            the limit applies only if it is true
//	name     word that may have a /   handle in errors, headers and metrics
//	bucket   word                     shares one count between methods
//	prefix   word                     first part of the key, rl by default
//	missing  deny*, allow             what becomes of a call without an id
//	onfail   local*, open, closed     what becomes of the limit while its store cannot decide
//	charge   always*, success, error  which calls are charged, by how they end; always if their context has ended
//	lease    duration, 10ms to 24h    how long what a crashed process holds is kept, 30s by default
//	wait     duration, 1ms to 24h     how long a call waits for room at most: not at all by default
//	ban      duration, 1ms to 366d    how long an id is denied that has been denied often: not at all by default
//	after    1 to 100                 denials within the limit's longest window that bring the ban
//	prefetch duration, 1ms to 10s     how long before their use a process takes permits, many at once: not at all by default
//	deny     zero                     what a denied call returns: an error by default
//	mode     enforce*, shadow         a shadow decides, counts and reports, and denies no call
//	plan     word                     the limit is for callers on this plan alone
//
// The default of a choice has a star.
//
// A method without an error result has nothing to say no with. With deny=zero on one of its directives it returns zero values
// instead, for every call that its limits do not let pass: denied ones, those without an id, and those that onfail=closed
// refuses while the store cannot decide. Nothing tells the caller; observers and logs are told. A zero pointer, function,
// iterator or channel is nil. Where a method has several results of type error, a denial is the last of them.
//
// A limit with charge takes its permit before the call, and gives it back when the outcome is another one. It is for methods
// that return an error; of several, the last counts. A panic is an error.
//
// Limits of one kind with different plans are alternatives: a call meets the limits of its caller's plan, and those without a
// plan. Each plan has its own count. If all limits of a kind are for plans, a call by a caller on another plan, or on none, fails
// with ratelimit.ErrUnknownPlan, unless one of the limits has missing=allow.
//
// A shadow has a key of its own, so that what it counts does not mix with the limit that it stands beside. It makes no call wait.
//
// A word has letters, digits, dots, underscores and hyphens, 64 bytes at most. The global limit has no id, and so neither by
// nor missing. Expressions are Go by their syntax here, 4096 bytes at most; what they
// mean is for the generator to check.
//
// The words of directives, options and algorithms stand in one table each, in directive.go, option.go and algorithm.go.
package rules
