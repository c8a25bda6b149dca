package main

import (
	"fmt"
	"strings"
)

const usage = `rlgen generates wrappers that hold the rate limits of directives in doc comments.

	rlgen [flags] [packages]        generate (default: the package in this directory)
	rlgen check [-diff] [packages]  findings and stale files; writes nothing; -overrides file
	rlgen vet [-fix] [packages]     the findings of one platform by go vet, which caches them, and mends
	rlgen list [packages]           every limited method, its limits, keys and memory; -json, -markdown, -overrides file
	rlgen simulate "limit" log      what limits would have done to traffic, as text, JSON or a picture
	rlgen peek|keys method id       how an id stands in a Redis that is in use, and under which keys
	rlgen reset|grant|ban|unban     forgets what an id has used, gives it permits back, shuts it out, lets it in
	rlgen override                  shows and changes the overrides in Redis
	rlgen help <topic>              directives, options, holds, expressions, files, overrides, di, vet, list, simulate, redis
	rlgen version

Flags stand before packages; rlgen -h lists them. Findings go to standard error, one per line,
file:line:col: message. Exit status: 0 in order, 1 findings, stale files or denied, 2 wrong usage.
`

// topics by name, in the order of the usage text.
var topics = []struct{ name, text string }{
	{"directives", `A directive is a line of a doc comment, on a method or on a type, that begins with //ratelimit:

	//ratelimit:user 10,1s 100,1m     per authenticated user: at most 10 in any second and 100 in any minute
	//ratelimit:ip 1000,1h            per client address
	//ratelimit:global 5000,1s        for all callers together
	//ratelimit:key 5,1s by=req.Name  per value of an expression
	//ratelimit:concurrency 10 per=user  at most 10 calls of a user in flight
	//ratelimit:lock by=req.ID        one call at a time, in all instances
	//ratelimit:none                  exempts a method from its type's directives
	//ratelimit:wrapper LimitedOrders names the type's wrapper
	//ratelimit:wrapper constructor=NewOrders  chooses what injection files build on; none for nothing

Lines stack: a call must pass all of them. A directive on a type holds for each of its methods; a
method's own lines replace those of the same kind. Windows are Go durations, or 1d, 1w.
`},
	{"options", `Options follow the rules of a directive, name=value:

	by=expr         the id to count by
	cost=expr       the permits that a call takes (default 1); a value below 1 counts as 1
	free=allow      with cost=: a call of cost 0 is not charged
	when=expr       the limit applies only if true
	name=word       handle of the limit in errors and metrics
	bucket=word     limits with one bucket count together
	prefix=word     first part of the key (default rl)
	missing=allow   a call without an id passes (default deny)
	onfail=open     what a store that cannot decide means: local (default), open, closed
	deny=zero       a denied call returns zero values; for methods without an error result
	ban=duration    with after=n: an id that was denied n times within the longest window is denied so long
	wait=duration   a call without room waits for it, so long at most (default not at all)
	prefetch=duration  a process that is called often takes permits so long ahead, many at once; never
	                more than the count pass (default not at all)
	algo=word       how to count: sliding-log (default), sliding-window, fixed-window, token-bucket,
	                leaky-bucket, gcra
	burst=n         depth of a bucket (default the rule's count)
	start=first     a fixed window begins with a call, not with the clock's minute, hour or day (UTC)
	segments=n      sub-windows of a sliding window (default 10); locks that the ids of a lock share
	charge=error    only calls that fail are charged; success: only the others (default always)
	per=user        whose calls in flight concurrency counts: user, ip, key (by=), global (default)
	mode=shadow     decides, counts and reports, and denies nothing; counts under a key of its own
	plan=word       for callers on this plan alone, ratelimit.WithPlan; a caller on a plan that no line of
	                the kind is for, or on none, is refused, unless a line has no plan or missing=allow
	lease=duration  how long a crashed process keeps a lock or its place in flight (default 30s)

A value with spaces is a Go string: "when=req.Kind == Paid".
`},
	{"holds", `Two directives hold something while the method runs:

	//ratelimit:concurrency 10 per=user lease=30s wait=1s
	//ratelimit:lock by=req.OrderID lease=30s wait=3s

A call asks its rates first, then concurrency, then locks, whatever the order of the lines. It is all let go
in reverse when the method returns or panics. Who does not get it within wait (at once without) gets an
ExceededError: errors.Is(err, ratelimit.ErrExceeded), HTTP 429. Those who wait are served in the
order in which they came to their process, and by turns of the processes. A call that is denied at once costs no rate anything; one that has waited and gives up is
charged as the rate's charge= says, as a call that failed.

The method's context is done when it is let go, and before another can have it where it is lost, with the
cause lock.ErrLost: do the work with that context, and let nothing that it returns depend on it. An
*http.Request gets it by WithContext. A method whose context cannot be replaced is not told; rlgen warns. It
warns, too, of results that are read when the method has returned: a response with a body, a reader, rows, a
channel, an iterator. By then nothing is held any more. Read them within, or call a func parameter with each.
A method with the context of a lock may call others that take the same lock (bucket= shares it): they nest.
Two calls in flight never nest: each takes its place, and with a concurrency of 1 the inner one is denied.
Several locks of one call are taken in an order that is the same for all calls, those by= an id first, so that
no two wait for each other; calls within calls are to take theirs in one order everywhere, or they wait in vain.

A lease is renewed while the call runs, and ends by itself when its process does. A lock keeps two calls from
doing the same work in nearly all cases; where two would do harm, hand lock.Token(ctx) to what is written. Of
several locks, ratelimit.Token(ctx, "stock") is that of the one with name=stock.

segments=16 makes the ids of a lock share 16 locks, so that those of other segments do not wait. It is
sound where a call touches only what belongs to its id; not where it reads or writes something of all
ids, such as their sum, and not while some instances run with another number.

onfail=local, while Redis cannot decide: each instance lets one call into a lock, so that as many may run as
there are instances, and in flight its share of the count; both beside calls that were let in before and
still run. Write onfail=closed where that does harm. A call that waits goes on doing so while Redis is away for
less than 3s, and waits no longer than wait= in all, whoever lets it in.

charge=error counts failures, charge=success what succeeded: the permit is taken first and given back when
the outcome says so. A panic is a failure, runtime.Goexit is none. Of several results of type error, the last one counts.
`},
	{"expressions", `by, cost and when are Go expressions over the parameters of the method, the declarations of its
package and the imports of its file. They are checked when generating and compiled into the wrapper.

by wants a string, []byte, integer, bool, or a type with String() string; for an ip limit an address.
A nil pointer or interface with String is no id. An expression that panics, such as req.ID where req is
nil, panics in the call.
cost wants an integer, when a bool. Results and the receiver are not in scope.

Expressions may call functions and methods, index, slice, convert and compare. They are computed for
every call, by and cost only where when is true, in the caller's goroutine, before the limit is
decided: what they call should be quick and change nothing. Function literals, receives from channels
and the built-in append, copy and recover are refused. A parameter hides a package or a function of
its name.

Without by, the identity is that of the first parameter that is a context.Context, by any type that is
one; else of the first with a method Context() context.Context, such as an *http.Request or a stream;
else of the first context in a list or a variadic parameter. A nil one has no identity.
`},
	{"files", `rlgen writes one file beside each source file with directives, with its build constraints:

	orders.go      -> orders_ratelimit.go
	tags_linux.go  -> tags_ratelimit_linux.go
	in_test.go     -> in_ratelimit_test.go

and ratelimit_fx.go, ratelimit_wire.go for the package. Files for other platforms and build tags are
checked and generated from any platform. An unchanged file is not touched. A file with
rlgen's header that nothing makes any longer is removed; in go generate, it is emptied, because the go
command opens it later. Nothing is written while there are errors.
`},
	{"di", `-di=fx (default) generates RateLimitModule, -di=wire RateLimitSet, -di=fx,wire both, -di=none neither.

Without -di, rlgen check and rlgen vet keep to the files that stand there.

They provide the interface behind its limits where the package has an exported constructor, New…,
that returns the interface or a type that implements it, and maybe an error, or a clean-up function
and an error. One that returns the interface is called by the generated provider, so that no graph
has the service without limits; where it returns another type, the provider takes that from the
graph. Variadic parameters are handed on: fx passes the slice if it has it, wire wants it. A type
with directives of its own is provided as its wrapper, *RateLimitedService, over the graph's *Service.

Where several constructors do not make the same, rlgen warns at each of them, and nothing is
provided until a directive above the type chooses:

	//ratelimit:wrapper constructor=NewOrders
	//ratelimit:wrapper constructor=none

Only such a line chooses a constructor that is not exported, that is generated, that returns another
interface, or that makes a stand-in by its name or its type's (Mock, Fake, Stub, Test, Dummy, Spy,
Noop). The files say of each service that they leave out why, and what to write.

For an implementation in another package, write

	ratelimitfx.Provide[orders.Orders](postgres.NewOrders, orders.NewRateLimitedOrders)

Generic services are in no file, since a graph has no types with open parameters. Provide each
instance that the program uses:

	ratelimitfx.Provide[kv.Store[int, User]](kv.NewMemory[int, User], kv.NewRateLimitedStore[int, User])

Services that are built on some platforms only are in the files if all of the package's services are,
and alike: then so are the files. Else the files are built everywhere, and leave those services out.
`},
	{"overrides", `A file, or a hash in Redis, changes limits while the program runs (package ratelimit/override):

	limits:
	  Create/user: 20,1s 200,1m mode=shadow
	  Find: off
	  orders.Orders.Create/ip: 500,1h

A name is that of a limit, as rlgen list has it, behind its type where several types have it. The value is off, or
rules (of a concurrency its number) and burst=, missing=, onfail=, wait=, mode=; what it does not say is as written,
but a prefetch= that the new numbers do not suit takes nothing ahead.
All else needs a deployment. Limits that share a bucket are to be overridden alike.

	rlgen list -overrides limits.yaml ./...   what holds now, beside what is written
	rlgen list -overrides limits.yaml -overrides redis ./...  the same with the hash, in the program's order:
	                                          of the Redis that rlgen help redis says how to name, -overrides-key
	rlgen check -overrides limits.yaml ./...  what is wrong with the file, with line and column

All of it is checked before any of it is used, and what held before holds on where something is wrong. Counts go on:
those of a log whatever the rules are, those of the others for rules whose window they had before.

Where the program computes rules (ratelimit.WithRules), those hold in place of an override's numbers; off, mode=
and the other options hold as elsewhere. What is computed, neither list nor the file can say.
`},
	{"vet", `rlgen vet runs go vet with rlgen as its tool, which finds in each package what rlgen finds, and
generated files that are missing or not of the source that stands there now: each carries a hash of
what it was made from, and nothing is generated to compare. These are the same:

	rlgen vet ./...             go vet -vettool=$(which rlgen) ./...
	rlgen vet -fix ./...        go fix -fixtool=$(which rlgen) ./...
	rlgen vet -fix -diff ./...  go fix -fixtool=$(which rlgen) -diff ./...

-fix mends what has one sure mend: blanks, capitals, quotes, misspelt words, units (1min), rules with
spaces (10 / 1s) or behind options, what stands there twice, remarks behind directives, which get a
line of their own, detached directives, and a missing context. A linter that loads analyzers takes
gen.Analyzer. It sees one package on one platform; rlgen check sees all of them together.
`},
	{"list", `rlgen list prints every limited method, in the order of packages and places: its limits, their
keys, what they take of Redis's memory at most for one id, and what becomes of calls without an
identity and of all calls while Redis cannot decide. -markdown prints tables. -json prints an array:

	file        path as seen from the working directory, with slashes
	line        of the method's name, or of the type's where another package declares the method
	column      in bytes, from 1
	package     import path
	type        with its package's name, as in the key: "orders.Orders"
	method
	deny        "zero" if a denied call returns zero values; absent if it returns an error
	limits      array, in the order in which they are decided:
	    name        handle in errors, headers and metrics
	    file, line  where the directive stands: over the method, or over a type
	    kind        "ip", "user", "global", "key", "concurrency" or "lock"
	    directive   canonical line: "//ratelimit:user 10,1s"
	    rules       array of {"count": number, "window": Go duration}; absent for concurrency and lock
	    inFlight    the number of calls in flight, and
	    per         whose they are: "global", "user", "ip" or "key"; absent but for concurrency
	    key         with <addr>, <id> or <text> for what calls differ in; what concurrency and lock hold is
	                kept under rl:sem:{key} and rl:lock:{key}
	    algorithm   as the option algo has it; absent for concurrency and lock
	    bytesPerID  the most that one id takes in Redis; absent where it is not known
	    missing     "deny" or "allow" calls without identity; absent where there is none to miss
	    onfail      "local", "open" or "closed"
	    wait        how long a call waits for room at most, a Go duration; absent where it does not
	    prefetch    how long before their use a process takes permits, a Go duration; absent where it does not
	    ban         how long an id is banned, a Go duration; absent where none is
	    after       denials within the longest window that bring the ban; absent where none is
	    lease       how long a crashed process keeps what it holds, a Go duration; absent for rates
	    segments    the number of locks that the ids of a lock share; absent where each has its own
	    charge      "success" or "error"; absent where every call is charged
	    mode        "shadow"; absent where the limit denies
	    plan        absent where the limit is for everybody
	    override    with -overrides: {"text": as it is written, "directive": the line that holds then, absent
	                where the limit is off, "at": file, line and column, or the hash}; absent where nothing
	                overrides it

Fields may be added, and none will change its meaning.
`},
	{"simulate", `rlgen simulate decides traffic by limits as the limiter does, under the traffic's own clock, and says what
became of it. The limits are directives without the //ratelimit:, or those of a method of the code:

	rlgen simulate "user 10,1s 100,1m" access.log
	rlgen simulate "user 10,1s" "global 500,1s" access.log.2.gz access.log.1 access.log
	rlgen simulate -method orders.Orders.Create -vs "user 5,10s" -match '^POST /orders' access.log
	rlgen simulate -rate 40 -ids 20 -zipf 1.1 -for 10m "user 3,1s algo=gcra"

Several limits are all or nothing, as on a method. -vs is what to compare with, ; between its limits. A prefetch= is
taken no notice of: each call asks, as if of one process that takes nothing ahead.

A log has lines of the Common Log Format or the combined one, CSV with the names of its columns first, or an
object of JSON in each line; - is standard input, and gzip is seen. It begins with the first line that one can
begin with, such as an object with a time, unless -format says what lines are. -columns says which are

	time     RFC 3339, the zone +0100 too or none (UTC); or seconds, ms, µs or ns since 1970
	address  what ip counts by
	user     what user counts by
	method   what -match selects by: of an access log the verb and the path, GET /orders
	key      what key counts by, in place of its by=
	cost     of the call (default 1)
	status   of HTTP, by which charge= goes: a call fails with 400 or more

user.id is the field id of the object in user, or else the one that is called user.id.

Lines of an access log are of whole seconds, and count at their beginning. A line may be 10s earlier than one
before it (-within); the calls of so long are in memory, those of a day for -within 24h. Lines that cannot be
read are counted, and left out unless -strict; so is what stands behind the place up to which a file can be
read, such as one of gzip that is cut off, and a file with no such first line among its first 100. Where all
files are like that, it is an error.

Without a log, traffic is made: -rate calls a second, -burst of them at once, for as long as -for, steady,
at random (-shape poisson) or on and off, of so many -ids, of which the first call most (-zipf).

What it says of a rule: the calls that it denied, and the most calls of one id in a window of the clock's,
denied ones included, which is what the rule would have to admit to deny nobody. Of a limit: the longest
retry after, the ids it denied most often, and the memory that it would have taken in Redis, at most: for the
ids of two of its longest windows, or where keys live for longer (bans, queues, a burst= beyond the count) for
those that had one at once.
Concurrency, locks and shadows are left out; a method with plans wants -plan. -svg writes a picture, -html a page. -json prints an object:

	source      what the traffic is
	calls       first, last: how many, and when
	log         lines, bad, late, other: what became of a log's lines, and why; broken: files that are
	            not read, or in part
	candidates  array, of the limits and then of each -vs:
	    name, allowed, denied, assumed
	    limits  array of directive, calls, denied, noID, tooBig, patient (denied, but within wait=),
	            longestRetry, longestDelay, mostIDs, mostBytes, deniedIDs (moreIDs: or more), top (ids), and
	            rules: array of count, window, denied, peak, peakID, peakAt
	course      width of bins, and those in which there were calls: at, calls, and allowed by each candidate
`},
	{"redis", redisHelp},
}

// help prints the usage, or a topic.
func (c *command) help(args []string) int {
	if len(args) == 0 {
		fmt.Fprint(c.stdout, usage)
		return exitOK
	}
	asked := args[0]
	if _, ok := operations[asked]; ok {
		asked = "redis" // which has all of them
	}
	var names []string
	for _, t := range topics {
		if t.name == asked && len(args) == 1 {
			fmt.Fprint(c.stdout, t.text)
			return exitOK
		}
		names = append(names, t.name)
	}
	fmt.Fprintf(c.stderr, "rlgen: help %s, want one of %s\n", strings.Join(args, " "), strings.Join(names, ", "))
	return exitUsage
}
