package lock_test

import (
	"context"
	"testing"
	"time"

	"github.com/rlgen/rlgen/ratelimit/lock"
)

// recorder is a store that keeps the claims that it was asked to meet.
type recorder struct {
	*lock.Memory
	claims []lock.Claim
}

func (r *recorder) Acquire(ctx context.Context, c lock.Claim) (lock.Answer, error) {
	r.claims = append(r.claims, c)
	return r.Memory.Acquire(ctx, c)
}

// last is the latest claim.
func (r *recorder) last() lock.Claim { return r.claims[len(r.claims)-1] }

// TestHolderIsNext holds that what is asked with the context of a lock or of a permit goes past others of the process, until that is let go.
func TestHolderIsNext(t *testing.T) {
	s := &recorder{Memory: lock.NewMemory()}
	locks, err := lock.New(s, lock.WithLease(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	sem, err := lock.NewSemaphore(s, 10, lock.WithLease(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	ask := func(ctx context.Context, want bool) {
		t.Helper()
		_, hold, err := locks.TryLock(ctx, "another")
		if err != nil {
			t.Fatal(err)
		}
		hold.Unlock()
		if got := s.last().Next; got != want {
			t.Errorf("the claim is next: %t, want %t", got, want)
		}
	}
	ask(t.Context(), false)
	outer, hold, err := locks.Lock(t.Context(), "it")
	if err != nil {
		t.Fatal(err)
	}
	inner, permit, err := sem.Acquire(outer, "it")
	if err != nil {
		t.Fatal(err)
	}
	ask(context.WithoutCancel(outer), true)
	ask(context.WithoutCancel(inner), true)
	permit.Release()
	ask(context.WithoutCancel(inner), true)
	hold.Unlock()
	ask(context.WithoutCancel(inner), false)
}
