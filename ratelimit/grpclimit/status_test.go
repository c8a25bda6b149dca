package grpclimit_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/grpclimit"
	"github.com/rlgen/rlgen/ratelimit/ratelimittest"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

const userID = "alice@example.com"

func alice() context.Context { return ratelimit.WithUser(context.Background(), userID) }

func asAlice() grpclimit.Option {
	return grpclimit.WithUserFunc(func(context.Context) string { return userID })
}

func perUser(count int64, window time.Duration, onFail rules.OnFail) rules.Limit {
	return rules.Limit{Kind: rules.User, Rules: []rules.Rule{{Count: count, Window: window}}, OnFail: onFail}
}

// said is what a client has been told.
type said struct {
	Code     codes.Code
	Message  string
	Quota    string // the limit of QuotaFailure's violation, "-" for one without a name
	Retry    time.Duration
	Pushback []string
}

func saidBy(err error, trailer metadata.MD) said {
	st := status.Convert(err)
	got := said{Code: st.Code(), Message: st.Message(), Pushback: trailer.Get("grpc-retry-pushback-ms")}
	for _, d := range st.Details() {
		switch d := d.(type) {
		case *errdetails.QuotaFailure:
			got.Quota = d.Violations[0].QuotaId
			if got.Quota == "" {
				got.Quota = "-"
			}
		case *errdetails.RetryInfo:
			got.Retry = d.RetryDelay.AsDuration()
		}
	}
	return got
}

func TestClientsAreTold(t *testing.T) {
	const tooMuch = "the call asks for what its rate limit never allows, however long it waits"
	for _, tt := range []struct {
		name    string
		limiter *ratelimit.Limiter
		cost    int64
		opts    []grpclimit.Option
		want    said
	}{
		{
			"exceeded", ratelimittest.DenyAll(90 * time.Second), 1, []grpclimit.Option{asAlice()},
			said{codes.ResourceExhausted, `rate limit "Create" is exceeded, retry after 1m30s`, "Create", 90 * time.Second, []string{"90000"}},
		},
		{
			"exceeded for 1µs", ratelimittest.DenyAll(time.Microsecond), 1, []grpclimit.Option{asAlice()},
			said{codes.ResourceExhausted, `rate limit "Create" is exceeded, retry after 1µs`, "Create", time.Microsecond, []string{"1"}},
		},
		{
			"exceeded for 2ms and 1ns", ratelimittest.DenyAll(2*time.Millisecond + 1), 1, []grpclimit.Option{asAlice()},
			said{codes.ResourceExhausted, `rate limit "Create" is exceeded, retry after 2.000001ms`, "Create", 2*time.Millisecond + 1, []string{"3"}},
		},
		{
			"exceeded for ever", ratelimittest.DenyAll(store.Never), 1, []grpclimit.Option{asAlice()},
			said{codes.ResourceExhausted, tooMuch, "Create", 0, []string{"-1"}},
		},
		{
			"cost", ratelimittest.AllowAll(), 3, []grpclimit.Option{asAlice()},
			said{
				codes.InvalidArgument, `the call has cost 3, rate limit "Create" allows 0 to 2`,
				"Create", 0, []string{"-1"},
			},
		},
		{
			"no identity", ratelimittest.AllowAll(), 1, nil,
			said{Code: codes.Unauthenticated, Message: "the call does not say who is calling"},
		},
		{
			"unavailable", ratelimittest.Failing(store.Unavailable), 1, []grpclimit.Option{asAlice()},
			said{Code: codes.Unavailable, Message: "rate limits cannot be checked at the moment"},
		},
		{
			"misconfigured", ratelimittest.Failing(store.Misconfigured), 1, []grpclimit.Option{asAlice()},
			said{Code: codes.Internal, Message: "rate limiting does not work"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := newOrders(tt.limiter, perUser(2, time.Minute, rules.FailClosed))
			c := dial(t, serve(t, o, tt.opts...))

			var trailer metadata.MD
			err := c.Invoke(t.Context(), "/shop.Orders/Create", wrapperspb.Int64(tt.cost), new(emptypb.Empty), grpc.Trailer(&trailer))
			if diff := cmp.Diff(tt.want, saidBy(err, trailer)); diff != "" {
				t.Errorf("a call is told (-want +got):\n%s", diff)
			}
			leaks(t, err)
			if tt.cost != 1 {
				return
			}
			_, trailer, err = c.follow(t.Context(), 1)
			if diff := cmp.Diff(tt.want, saidBy(err, trailer)); diff != "" {
				t.Errorf("a stream is told (-want +got):\n%s", diff)
			}
			leaks(t, err)
		})
	}
}

// Who is banned is told that it is a ban, and until when: by the details, and by the pushback.
func TestBansAreTold(t *testing.T) {
	limiter, clock := ratelimittest.New()
	l := perUser(2, time.Minute, 0)
	l.Ban, l.After = time.Hour, 2
	c := dial(t, serve(t, newOrders(limiter, l), asAlice()))
	call := func() (got said, quota string) {
		var trailer metadata.MD
		err := c.Invoke(t.Context(), "/shop.Orders/Create", wrapperspb.Int64(1), new(emptypb.Empty), grpc.Trailer(&trailer))
		leaks(t, err)
		for _, d := range status.Convert(err).Details() {
			if d, ok := d.(*errdetails.QuotaFailure); ok {
				quota = d.Violations[0].Description
			}
		}
		return saidBy(err, trailer), quota
	}
	for range 3 {
		call() // the third is the first denial
	}
	for _, left := range []time.Duration{time.Hour, time.Second} {
		got, quota := call()
		text := fmt.Sprintf(`rate limit "Create" was exceeded too often, and denies everything: retry after %v`, left)
		want := said{codes.ResourceExhausted, text, "Create", left, []string{fmt.Sprint(left.Milliseconds())}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("a call %v before the ban ends is told (-want +got):\n%s", left, diff)
		}
		if want := `shop.Orders Create: limit "Create", by a ban`; quota != want {
			t.Errorf("QuotaFailure says %q, want %q", quota, want)
		}
		clock.Advance(time.Hour - time.Second)
	}
	clock.Advance(2*time.Second - time.Hour)
	if got, _ := call(); got.Code != codes.OK {
		t.Errorf("once the ban is over: %v, want OK", got)
	}
}

// leaks holds that a status says nothing of the caller or the store.
func leaks(t *testing.T, err error) {
	t.Helper()
	whole := protojson.Format(status.Convert(err).Proto())
	for _, word := range []string{"alice", "example.com", "redis", "hunter2", "made to fail", "rl:", "127.0.0.1"} {
		if strings.Contains(whole, word) {
			t.Errorf("the status %s holds %q", whole, word)
		}
	}
}

func TestQuotaFailureNamesTheLimit(t *testing.T) {
	guard := ratelimittest.DenyAll(time.Second).Guard(&rules.Policy{
		Package: "example.com/shop", Type: "shop.Orders", Method: "Create",
		Limits: []rules.Limit{perUser(2, time.Minute, 0), {Kind: rules.Global, Rules: []rules.Rule{{Count: 5, Window: time.Second}}, Name: "burst"}},
	})
	_, err := guard.Take(alice())
	st, _ := grpclimit.Status(err)
	for _, d := range st.Details() {
		quota, ok := d.(*errdetails.QuotaFailure)
		if !ok {
			continue
		}
		want := `shop.Orders Create: limit "Create/user"`
		if v := quota.Violations[0]; len(quota.Violations) != 1 || v.Subject != "user" || v.Description != want ||
			v.QuotaMetric != "shop.Orders/Create" || v.QuotaId != "Create/user" || v.QuotaValue != 2 {
			t.Errorf("QuotaFailure = %v, want one violation: %s, of 2 for each user", quota, want)
		}
		return
	}
	t.Errorf("details = %v, want a QuotaFailure among them", st.Details())
}

func TestStatusLeavesOtherErrors(t *testing.T) {
	guard := ratelimittest.DenyAll(time.Second).Guard(&rules.Policy{
		Package: "example.com/shop", Type: "shop.Orders", Method: "Create", Limits: []rules.Limit{perUser(2, time.Minute, 0)},
	})
	done, cancel := context.WithCancel(alice())
	cancel()
	_, canceled := guard.Take(done)
	for name, err := range map[string]error{
		"nil":                   nil,
		"the service's":         errors.New("no such order"),
		"the service's status":  status.Error(codes.NotFound, "no such order"),
		"io.EOF":                io.EOF,
		"canceled by Take":      canceled,
		"a store's, by hand":    &store.Error{Class: store.Unavailable, Err: io.EOF},
		"a status of its own":   ownStatus{ratelimit.ErrExceeded},
		"exceeded, as its text": status.Error(codes.Aborted, ratelimit.ErrExceeded.Error()),
	} {
		t.Run(name, func(t *testing.T) {
			if st, ok := grpclimit.Status(err); ok || st != nil {
				t.Errorf("Status(%v) = %v, %t, want nil, false", err, st, ok)
			}
		})
	}
}

// ownStatus is an error that wraps a limit's, and for which the service has chosen a status.
type ownStatus struct{ error }

func (ownStatus) GRPCStatus() *status.Status { return status.New(codes.Aborted, "try another shop") }
func (e ownStatus) Unwrap() error            { return e.error }

func TestStatusFindsWrappedErrors(t *testing.T) {
	_, err := ratelimittest.DenyAll(time.Second).Guard(&rules.Policy{
		Package: "example.com/shop", Type: "shop.Orders", Method: "Create", Limits: []rules.Limit{perUser(2, time.Minute, 0)},
	}).Take(alice())
	for _, err := range []error{
		err,
		fmt.Errorf("create: %w", err),
		errors.Join(errors.New("first"), fmt.Errorf("create: %w", err)),
		errors.Join(status.Error(codes.NotFound, "first"), err),
	} {
		if st, ok := grpclimit.Status(err); !ok || st.Code() != codes.ResourceExhausted {
			t.Errorf("Status(%v) = %v, %t, want ResourceExhausted", err, st, ok)
		}
	}
}

func TestStatusSaysNothingOfTheStore(t *testing.T) {
	for _, class := range []error{
		ratelimit.ErrExceeded, ratelimit.ErrCost, ratelimit.ErrUnavailable, ratelimit.ErrNoIdentity,
		ratelimit.ErrUnknownPlan, ratelimit.ErrMisconfigured,
	} {
		st, ok := grpclimit.Status(fmt.Errorf("for %s: %w: dial redis.internal:6379: hunter2 rl:user=alice", userID, class))
		if !ok {
			t.Errorf("Status of %v = false, want true", class)
		}
		leaks(t, st.Err())
	}
}

func TestInterceptorsOutsideFindTheError(t *testing.T) {
	o := newOrders(ratelimittest.DenyAll(time.Second), perUser(2, time.Minute, 0))
	_, err := grpclimit.UnaryServerInterceptor(asAlice())(t.Context(), nil, nil, func(ctx context.Context, _ any) (any, error) {
		return new(emptypb.Empty), o.Create(ctx, 1)
	})
	var exceeded *ratelimit.ExceededError
	if !errors.As(err, &exceeded) || exceeded.RetryAfter != time.Second {
		t.Errorf("error = %v, want an *ExceededError in it", err)
	}
	if strings.Contains(err.Error(), userID) {
		t.Errorf("error = %q, want nothing of the caller in it", err)
	}
}
