package grpclimit_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/memstore"
	"github.com/rlgen/rlgen/ratelimit/ratelimittest"
)

// retrying is the standard retry policy, of clients that try again at once unless a server says otherwise.
func retrying(attempts int) grpc.DialOption {
	return grpc.WithDefaultServiceConfig(fmt.Sprintf(`{"methodConfig": [{"name": [{}], "retryPolicy": {
		"maxAttempts": %d, "initialBackoff": "0.000001s", "maxBackoff": "0.000001s", "backoffMultiplier": 1,
		"retryableStatusCodes": ["RESOURCE_EXHAUSTED", "UNAVAILABLE"]}}]}`, attempts))
}

// untilDenied is a clock that stands until a call is denied, and goes from then on: what a call is told to wait is what it has to wait.
type untilDenied struct {
	mu    sync.Mutex
	since time.Time
}

func (c *untilDenied) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.since.IsZero() {
		return ratelimittest.Start()
	}
	return ratelimittest.Start().Add(time.Since(c.since))
}

func (c *untilDenied) Observe(_ context.Context, _ *ratelimit.Decision, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if errors.Is(err, ratelimit.ErrExceeded) && c.since.IsZero() {
		c.since = time.Now()
	}
}

func memory(t *testing.T) *ratelimit.Limiter {
	t.Helper()
	clock := new(untilDenied)
	l, err := ratelimit.New(memstore.New(memstore.WithClock(clock.Now)), ratelimit.WithObserver(clock))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Two attempts are all that there are, so the second of the second call passes only because the client has waited for as long as it was told.
func TestRetryPolicyHonoursThePushback(t *testing.T) {
	for name, call := range map[string]func(client) error{
		"calls": func(c client) error { return c.create(t.Context(), 1) },
		"streams": func(c client) error {
			_, _, err := c.follow(t.Context(), 1)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOrders(memory(t), perUser(1, 60*time.Millisecond, 0))
			c := dial(t, serve(t, o, asAlice()), retrying(2))
			for i := range 2 {
				if err := call(c); err != nil {
					t.Errorf("call %d: %v, want it to pass at the second attempt at last", i, err)
				}
			}
			seen := o.seen()
			var exceeded *ratelimit.ExceededError
			if len(seen) != 3 || !errors.As(seen[1].err, &exceeded) {
				t.Fatalf("the server has seen %v, want three attempts, the second of which it denied", seen)
			}
			if waited := seen[2].at.Sub(seen[1].at); waited < exceeded.RetryAfter {
				t.Errorf("the third attempt came %v after one that was told to wait %v", waited, exceeded.RetryAfter)
			}
		})
	}
}

func TestRetryPolicyGivesUpWhereWaitingDoesNotHelp(t *testing.T) {
	o := newOrders(memory(t), perUser(2, time.Hour, 0))
	c := dial(t, serve(t, o, asAlice()), retrying(4))
	if err := c.create(t.Context(), 3); status.Code(err) != codes.InvalidArgument {
		t.Errorf("a call of cost 3 of 2 = %v, want InvalidArgument", err)
	}
	if n := len(o.seen()); n != 1 {
		t.Errorf("the server has seen %d attempts, want 1", n)
	}
}

func TestRetryPolicyGivesUpAfterAHeader(t *testing.T) {
	o := newOrders(ratelimittest.DenyAll(time.Millisecond), perUser(2, time.Hour, 0))
	o.header = true
	c := dial(t, serve(t, o, asAlice()), retrying(4))
	if err := c.create(t.Context(), 1); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a call = %v, want ResourceExhausted", err)
	}
	if n := len(o.seen()); n != 1 {
		t.Errorf("the server has seen %d attempts, want 1", n)
	}
}

func TestRetryPolicyEndsWithItsAttempts(t *testing.T) {
	o := newOrders(ratelimittest.DenyAll(time.Millisecond), perUser(2, time.Hour, 0))
	c := dial(t, serve(t, o, asAlice()), retrying(3))
	if err := c.create(t.Context(), 1); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a call = %v, want ResourceExhausted", err)
	}
	if n := len(o.seen()); n != 3 {
		t.Errorf("the server has seen %d attempts, want 3", n)
	}
}
