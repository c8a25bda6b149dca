// Package redislock keeps the locks and semaphores of package lock in Redis: standalone, Sentinel or Cluster, version 6.2 or later.
//
//	store, err := redislock.New(client)
//	if err != nil {
//		return err
//	}
//	defer store.Close()
//	locks, err := lock.New(store)
//
// [New] takes the program's own client, changes none of its options and never closes it. To a *redis.Client it adds a hook, once, by which
// the store's own commands end with the budget, and with their context's deadline: hooks that are to be told of these are added before.
// Of such a client with a pool of eight connections or more and no cache of its own, the store keeps one for 100 ms at a time, for calls that come
// one after the other.
//
// A store asks a server for no more at once than three quarters of the client's connections carry, and an eighth for those whose turn it is, or who hold something else; what is more takes turns, which is
// no failure of the server. Waiters who leave together take as few, those of one name with one command; who never stood in the queue sends nothing. So, of three connections or more,
// renewals and Unlock find one, however many want what is held, and however many give that up at once.
//
// # Keys
//
// A lock of name n is the hash rl:lock:{n}, which has a field for each hold, and another for each while somebody waits; rl:lock:{n}:token has the last token. A semaphore is the ZSET rl:sem:{n}, of leases by when they end. Both have a queue beside them
// while somebody waits. What is not a plain character in
// a name is escaped, so that a name cannot leave its braces, which put all of its keys into one slot of a cluster. Every key expires: the token's five minutes after the
// lease. Tokens go on from the server's time then, which is later.
//
// # Failing
//
// A call takes its budget ([WithBudget]) and a sixteenth of it at most, and what the client needs to notice; before it, an acquisition may wait for its turn for as
// long. A context's deadline ends it sooner, and so does a context that is cancelled, but for the first call that a server leaves without an answer: that one may last
// for half of the budget. A call whose caller's deadline comes before its answer has its connection until the answer comes, or the budget ends: no connection is closed because
// its callers have little time. What names a hold is no other's, so a script is sent again within the budget where an answer is
// lost, and a hold that was meant once is there once. Where the budget ends before it is known what became of an acquisition, it is
// released in the background, as soon as that is known and for ten seconds, a few names of a server at a time; [Store.Close] waits for that. Should a server execute it even later,
// it holds until its lease ends, and is not renewed.
//
// After a failover to a replica that lacks the last writes, a lock may be held twice until the first holder next renews, which fails:
// its context is then done. The tokens of the two differ, and the later one's is larger.
//
// A master of a Redis Cluster that is frozen, not dead, is left when the client's ReadTimeout has passed since the replica took over, or twice that: with
// go-redis's own, 1 to 7 s after it; with 500 ms, within one. Nobody waits for that beyond the budget.
//
// # Permissions
//
// A Redis user of its own needs no more than this (ACL SETUSER locker …):
//
//	on >pw ~rl:* &rl:* -@all +eval +evalsha +time +hello +ping +client|setname +exists +incr +set +hset +get +hdel +hexists +hkeys +pexpire +pttl +zadd +zrem +zrange +zrangebyscore +zremrangebyscore +zscore +zcount +publish +subscribe
//
// and, on a Redis Cluster, go-redis itself needs also
//
//	+cluster|slots +command +asking
//
// # Servers
//
// Use a server that evicts nothing (maxmemory-policy noeviction): a lock that is evicted is free. A Ring is refused.
//
// The nodes of a Redis Cluster hand on to each other who is to be woken. Between two of Redis 7.0 that takes 40 ms in place of one for some
// of the messages that follow each other closely, up to one in ten.
package redislock
