package main

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
)

// BenchmarkCall measures one call of each, by callers: those of the table, for benchstat.
func BenchmarkCall(b *testing.B) {
	for _, c := range []struct {
		name    string
		callers int
		open    open
	}{
		{"rlgen-sliding-log/callers=64", 64, redisTake(slidingLog, twoRules)},
		{"rlgen-compact-log/callers=64", 64, redisTake(compactLog, twoRules)},
		{"rlgen-fixed-window/callers=64", 64, redisTake(fixedWindow, twoRules[1:])},
		{"rlgen-sliding-log/callers=1", 1, redisTake(slidingLog, twoRules)},
		{"rlgen-compact-log/callers=1", 1, redisTake(compactLog, twoRules)},
		{"redis_rate/callers=64", 64, redisRate(1)},
		{"redis_rate-two/callers=64", 64, redisRate(2)},
		{"redis_rate/callers=1", 1, redisRate(1)},
		{"ulule/callers=64", 64, ulule},
		{"throttled/callers=64", 64, throttle},
		{"go-zero/callers=64", 64, goZero},
		{"rueidislimiter-script/callers=64", 64, rueidisLimiter},
		{"rueidis-least/callers=64", 64, rueidisLeast},
		{"empty-AutoPipeline/callers=64", 64, emptyAutoPipeline},
		{"bare-EVALSHA/callers=1", 1, bareEvalsha},
		{"rlgen-prefetch/callers=64", 64, prefetched},
		{"rlgen-denied-hot-key/callers=64", 64, deniedHotKey},
		{"memstore-gcra/callers=1", 1, memTake(twoRules[1])},
		{"memstore-gcra/allowed/callers=1", 1, memTake(most)},
		{"go-limiter/callers=1", 1, goLimiter(twoRules[1])},
		{"go-limiter/allowed/callers=1", 1, goLimiter(most)},
		{"time-rate/callers=1", 1, timeRate},
		{"wrapper/callers=1", 1, wrapped},
		{"guard/callers=1", 1, guarded},
	} {
		b.Run(c.name, func(b *testing.B) { benchmark(b, c.callers, c.open) })
	}
}

func benchmark(b *testing.B, callers int, open open) {
	l := newLab()
	b.Cleanup(l.close)
	call, err := open(l)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	if callers == 1 {
		for b.Loop() {
			if err := call(rand.IntN(ids)); err != nil {
				b.Fatal(err)
			}
		}
		return
	}
	// Not b.RunParallel, which has a multiple of the processors.
	var calls atomic.Int64
	var all sync.WaitGroup
	b.ResetTimer()
	for range callers {
		all.Go(func() {
			for calls.Add(1) <= int64(b.N) {
				if err := call(rand.IntN(ids)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}
