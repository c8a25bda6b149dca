package lock_test

import (
	"context"
	"testing"

	"github.com/rlgen/rlgen/ratelimit/lock"
)

// BenchmarkMemory acquires and releases a free lock.
func BenchmarkMemory(b *testing.B) {
	l, err := lock.New(lock.NewMemory())
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		_, hold, err := l.Lock(context.Background(), "name")
		if err != nil {
			b.Fatal(err)
		}
		if err := hold.Unlock(); err != nil {
			b.Fatal(err)
		}
	}
}
