package main

const redisHelp = `These commands look at what limits have counted in a Redis that is in use, and set it right. They make the keys
of a method and an id as the program does, and never search for any.

	rlgen peek Create user=42 ip=192.0.2.1      what is used and left, bans, calls in flight, who holds a lock
	rlgen keys Create user=42                   the keys, with their types, how long they stay, and bytes
	rlgen reset Create user=42                  forget all that its rates have counted, and bans
	rlgen grant Create user=42 5                give 5 permits back
	rlgen ban Login ip=192.0.2.1 15m            deny all, by limits that have ban=; unban lifts a ban,
	                                            and reset also clears the counts, which may deny on
	rlgen override                              the overrides in Redis, and what is wrong with them
	rlgen override set Create/user 20,1s        changes one; remove Create/user takes it away
	rlgen override set One 2,1h Two 2,1h        changes several at once, as limits need that share a bucket;
	                                            so does remove One Two. What others write meanwhile is judged
	                                            with it, so that nobody's change is lost

Names of overrides are those of rlgen list, with or without their type: a limit has one entry, by whichever name it is
there. Entries without a name or a text, as others may write them, are removed as "", and names with a dash behind --.

A method is orders.Orders.Create, or Create where only one is called so. An id is user=, ip= (of which IPv6
counts by its network), key= and the text that by= makes, or global. -limit Create/user is that limit alone,
-plan pro those that hold for a caller on a plan, which is to be one of some limit.

The URL of Redis is in REDIS_URL, or in the file of -redis-file: redis://user:password@host:port/db,
rediss:// for TLS, redis+sentinel://host,host/master, redis+cluster://host,host. SSL_CERT_FILE names an
authority of its own. -redis takes a URL too, but none with a password, which a list of processes would
show. No message has a password in it.

The limits are those of the code (-packages, default ./...), or of what "rlgen list -json" has printed of it
(-limits limits.json) where there is no code. Tell what the program's limiter is made with: -ipv6-prefix,
-hash-secret file, -colocated, -lock-prefix, and -overrides limits.yaml or -overrides redis, several times in
the program's order. The hash of overrides is rl:overrides, or that of -overrides-key, as redisoverride.WithKey
has it: services that share a Redis want one each. override judges the hash together with the files that
-overrides names, behind which it comes unless redis is among them: programs take what is valid only
together, and refuse the rest as a whole. What ratelimit.WithRules computes is not known here: the
numbers are those of the code, and of overrides.

grant takes back what was charged last, so that each rule has so much more left, and never more than all of
it. A log forgets its newest permits, a sliding window those of its newest part, a fixed window those of the
window that runs, and a bucket and gcra are filled. Queues (leaky-bucket with wait=) are granted nothing,
for their calls have been told when to go on, and more than the largest count is refused: reset does that.

Other instances know at their next call, but for denials that they remember for a second. Writing commands
do not ask back; they say how the limits stood before and stand now. -dry-run says what would be done.

Exit status: 0 done, 1 not done, or by peek that a limit would deny a call now, 2 wrong usage. An override of
which programs could not be told is done: they read it within their interval, which override says then.

The Redis user needs what the limiter's does, +type +pttl +memory|usage for keys, and for override
+hgetall +hset +hdel +publish &rl:overrides, which is called as the hash is.

-json prints an array; durations are Go durations, absent where they are zero:

	peek      method, id, limits: name, directive, key, mode, off, denies, banned,
	          rules: count, window, capacity, used, remaining, retryAfter, resetAfter
	          held: count, held, waiting, token, leases: id, cost, left
	keys      method, id, limits: name, keys: key, type ("none" where it is not there), ttl, bytes
	reset, grant, ban, unban
	          done, idle (there was nothing to do), dryRun, method, id, limit, key,
	          before and after, as peek has limits
	override  name, text, limits: method, directive (absent where it is off)
	override set, remove
	          done ("nothing" where there was nothing to remove), dryRun, name,
	          before and after: the texts, holds: another text that holds, by: where it is,
	          directive: the directive holds
`
