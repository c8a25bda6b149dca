package redislock

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rlgen/rlgen/ratelimit/lock"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
)

// TestLeaseOfWhoSendsNone holds that a lease of [lock.DefaultLease], which is not sent, is as long as one that is: for who takes a lock, for who asks again, and for who finds it taken.
func TestLeaseOfWhoSendsNone(t *testing.T) {
	if want := fmt.Sprintf("local LEASE = '%d'", lock.DefaultLease.Milliseconds()); !strings.Contains(lockAcquireLua, want) {
		t.Errorf("lock_acquire.lua lacks %q", want)
	}
	client := redistest.Standalone(t).Client(t)
	s, err := New(client)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c := lock.Claim{Name: redistest.Prefix(t), ID: "a:0", Lease: lock.DefaultLease}
	for range 2 {
		a, err := s.Acquire(t.Context(), c)
		if err != nil || !a.Held || a.Left <= 0 || a.Left > c.Lease {
			t.Fatalf("Acquire = %+v, %v, want it held for %v", a, err, c.Lease)
		}
		if left := client.PTTL(t.Context(), fmt.Sprint(s.keys(&c).held)).Val(); left <= 0 || left > c.Lease {
			t.Errorf("the key ends in %v, want %v at most", left, c.Lease)
		}
	}
	c.ID = "b:0"
	if a, err := s.Acquire(t.Context(), c); err != nil || a.Held || a.Left <= 0 || a.Left > c.Lease {
		t.Errorf("Acquire of another = %+v, %v, want it held by the first for %v", a, err, lock.DefaultLease)
	}
	c.ID = "a:0"
	if held, err := s.Release(t.Context(), c); err != nil || !held {
		t.Errorf("Release = %v, %v, want true", held, err)
	}
}
