package lock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/rlgen/rlgen/ratelimit/lock"
)

// TestSegment holds that items fall where they fell in earlier versions, and evenly.
func TestSegment(t *testing.T) {
	for item, want := range map[string]int{"": 0, "a": 0, "order-42": 0, "order-43": 0} {
		if got := lock.Segment(item, 1); got != want {
			t.Errorf("Segment(%q, 1) = %d, want %d", item, got, want)
		}
	}
	for item, want := range segments {
		if got := lock.Segment(item, 16); got != want {
			t.Errorf("Segment(%q, 16) = %d, want %d", item, got, want)
		}
	}
	counts := make([]int, 16)
	for i := range 16_000 {
		counts[lock.Segment(fmt.Sprint("order-", i), 16)]++
	}
	for n, count := range counts {
		if count < 800 || count > 1200 {
			t.Errorf("segment %d has %d of 16,000 items, want about 1,000", n, count)
		}
	}
}

// TestSegmentedLock moves amounts between accounts, two at a time in any order.
func TestSegmentedLock(t *testing.T) {
	s, err := lock.NewSegmented(mustLocker(t), "accounts", 4)
	if err != nil {
		t.Fatal(err)
	}
	accounts := make([]int, 8)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 100 {
				from, to := (g+i)%8, (g*3+i*5)%8
				_, holds, err := s.Lock(context.Background(), fmt.Sprint(from), fmt.Sprint(to))
				if err != nil {
					t.Error(err)
					return
				}
				accounts[from]--
				accounts[to]++
				if err := holds.Unlock(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	sum := 0
	for _, a := range accounts {
		sum += a
	}
	if sum != 0 {
		t.Errorf("sum = %d, want 0", sum)
	}
}

// TestSegmentedLockFails holds that nothing stays held.
func TestSegmentedLockFails(t *testing.T) {
	l := mustLocker(t, lock.WithWait(0))
	s, err := lock.NewSegmented(l, "accounts", 1024)
	if err != nil {
		t.Fatal(err)
	}
	_, held, err := s.Lock(context.Background(), "b")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Lock(context.Background(), "a", "b", "c"); !errors.Is(err, lock.ErrBusy) {
		t.Errorf("Lock = %v, want %v", err, lock.ErrBusy)
	}
	if _, others, err := s.Lock(context.Background(), "a", "c"); err != nil {
		t.Errorf("Lock of what the failed one wanted = %v, want nil", err)
	} else {
		others.Unlock()
	}
	held.Unlock()
}

func mustLocker(t *testing.T, opts ...lock.Option) *lock.Locker {
	t.Helper()
	l, err := lock.New(lock.NewMemory(), opts...)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// segments are some items' segments of 16.
var segments = map[string]int{"": 1, "a": 0, "order-42": 2, "order-43": 1, "übung": 3}
