package lock_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/rlgen/rlgen/ratelimit/lock"
	"github.com/rlgen/rlgen/ratelimit/lock/locktest"
)

func TestMemory(t *testing.T) {
	locktest.Run(t, func(t *testing.T) *locktest.Bench {
		start := time.Now()
		var passed atomic.Int64
		m := lock.NewMemory(lock.WithClock(func() time.Time { return start.Add(time.Since(start) + time.Duration(passed.Load())) }))
		return &locktest.Bench{
			Store: m,
			Pass:  func(_ testing.TB, _ string, d time.Duration) { passed.Add(int64(d)) },
		}
	})
}
