package redislock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/lock"
	"github.com/rlgen/rlgen/ratelimit/lock/redislock"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
)

// TestSkewedClients asks by the clock of a bubble, which is decades behind the server's, and then decades ahead of it. It decides neither what is
// free, nor when a lease ends, nor the order of the tokens.
func TestSkewedClients(t *testing.T) {
	const decades = 60 * 365 * 24 * time.Hour
	server := redistest.Standalone(t)
	name := redistest.Prefix(t)
	var last int64
	locks, semaphores := lock.Claim{Name: name, Lease: time.Hour}, lock.Claim{Name: name, Lease: time.Hour, Limit: 1, Cost: 1}
	for _, kind := range []lock.Claim{locks, semaphores, locks} { // the last one's clock is behind that of the first
		synctest.Test(t, func(t *testing.T) {
			var behind, ahead int64
			asSkewed(t, server, kind, func(s skew) { behind = s.acquire("behind", true) })
			time.Sleep(decades)
			if time.Now().Year() < 2050 {
				t.Fatalf("it is %v, want a clock that is ahead", time.Now())
			}
			asSkewed(t, server, kind, func(s skew) {
				s.acquire("ahead", false)
				s.renew("behind")
				s.release("behind")
				ahead = s.acquire("ahead", true)
				s.release("ahead")
				s.endsSoon()
			})
			if kind.Limit > 0 {
				return
			}
			if behind <= last || ahead <= behind {
				t.Errorf("tokens %d and %d after %d, want them to grow", behind, ahead, last)
			}
			last = ahead
		})
	}
}

// asSkewed asks as a client which has the clock of the bubble. It is gone before time passes there, of which its timers would see every minute.
func asSkewed(t *testing.T, server *redistest.Server, claim lock.Claim, ask func(skew)) {
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer client.Close()
	s, err := redislock.New(client)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ask(skew{t, s, claim})
}

// skew asks a store about one name.
type skew struct {
	t *testing.T
	*redislock.Store
	claim lock.Claim
}

func (s skew) of(id string) lock.Claim {
	c := s.claim
	c.ID = id + ":0"
	return c
}

// acquire fails the test unless the answer is as is wanted. It returns the token.
func (s skew) acquire(id string, want bool) int64 {
	s.t.Helper()
	c := s.of(id)
	a, err := s.Acquire(context.Background(), c)
	if err != nil || a.Held != want || a.Left <= 0 || a.Left > c.Lease {
		s.t.Errorf("Acquire(%s) = %+v, %v, want held %v and what is left of %v", id, a, err, want, c.Lease)
	}
	return a.Token
}

func (s skew) renew(id string) {
	c := s.of(id)
	if a, err := s.Renew(context.Background(), c); err != nil || !a.Held || a.Left > c.Lease {
		s.t.Errorf("Renew(%s) = %+v, %v, want it held for %v at most", id, a, err, c.Lease)
	}
}

func (s skew) release(id string) {
	if held, err := s.Release(context.Background(), s.of(id)); err != nil || !held {
		s.t.Errorf("Release(%s) = %v, %v, want true", id, held, err)
	}
}

// endsSoon holds that a short lease of a client's that is ahead ends.
func (s skew) endsSoon() {
	brief := s
	brief.claim.Lease = lock.MinLease
	brief.acquire("brief", true)
	if err := redistest.Poll(func() error {
		a, err := s.Acquire(context.Background(), s.of("next"))
		if err == nil && !a.Held {
			err = errors.New("the lease has not ended")
		}
		return err
	}); err != nil {
		s.t.Error(err)
	}
	s.release("next")
}
