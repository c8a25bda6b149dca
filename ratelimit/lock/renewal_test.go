package lock

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// forgetful is a store that renews nothing for a while.
type forgetful struct {
	*Memory
	away atomic.Bool
}

func (s *forgetful) Renew(ctx context.Context, c Claim) (Answer, error) {
	if s.away.Load() {
		return Answer{}, away
	}
	return s.Memory.Renew(ctx, c)
}

// TestRenewalIsTriedAgain holds that a renewal that fails is tried again soon enough that a hold outlasts a store that is away for more than a third of its lease.
func TestRenewalIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &forgetful{Memory: NewMemory()}
		l, err := New(s, WithLease(30*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		ctx, hold := must(t, l)
		time.Sleep(9 * time.Second)
		s.away.Store(true)
		time.Sleep(12 * time.Second)
		s.away.Store(false)
		time.Sleep(time.Minute)
		if err := ctx.Err(); err != nil {
			t.Errorf("the hold ended: %v, want it renewed once the store is back", context.Cause(ctx))
		}
		if err := hold.Unlock(); err != nil {
			t.Errorf("Unlock = %v, want nil", err)
		}
	})
}
