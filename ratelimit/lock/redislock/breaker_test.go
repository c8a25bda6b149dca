package redislock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/lock"
	"github.com/rlgen/rlgen/ratelimit/lock/redislock"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
)

// TestDeadlinesOfAFrozenServerLetItRest holds that acquisitions whose deadlines are sooner than the budget find out, too, that a server does not answer.
func TestDeadlinesOfAFrozenServerLetItRest(t *testing.T) {
	t.Parallel()
	for name, semaphore := range map[string]bool{"lock": false, "semaphore": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			s := newStore(t, server.Client(t), redislock.WithBudget(500*time.Millisecond))
			h := holder{t, s, semaphore}
			until(t, func() bool {
				got, err := h.hold("warm", 0)
				return err == nil && got.unlock() == nil
			})
			server.Freeze(t)
			defer server.Resume(t)
			ask := func() error {
				ctx, end := context.WithTimeout(context.Background(), 40*time.Millisecond)
				defer end()
				c := lock.Claim{Name: "cold", ID: "a:0", Lease: time.Second}
				if semaphore {
					c.Limit, c.Cost = 3, 1
				}
				_, err := s.Acquire(ctx, c)
				return err
			}
			for i := range 5 {
				if err := ask(); !errors.Is(err, context.DeadlineExceeded) || errors.As(err, new(*store.Error)) {
					t.Fatalf("acquisition %d = %v, want %v", i, err, context.DeadlineExceeded)
				}
			}
			until(t, func() bool { // once the budget of the fifth has ended
				err := ask()
				return err != nil && strings.Contains(err.Error(), "not asked for a moment")
			})
		})
	}
}

// TestBreaker holds that a server which does not answer is not waited for after five acquisitions, that what is let go then
// is free once the server answers, and that it is asked again then.
func TestBreaker(t *testing.T) {
	t.Parallel()
	for name, semaphore := range map[string]bool{"lock": false, "semaphore": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Standalone(t)
			p := redistest.NewProxy(t, server.Addr())
			client := redis.NewClient(&redis.Options{Addr: p.Addr(), DialerRetries: 1})
			t.Cleanup(func() { client.Close() })
			faulty := holder{t, newStore(t, client, redislock.WithBudget(100*time.Millisecond)), semaphore}
			var got held
			sound, held := holder{t, newStore(t, server.Client(t)), semaphore}, redistest.Prefix(t)
			until(t, func() bool { // this process may sleep for the whole budget, and what came of the call is then let go
				var err error
				got, err = faulty.hold(held, 0)
				return err == nil
			})

			p.Always(redistest.CutBefore)
			resting := func(err error) bool { return err != nil && strings.Contains(err.Error(), "not asked for a moment") }
			for i := range 5 {
				if _, err := faulty.hold(held+"other", 0); err == nil || resting(err) {
					t.Fatalf("acquisition %d without an answer = %v, want an error of the connection", i+1, err)
				}
			}
			until(t, func() bool { // at once, unless this process has slept for as long as the server's rest
				_, err := faulty.hold(held+"other", 0)
				return classOf(err) == store.Unavailable && resting(err)
			})
			if err := got.unlock(); err == nil {
				t.Error("release without an answer succeeds, want an error")
			}

			p.Always(redistest.Pass)
			sound.must(held, 20*time.Second).unlock()
			until(t, func() bool {
				next, err := faulty.hold(held+"other", 0)
				return err == nil && next.unlock() == nil
			})
		})
	}
}
