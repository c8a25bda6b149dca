package main

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// sample is what one round found out about a contestant. What it did not measure is zero.
type sample struct {
	perSecond float64 // calls
	nanos     float64 // of a call: the mean, or the median in a heat
	allocs    float64 // of a call
	bytes     float64 // that a call leaves in the server
	own       float64 // µs of the processors that a call takes of this program
	server    float64 // and of the server
}

// measurement measures for about so long.
type measurement func(span time.Duration) (sample, error)

// prepare makes ready to measure one contestant.
type prepare func(*lab) (measurement, error)

// call is one call for one of ids.
type call func(id int) error

// open makes a contestant's call.
type open func(*lab) (call, error)

const ids = 10_000

// contestant is how one is measured: by itself, or in a heat with others.
type contestant struct {
	prepare prepare // nil in a heat
	heat    heat
	open    open
}

// by measures a contestant by itself.
func by(prepare prepare) contestant { return contestant{prepare: prepare} }

// in measures a contestant in a heat.
func in(heat heat, open open) contestant { return contestant{heat: heat, open: open} }

// together lets so many callers call at once.
func together(callers int, open open) contestant {
	return by(func(l *lab) (measurement, error) {
		call, err := open(l)
		if err != nil {
			return nil, err
		}
		return func(span time.Duration) (sample, error) { return throughput(l, callers, span, call) }, nil
	})
}

func throughput(l *lab, callers int, span time.Duration, call call) (sample, error) {
	for i := range 10 {
		if err := call(i); err != nil {
			return sample{}, err
		}
	}
	var (
		stop   atomic.Bool
		total  atomic.Int64
		failed atomic.Pointer[error]
		wg     sync.WaitGroup
	)
	runtime.GC()
	before, own, server := mallocs(), ownTime(), l.serverTime()
	begin := time.Now()
	timer := time.AfterFunc(span, func() { stop.Store(true) })
	defer timer.Stop()
	for range callers {
		wg.Go(func() {
			n, err := repeat(call, &stop)
			total.Add(n)
			if err != nil {
				failed.Store(&err)
			}
		})
	}
	wg.Wait()
	took, n := time.Since(begin), float64(total.Load())
	if err := failed.Load(); err != nil {
		return sample{}, *err
	}
	return sample{
		perSecond: n / took.Seconds(),
		nanos:     float64(took) / n,
		allocs:    (mallocs() - before) / n,
		own:       (ownTime() - own) / n,
		server:    (l.serverTime() - server) / n,
	}, nil
}

// repeat calls until stop, and returns how often.
func repeat(call call, stop *atomic.Bool) (n int64, err error) {
	random := rand.New(rand.NewPCG(rand.Uint64(), 1))
	for ; err == nil && !stop.Load(); n++ {
		err = call(random.IntN(ids))
	}
	return n, err
}

// mallocs is how many objects the program has ever allocated.
func mallocs() float64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.Mallocs)
}
