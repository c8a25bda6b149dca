// Package redisstore decides limits in Redis: standalone, Sentinel or Cluster, version 6.2 or
// later.
//
// [New] takes the program's own client, changes none of its options and never closes it.
//
// # One call
//
// A call of any number of limits with any number of rules is one EVALSHA: all are charged or none, at one instant of
// the server's clock. The clocks of the program's instances decide nothing. frame.lua says what the script is
// asked, decision.lua how it is decided, sliding_log.lua, compact_log.lua and entries.lua what is stored, and the file of each algorithm
// what it counts.
//
// On a Redis Cluster, limits whose keys lie in different slots cannot be decided at one instant. There, one script
// for each slot reserves in parallel, and where one denies, what the others reserved is given back before the call
// returns. No limit ever lets more pass than it allows, but another caller may be denied by a reservation that is
// about to be given back. Where the reply of a slot is lost, a sliding log gets back what may have been charged there;
// under every other algorithm that stays charged until it comes back by itself. A give-back is tried for ten seconds, also after its
// call has returned; what its server has not heard of by then stays charged, too. ratelimit.WithColocation puts the limits
// of a method into one slot instead.
//
// # Many callers
//
// Callers who come while others are served share the next EVALSHA, up to 64 of them ([WithBatching]), and none waits for company:
// whoever comes alone is sent at once. Each is decided as if it were alone, all or nothing, one after the other, and is told of
// its own failure only. A caller who leaves before the script is written is not in it. Where the client's ContextTimeoutEnabled
// is set and the context cannot be cancelled, a lone caller's script is sent from its own goroutine, which is faster: then the client's
// hooks, too, are to heed the ends of their contexts.
//
// Two scripts are on their way to a server at once. Who comes meanwhile waits for the answer to one of them: at most as long again as an answer takes, which is what the throughput costs
// where the way to the server is long.
//
// On a Cluster, callers who come while others of the same master are served share the next pipeline to it: one EVALSHA for each hash tag among
// their keys, since keys of several slots cannot share a script. What an EVALSHA is answered is told of its own callers alone, each is written
// once, and one whose slot has moved, or that the server has not executed for another reason, goes on by itself: neither those of its pipeline wait for it, who are told as soon as the client
// knows, nor those who come later. A call whose keys lie in
// several slots sends its parts by themselves. Of a slot that no server has, the client asks any: where that one is silent, calls of others may wait for it, up to the budget. A Cluster's client asks for a script's arguments to find the server, before it has a connection: a caller who leaves
// after that is in the script, though nothing of it may have been written, and may be charged.
//
// The pipelines go through the program's client, so that its hooks see them, in ProcessPipelineHook. What a hook makes of an answer afterwards changes nothing any more; one that does not return then
// keeps one of the two places until the budget ends. To a hook that reads a script's
// arguments once it is answered it is an empty one, which is what would be written if the client sent it again; and the pipeline of a Cluster has ended with a cancelled context where a slot has moved, for
// the client would go on with that script alone and keep the others. A hook that panics fails those callers of the pipeline who are not decided as
// [store.Misconfigured]; but what belongs to a node's own client ([redis.ClusterClient.OnNewNode]), or to a shard's, as its hooks, OnConnect, credentials and Limiter, is run by go-redis in a goroutine of
// its own, as for every pipeline, where nothing can recover its panic: it ends the program. It is to recover by itself, or the calls are to go without pipelines, by [WithBatching](1).
//
// It is not go-redis's AutoPipeline that sends, which does without what is promised here: it sends a command though its context has ended while it queued, it asks for
// a command's arguments when it queues, so that none could be taken back, it ends no wait with a context or a budget, it has as many queues as
// there are processors, so that one master which is silent keeps callers of others waiting, and it is shared by all who use the client.
//
// # Queues
//
// A queue (a leaky bucket with a wait) answers with a delay. What is given back of it makes room only while no later
// call has been let in: where on a Cluster one slot lets a call into a queue that another slot denies, and a call behind
// it was let in meanwhile, its place stays empty.
//
// # Failing
//
// A call returns within its budget ([WithBudget]), whatever the timeouts of the client are. A script is sent again
// only where the server surely has not executed it: after 2 ms, and then after waits of up to 100 ms that double, for as long as there is time for an answer within the budget, and
// for half a second at most. Where the answer is lost, the call fails as
// [store.Indeterminate], and may be charged without having been made: the count errs on the safe side only. The client's hooks are to
// hand a script on once: one that sends it again after an error has it charged twice where the server had executed it. One that looks at a command's
// arguments, as tracing does that records them, makes it one that may have been sent: where it was not, for want of a connection for instance, the call is
// indeterminate, and may yet be charged, and is not sent again. And it sees callers' ids, which are in keys.
// Errors that somebody must mend are [store.Misconfigured] and say how.
//
// go-redis dials a server that is down five times, 100 ms apart, before it says so, and calls wait for their budget
// meanwhile, unless the client's DialerRetries is 1. After five calls in a row that fail, the server is given a rest of
// 250 ms, in which calls fail at once; then one call asks, and the others once it has been decided. A call whose context ends fails with the context's
// error. Of one whose deadline is sooner than the budget, the server has the budget to answer all the same: an answer that comes too late for the caller says that
// it does well, and none to anybody is a failure. A caller who cancels says nothing of it. Each master of a Cluster
// has rests of its own, and a call that needs one which is at rest asks none.
//
// While the server decides, limiters tell it every few seconds that they are there, in a key such as "rl:instances", so that each can
// take its share when it does not ([Store.Attend]). Programs that share a prefix on one server count as one fleet, and take smaller shares.
//
// # Starting
//
// [Store.Check] finds out before the first call what somebody must mend, or had better: ratelimit.Limiter.Check runs it and
// logs what it finds, and ratelimitfx does so when the app starts. A server that is not there is no reason not to start.
//
// # Permissions
//
// A Redis user of its own needs no more than this (ACL SETUSER limiter …), with the prefixes of the directives in
// place of rl:
//
//	on >pw ~rl:* resetchannels -@all +eval +evalsha +script|load +time +hello +ping +client|setname +zadd +zcard +zrange +zcount +zrem +zremrangebyscore +pexpire +pttl +get +set +append +getrange +setrange
//
// and, on a Redis Cluster, go-redis itself needs also
//
//	+cluster|slots +command +asking
//
// and a client of another database than 0 +select.
//
// # Servers
//
// All keys that a client does not tell apart by slots, or by shards, are to be at one server, whatever is in between: the script counts callers that share it under keys of which the
// server sees the first alone where a proxy shares keys out, such as Envoy's redis_proxy and twemproxy with several servers, and admits up to as many times the limit as
// there are servers. Behind such a proxy set [WithBatching](1), and give each method one limit, or leave the proxy out.
//
// Use a server that evicts nothing (maxmemory-policy noeviction): a key that is evicted is a fresh quota. After a
// failover to a replica that lacks the last writes, up to as many calls more may pass in one window as were lost.
package redisstore
