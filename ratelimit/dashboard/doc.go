// Package dashboard is a page that shows what limits do now: a handler that a team mounts beside net/http/pprof.
//
//	seen := dashboard.NewObserver()
//	limiter, err := ratelimit.New(store, ratelimit.WithObserver(seen))
//	…
//	board, err := dashboard.New(limiter, seen, dashboard.WithService("shop"), dashboard.WithRedis(client))
//	…
//	go board.Run(ctx)
//	debug.Handle("/debug/ratelimit/", board)
//
// It works under any prefix, stripped or not, that ends with a slash.
//
// # Who may see it
//
// The dashboard has no authentication of its own. Mount it where only your team gets to: on a port of its own that the load balancer does not know, or behind
// what knows your team. Under another name than an IP address or localhost, name it with [WithHosts]. It reads, unless [WithWrites] lets it change things, and shows no id in the clear unless [WithClearIDs] says so.
//
// The page has no script or style but its own files, and says so in its Content-Security-Policy; what changes something is refused
// from pages of other origins ([http.CrossOriginProtection]); ids travel in bodies and never in URLs; what comes from Redis or from callers is
// text and never markup.
//
// # What it costs
//
// A decision of three limits is counted in this process, in some 0.4 µs and without memory of its own (BenchmarkObserve). With an observer the limiter asks the store what remains ([ratelimit.WithObserver]). With
// [WithRedis], [Dashboard.Run] runs one small script each second in which something was counted, and otherwise one every ten seconds; and while somebody looks
// at the page of this instance, it reads what all have counted. The keys begin with "rl:{dashboard:" and the name of the service, are some hundreds, and are gone
// minutes after the last instance, but for the bans and the latest changes, which last for as long as they are news.
//
// The user of that client needs, beside what package redisstore says,
//
//	+hincrby +hgetall +zincrby +zrevrange +zremrangebyrank +lpush +ltrim +lrange
//
// and what package redisoverride says where the page sets overrides.
package dashboard
