package connectlimit_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/connectlimit"
	"github.com/rlgen/rlgen/ratelimit/ratelimittest"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// in is want as a protocol has it.
func (want said) in(protocol string) said {
	if protocol == "connect" {
		want.Pushback = ""
	} else {
		want.RetryAfter = ""
	}
	return want
}

func TestClientsAreTold(t *testing.T) {
	const tooMuch, why = "the call asks for what its rate limit never allows, however long it waits", `shop.Orders Create: limit "Create"`
	for _, test := range []struct {
		name    string
		limiter *ratelimit.Limiter
		cost    int64
		opts    []connectlimit.Option
		want    said
	}{
		{
			"exceeded", ratelimittest.DenyAll(90 * time.Second), 1, []connectlimit.Option{asAlice()},
			said{connect.CodeResourceExhausted, `rate limit "Create" is exceeded, retry after 1m30s`, "Create", why, 90 * time.Second, "90", "90000"},
		},
		{
			"exceeded for 2s and 1ns", ratelimittest.DenyAll(2*time.Second + 1), 1, []connectlimit.Option{asAlice()},
			said{connect.CodeResourceExhausted, `rate limit "Create" is exceeded, retry after 2.000000001s`, "Create", why, 2*time.Second + 1, "3", "2001"},
		},
		{
			"exceeded for ever", ratelimittest.DenyAll(store.Never), 1, []connectlimit.Option{asAlice()},
			said{connect.CodeResourceExhausted, tooMuch, "Create", why, 0, "", "-1"},
		},
		{
			"cost", ratelimittest.AllowAll(), 3, []connectlimit.Option{asAlice()},
			said{
				connect.CodeInvalidArgument, `the call has cost 3, rate limit "Create" allows 0 to 2`,
				"Create", why, 0, "", "-1",
			},
		},
		{
			"no identity", ratelimittest.AllowAll(), 1, nil,
			said{Code: connect.CodeUnauthenticated, Message: "the call does not say who is calling"},
		},
		{
			"unavailable", ratelimittest.Failing(store.Unavailable), 1, []connectlimit.Option{asAlice()},
			said{Code: connect.CodeUnavailable, Message: "rate limits cannot be checked at the moment"},
		},
		{
			"misconfigured", ratelimittest.Failing(store.Misconfigured), 1, []connectlimit.Option{asAlice()},
			said{Code: connect.CodeInternal, Message: "rate limiting does not work"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := per(rules.User, 2, time.Minute)
			l.OnFail = rules.FailClosed
			s := serve(t, test.limiter, policy(l), test.opts...)
			for protocol := range protocols {
				err := s.create(protocol, test.cost)
				if diff := cmp.Diff(test.want.in(protocol), saidBy(t, err)); diff != "" {
					t.Errorf("a call by %s is told (-want +got):\n%s", protocol, diff)
				}
				leaks(t, err)
				if test.cost != 1 {
					continue
				}
				_, err = s.follow(protocol, 1)
				if diff := cmp.Diff(test.want.in(protocol), saidBy(t, err)); diff != "" {
					t.Errorf("a stream by %s is told (-want +got):\n%s", protocol, diff)
				}
				leaks(t, err)
			}
		})
	}
}

// leaks holds that an error says nothing of the caller or the store.
func leaks(t *testing.T, err error) {
	t.Helper()
	var told *connect.Error
	if !errors.As(err, &told) {
		t.Fatalf("error = %v, want a *connect.Error", err)
	}
	whole := fmt.Sprint(told.Error(), told.Meta())
	for _, d := range told.Details() {
		value, _ := d.Value()
		whole += fmt.Sprint(value)
	}
	for _, word := range []string{"alice", "example.com", "redis", "made to fail", "rl:", "127.0.0.1"} {
		if strings.Contains(whole, word) {
			t.Errorf("the error %s holds %q", whole, word)
		}
	}
}

// Who is banned is told that it is a ban, and until when.
func TestBansAreTold(t *testing.T) {
	limiter, clock := ratelimittest.New()
	l := per(rules.User, 2, time.Minute)
	l.Ban, l.After = time.Hour, 2
	s := serve(t, limiter, policy(l), asAlice())
	for range 4 {
		_ = s.create("connect", 1) // the third is the first denial, and the fourth the second
	}
	clock.Advance(time.Hour - time.Second)
	want := said{
		connect.CodeResourceExhausted, `rate limit "Create" was exceeded too often, and denies everything: retry after 1s`,
		"Create", `shop.Orders Create: limit "Create", by a ban`, time.Second, "1", "1000",
	}
	for protocol := range protocols {
		if diff := cmp.Diff(want.in(protocol), saidBy(t, s.create(protocol, 1))); diff != "" {
			t.Errorf("a call by %s is told (-want +got):\n%s", protocol, diff)
		}
	}
	clock.Advance(time.Second)
	if err := s.create("connect", 1); err != nil {
		t.Errorf("once the ban is over: %v", err)
	}
}

func TestErrorLeavesOtherErrors(t *testing.T) {
	done, cancel := context.WithCancel(alice())
	cancel()
	guard := ratelimittest.DenyAll(time.Second).Guard(policy(per(rules.User, 2, time.Minute)))
	_, canceled := guard.Take(done)
	_, exceeded := guard.Take(alice())
	for name, err := range map[string]error{
		"nil":                    nil,
		"the service's":          errors.New("no such order"),
		"the service's, coded":   connect.NewError(connect.CodeNotFound, errors.New("no such order")),
		"io.EOF":                 io.EOF,
		"canceled by Take":       canceled,
		"a store's, by hand":     &store.Error{Class: store.Unavailable, Err: io.EOF},
		"a limit's, coded":       connect.NewError(connect.CodeAborted, exceeded),
		"that, in another error": fmt.Errorf("create: %w", connect.NewError(connect.CodeAborted, exceeded)),
	} {
		t.Run(name, func(t *testing.T) {
			if told, ok := connectlimit.Error(err); ok || told != nil {
				t.Errorf("Error(%v) = %v, %t, want nil, false", err, told, ok)
			}
		})
	}
}

func TestErrorFindsWrappedErrors(t *testing.T) {
	_, exceeded := ratelimittest.DenyAll(time.Second).Guard(policy(per(rules.User, 2, time.Minute))).Take(alice())
	for _, err := range []error{exceeded, fmt.Errorf("create: %w", exceeded), errors.Join(errors.New("first"), exceeded)} {
		told, ok := connectlimit.Error(err)
		var found *ratelimit.ExceededError
		if !ok || told.Code() != connect.CodeResourceExhausted || !errors.As(told, &found) || found.RetryAfter != time.Second {
			t.Errorf("Error(%v) = %v, %t, want ResourceExhausted, and the *ExceededError in it", err, told, ok)
		}
	}
	for _, class := range []error{ratelimit.ErrExceeded, ratelimit.ErrCost, ratelimit.ErrUnavailable, ratelimit.ErrNoIdentity, ratelimit.ErrUnknownPlan, ratelimit.ErrMisconfigured} {
		told, ok := connectlimit.Error(fmt.Errorf("for %s: %w: dial redis.internal:6379 rl:user=alice", userID, class))
		if !ok || !errors.Is(told, class) {
			t.Errorf("Error of %v = %v, %t, want one that is it", class, told, ok)
		}
		leaks(t, told)
	}
}
