package main

import (
	"context"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	bsm "github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	goredis "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/lock"
	"github.com/rlgen/rlgen/ratelimit/lock/redislock"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
)

func TestMain(m *testing.M) { os.Exit(redistest.Main(m)) }

const lease = 30 * time.Second

// locker locks name, waiting for it, and returns what unlocks it.
type locker struct {
	name string
	lock func(name string) (unlock func() error, err error)

	executed *executed // of its client
	asks     int64     // commands by which one who finds the lock held comes to wait
}

// executed counts the commands that a client has had an answer to.
type executed struct{ atomic.Int64 }

func (*executed) DialHook(redis.DialHook) redis.DialHook { return nil }

func (*executed) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook { return nil }

func (e *executed) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		defer e.Add(1)
		return next(ctx, cmd)
	}
}

// lockers are ours and others', all over clients with the same options; those that poll do so every retry.
func lockers(b *testing.B, retry string, pollBSM, pollRedsync redsync.DelayFunc) []locker {
	server := redistest.Standalone(b)
	var counts [3]executed
	client := func(i int) *redis.Client {
		c := server.Client(b)
		c.AddHook(&counts[i])
		return c
	}
	ctx := context.Background()

	store, err := redislock.New(client(0))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { store.Close() })
	ours, err := lock.New(store, lock.WithLease(lease))
	if err != nil {
		b.Fatal(err)
	}
	obtainer := bsm.New(client(1))
	sync := redsync.New(goredis.NewPool(client(2)))
	return []locker{
		{"rlgen", func(name string) (func() error, error) {
			_, hold, err := ours.Lock(ctx, name)
			if err != nil {
				return nil, err
			}
			return hold.Unlock, nil
		}, &counts[0], 2}, // it tries, and then stands in the queue
		{"bsm" + retry, func(name string) (func() error, error) {
			l, err := obtainer.Obtain(ctx, name, lease, &bsm.Options{RetryStrategy: strategy(pollBSM)})
			if err != nil {
				return nil, err
			}
			return func() error { return l.Release(ctx) }, nil
		}, &counts[1], 1},
		{"redsync" + retry, func(name string) (func() error, error) {
			opts := []redsync.Option{redsync.WithExpiry(lease), redsync.WithTries(100_000)}
			if pollRedsync != nil {
				opts = append(opts, redsync.WithRetryDelayFunc(pollRedsync))
			}
			m := sync.NewMutex(name, opts...)
			if err := m.Lock(); err != nil {
				return nil, err
			}
			return func() error { _, err := m.Unlock(); return err }, nil
		}, &counts[2], 1},
	}
}

// strategy is a retry strategy of bsm's.
type strategy redsync.DelayFunc

func (s strategy) NextBackoff() time.Duration { return s(0) }

func every(d time.Duration) redsync.DelayFunc { return func(int) time.Duration { return d } }

// medians reports the median of each locker's times.
func medians(b *testing.B, lockers []locker, times [][]time.Duration) {
	b.ReportMetric(0, "ns/op")
	for i, l := range lockers {
		slices.Sort(times[i])
		b.ReportMetric(float64(times[i][len(times[i])/2]), l.name+"-ns")
	}
}

// BenchmarkFreeLock acquires and releases a lock that nobody else wants.
func BenchmarkFreeLock(b *testing.B) {
	all := lockers(b, "", every(time.Millisecond), every(time.Millisecond))
	times := make([][]time.Duration, len(all))
	n := 0
	for b.Loop() {
		n++
		for _, i := range rand.Perm(len(all)) { // for one that leaves goroutines behind slows whoever follows
			name := all[i].name + "/order/" + strconv.Itoa(n%100)
			begin := time.Now()
			unlock, err := all[i].lock(name)
			if err == nil {
				err = unlock()
			}
			if err != nil {
				b.Fatal(err)
			}
			times[i] = append(times[i], time.Since(begin))
		}
	}
	differences(b, all, times)
	medians(b, all, times)
}

// BenchmarkHandOver measures from the call that releases a lock until the one who waits for it has it. The others poll:
// bsm/redislock as its documentation has it (every 100 ms), redsync by its default (50 to 250 ms), and both every ms.
func BenchmarkHandOver(b *testing.B) {
	for _, test := range []struct {
		name         string
		bsm, redsync redsync.DelayFunc
	}{
		{"theirs", every(100 * time.Millisecond), nil},
		{"1ms", every(time.Millisecond), every(time.Millisecond)},
	} {
		b.Run(test.name, func(b *testing.B) {
			all := lockers(b, "", test.bsm, test.redsync)
			times := make([][]time.Duration, len(all))
			name := redistest.Prefix(b)
			for b.Loop() {
				for _, i := range rand.Perm(len(all)) {
					times[i] = append(times[i], handOver(b, all[i], name+all[i].name))
				}
			}
			medians(b, all, times)
		})
	}
}

func handOver(b *testing.B, l locker, name string) time.Duration {
	unlock, err := l.lock(name)
	if err != nil {
		b.Fatal(err)
	}
	waits := l.executed.Load() + l.asks
	got := make(chan time.Time)
	go func() {
		next, err := l.lock(name)
		at := time.Now()
		if err != nil {
			b.Error(err)
		} else if err := next(); err != nil {
			b.Error(err)
		}
		got <- at
	}()
	for l.executed.Load() < waits {
		runtime.Gosched()
	}
	begin := time.Now()
	if err := unlock(); err != nil {
		b.Fatal(err)
	}
	return (<-got).Sub(begin)
}
