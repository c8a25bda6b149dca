package main

// table is what the project is held to. What is not there yet has no contestant of ours.
var table = []row{
	{"two-rule sliding-log, 64 callers / redis_rate two calls", "sliding-log", "redis_rate two calls", perSecond, 4, 6},
	{"two-rule compact-log, 64 callers / redis_rate two calls", "compact-log", "redis_rate two calls", perSecond, 6, 10},
	{"two-rule compact-log / rueidislimiter's script, one rule", "compact-log", "rueidislimiter's script", perSecond, 2, 3},
	{"two-rule compact-log / empty EVALSHA through AutoPipeline", "compact-log", "empty AutoPipeline", perSecond, 0.7, 1},
	{"one caller, p50 / bare EVALSHA of the same script", "compact-log alone", "bare EVALSHA alone", nanos, 1.15, 1.05},
	{"the same within a context that can be cancelled", "compact-log request", "bare EVALSHA alone", nanos, 0, 0},
	{"denied hot key (deny cache) / redis_rate", "denied hot key", "redis_rate", perSecond, 100, 1000},
	{"denied hot key (deny cache), allocations", "denied hot key", "", allocsOf, 0.01, 0},
	{"allowed hot global with prefetch / redis_rate", "prefetch", "redis_rate", perSecond, 50, 500},
	{"bytes per logged call, sliding-log / UUID members", "sliding-log bytes", "UUID members bytes", bytes, 0.5, 0.25},
	{"bytes per logged call, compact-log", "compact-log bytes", "", bytesOf, 10, 7},
	{"memstore gcra / go-limiter memorystore, ns", "memstore gcra", "go-limiter", nanos, 1, 0.6},
	{"generated wrapper over a direct call of the guard", "wrapper", "guard", nanosMore, 30, 10},
	{"generated wrapper over a direct call of the guard, allocations", "wrapper", "guard", allocMore, 0.01, 0},
	{"allocations per Redis decision / redis_rate", "compact-log", "redis_rate", allocs, 1, 0},
	{"allocations per Redis decision", "compact-log", "", allocsOf, 0, 2},
	{"allocations per Redis decision, one caller", "compact-log alone", "", allocsOf, 0, 2},
	{"rlgen ./..., 100 packages, 1,000 methods / loading them", "rlgen", "loading", nanos, 1.5, 1.1},

	{"two-rule sliding-log, 50 calls logged of each id / redis_rate two calls", "sliding-log filled", "redis_rate two calls", perSecond, 0, 0},
	{"two-rule compact-log, 50 calls logged of each id / redis_rate two calls", "compact-log filled", "redis_rate two calls", perSecond, 0, 0},
	{"two-rule compact-log, 50 calls logged of each id / rueidislimiter's script", "compact-log filled", "rueidislimiter's script", perSecond, 0, 0},
	{"two-rule sliding-log, told what remains / redis_rate two calls", "sliding-log told", "redis_rate two calls", perSecond, 0, 0},
	{"two-rule compact-log, told what remains / redis_rate two calls", "compact-log told", "redis_rate two calls", perSecond, 0, 0},
	{"one-rule fixed-window / redis_rate one call", "fixed-window", "redis_rate", perSecond, 0, 0},
	{"one-rule fixed-window / ulule/limiter", "fixed-window", "ulule", perSecond, 0, 0},
	{"one-rule fixed-window / throttled", "fixed-window", "throttled", perSecond, 0, 0},
	{"one-rule fixed-window / go-zero PeriodLimit", "fixed-window", "go-zero", perSecond, 0, 0},
	{"one-rule fixed-window / rueidislimiter's script", "fixed-window", "rueidislimiter's script", perSecond, 0, 0},
	{"one-rule fixed-window / least one-rule script through rueidis", "fixed-window", "least through rueidis", perSecond, 0, 0},
	{"two-rule compact-log / least one-rule script through rueidis", "compact-log", "least through rueidis", perSecond, 0, 0},
	{"one caller, p50, two-rule compact-log / redis_rate one call", "compact-log alone", "redis_rate alone", nanos, 0, 0},
	{"memstore gcra / x/time/rate, one limiter, ns", "memstore gcra", "x/time/rate", nanos, 0, 0},
}

// contestants are all that rows compare, by name.
var contestants = map[string]contestant{
	"sliding-log":         together(64, redisTake(slidingLog, twoRules)),
	"compact-log":         together(64, redisTake(compactLog, twoRules)),
	"sliding-log filled":  filled(slidingLog),
	"compact-log filled":  filled(compactLog),
	"sliding-log told":    together(64, redisTold(slidingLog, twoRules)),
	"compact-log told":    together(64, redisTold(compactLog, twoRules)),
	"fixed-window":        together(64, redisTake(fixedWindow, twoRules[1:])),
	"compact-log alone":   in(ofReplies, redisTake(compactLog, twoRules)),
	"compact-log request": in(ofReplies, redisRequest),

	"denied hot key": together(64, deniedHotKey),
	"prefetch":       together(64, prefetched),

	"redis_rate":              together(64, redisRate(1)),
	"redis_rate two calls":    together(64, redisRate(2)),
	"redis_rate alone":        in(ofReplies, redisRate(1)),
	"ulule":                   together(64, ulule),
	"throttled":               together(64, throttle),
	"go-zero":                 together(64, goZero),
	"rueidislimiter's script": together(64, rueidisLimiter),
	"least through rueidis":   together(64, rueidisLeast),
	"empty AutoPipeline":      together(64, emptyAutoPipeline),
	"bare EVALSHA alone":      in(ofReplies, bareEvalsha),

	"sliding-log bytes":  by(leaves(redisTake(slidingLog, wide))),
	"compact-log bytes":  by(leaves(redisTake(compactLog, wide))),
	"UUID members bytes": by(leaves(uuidMembers)),

	"memstore gcra": in(ofProcesses, memTake),
	"go-limiter":    in(ofProcesses, goLimiter),
	"x/time/rate":   in(ofProcesses, timeRate),
	"wrapper":       in(ofProcesses, wrapped),
	"guard":         in(ofProcesses, guarded),

	"rlgen":   by(corpus(generate)),
	"loading": by(corpus(load)),
}
