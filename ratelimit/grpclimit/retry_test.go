package grpclimit_test

import (
	"errors"
	"fmt"
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

func memory(t *testing.T) *ratelimit.Limiter {
	t.Helper()
	l, err := ratelimit.New(memstore.New())
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestRetryPolicyHonoursThePushback(t *testing.T) {
	o := newOrders(memory(t), perUser(1, 60*time.Millisecond, 0))
	c := dial(t, serve(t, o, asAlice()), retrying(2))
	const calls = 3
	for i := range calls {
		// Two attempts are all that there are, so the second of each passes only because the client has waited for as long as it was told.
		if err := c.create(t.Context(), 1); err != nil {
			t.Errorf("call %d: %v, want it to pass at the second attempt at last", i, err)
		}
	}
	denied := 0
	seen := o.seen()
	for i, a := range seen {
		var exceeded *ratelimit.ExceededError
		if !errors.As(a.err, &exceeded) {
			continue
		}
		denied++
		if waited := seen[i+1].at.Sub(a.at); waited < exceeded.RetryAfter {
			t.Errorf("attempt %d came %v after one that was told to wait %v", i+1, waited, exceeded.RetryAfter)
		}
	}
	if len(seen) != calls+denied {
		t.Errorf("the server has seen %d attempts, of which it denied %d, want %d", len(seen), denied, calls+denied)
	}
	if denied == 0 {
		t.Skip("this machine was too slow to exceed the limit")
	}
}

func TestRetryPolicyOfStreamsHonoursThePushback(t *testing.T) {
	o := newOrders(memory(t), perUser(1, 60*time.Millisecond, 0))
	c := dial(t, serve(t, o, asAlice()), retrying(2))
	for i := range 3 {
		if answered, _, err := c.follow(t.Context(), 1); answered != 1 || err != nil {
			t.Errorf("stream %d: %d messages, %v, want one", i, answered, err)
		}
	}
}

func TestRetryPolicyGivesUpWhereWaitingDoesNotHelp(t *testing.T) {
	o := newOrders(memory(t), perUser(2, time.Hour, 0))
	c := dial(t, serve(t, o, asAlice()), retrying(4))
	if err := c.create(t.Context(), 3); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a call of cost 3 of 2 = %v, want ResourceExhausted", err)
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
