package grpclimit

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/store"
)

// Status returns the status of the error that a limited call returned before its method ran, and reports whether err, or an
// error that it wraps, is one:
//
//	error                        code                details
//	ratelimit.ErrExceeded        ResourceExhausted   QuotaFailure, RetryInfo; of a ban, until it ends
//	ratelimit.ErrCost            InvalidArgument     QuotaFailure: a retry does not help
//	ratelimit.ErrUnavailable     Unavailable
//	ratelimit.ErrNoIdentity      Unauthenticated
//	ratelimit.ErrUnknownPlan     PermissionDenied
//	ratelimit.ErrMisconfigured   Internal
//
// For any other error, a context's own among them, and for nil it reports false; and so it does for an error that has a status of
// its own, in which the service has said what the client is to be told. The status names the limit and the wait, and never
// the caller, nor what err says of the store.
func Status(err error) (*status.Status, bool) {
	a, ok := answerTo(err)
	return a.status, ok
}

// answer is what a client is told of a call that was not made.
type answer struct {
	status   *status.Status
	pushback string // in the trailer; empty for none
}

// noRetry is the pushback that keeps a client from trying again.
const noRetry = "-1"

func answerTo(err error) (answer, bool) {
	if _, own := err.(interface{ GRPCStatus() *status.Status }); own || err == nil {
		return answer{}, false
	}
	var exceeded *ratelimit.ExceededError
	if errors.As(err, &exceeded) {
		return exceededAnswer(exceeded), true
	}
	var cost *ratelimit.CostError
	if errors.As(err, &cost) {
		return costAnswer(cost), true
	}
	for _, c := range classes {
		if errors.Is(err, c.err) {
			return c.answer(), true
		}
	}
	return answer{}, false
}

// exceededAnswer names the limit, and when to come again unless that is never.
func exceededAnswer(e *ratelimit.ExceededError) answer {
	quota := violation(e.Type, e.Method, e.Limit, e.Kind.String(), e.Rule.Count)
	if e.RetryAfter == store.Never {
		return answer{newStatus(codes.ResourceExhausted, tooMuch, quota), noRetry}
	}
	text := fmt.Sprintf("rate limit %q is exceeded, retry after %v", e.Limit, e.RetryAfter)
	if e.Banned {
		text = fmt.Sprintf("rate limit %q was exceeded too often, and denies everything: retry after %v", e.Limit, e.RetryAfter)
		quota.Violations[0].Description += ", by a ban"
	}
	retry := &errdetails.RetryInfo{RetryDelay: durationpb.New(e.RetryAfter)}
	return answer{newStatus(codes.ResourceExhausted, text, quota, retry), pushback(e.RetryAfter)}
}

// costAnswer names the limit that never allows the cost.
func costAnswer(e *ratelimit.CostError) answer {
	text := fmt.Sprintf("the call has cost %d, rate limit %q allows 0 to %d", e.Cost, e.Limit, e.Most)
	quota := violation(e.Type, e.Method, e.Limit, e.Kind.String(), e.Most)
	return answer{newStatus(codes.InvalidArgument, text, quota), noRetry}
}

// violation says which limit a call of a method has met, whose calls it counts, and how many it allows.
func violation(typ, method, limit, subject string, count int64) *errdetails.QuotaFailure {
	return &errdetails.QuotaFailure{Violations: []*errdetails.QuotaFailure_Violation{{
		Subject:     subject,
		Description: fmt.Sprintf("%s %s: limit %q", typ, method, limit),
		QuotaMetric: typ + "/" + method,
		QuotaId:     limit,
		QuotaValue:  count,
	}}}
}

// pushback is wait in whole milliseconds, rounded up.
func pushback(wait time.Duration) string {
	ms := int64(wait / time.Millisecond)
	if wait%time.Millisecond > 0 {
		ms++
	}
	return strconv.FormatInt(ms, 10)
}

const tooMuch = "the call asks for what its rate limit never allows, however long it waits"

// class is a class of errors that say no more than that.
type class struct {
	err      error
	code     codes.Code
	text     string
	pushback string
}

var classes = []class{
	{ratelimit.ErrMisconfigured, codes.Internal, "rate limiting does not work", ""},
	{ratelimit.ErrUnavailable, codes.Unavailable, "rate limits cannot be checked at the moment", ""},
	{ratelimit.ErrNoIdentity, codes.Unauthenticated, "the call does not say who is calling", ""},
	{ratelimit.ErrUnknownPlan, codes.PermissionDenied, "the caller's plan is unknown", ""},
	{ratelimit.ErrCost, codes.InvalidArgument, "the rate limit never allows the cost of the call", noRetry},
	{ratelimit.ErrExceeded, codes.ResourceExhausted, "the rate limit is exceeded", ""},
}

func (c class) answer() answer {
	if c.code != codes.ResourceExhausted {
		return answer{newStatus(c.code, c.text), c.pushback}
	}
	quota := &errdetails.QuotaFailure{Violations: []*errdetails.QuotaFailure_Violation{{Description: c.text}}}
	return answer{newStatus(c.code, c.text, quota), c.pushback}
}

// newStatus returns a status with details, and without them where they cannot be encoded.
func newStatus(code codes.Code, text string, details ...protoadapt.MessageV1) *status.Status {
	plain := status.New(code, text)
	if detailed, err := plain.WithDetails(details...); err == nil {
		return detailed
	}
	return plain
}

// statusError is err as a client sees it. Interceptors outside of this package's still find err in it.
type statusError struct {
	status *status.Status
	err    error
}

func (e *statusError) Error() string              { return e.status.Err().Error() }
func (e *statusError) GRPCStatus() *status.Status { return e.status }
func (e *statusError) Unwrap() error              { return e.err }
