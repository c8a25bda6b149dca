package connectlimit

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/store"
)

// Error returns what a client is to be told of the error that a limited call returned before its method ran, and reports whether err, or an error
// that it wraps, is one:
//
//	error                        code                details
//	ratelimit.ErrExceeded        ResourceExhausted   QuotaFailure, RetryInfo; of a ban, until it ends
//	ratelimit.ErrCost            InvalidArgument     QuotaFailure: a retry does not help
//	ratelimit.ErrUnavailable     Unavailable
//	ratelimit.ErrNoIdentity      Unauthenticated
//	ratelimit.ErrUnknownPlan     PermissionDenied
//	ratelimit.ErrMisconfigured   Internal
//
// For any other error, a context's own among them, and for nil it reports false; and so it does where a [*connect.Error] is in err, in which the
// service has said what the client is to be told. The message names the limit and the wait, and never the caller, nor what err says of the store; err is
// still found in it by [errors.Is] and [errors.As].
func Error(err error) (*connect.Error, bool) {
	a, ok := answerTo(err)
	if !ok {
		return nil, false
	}
	return a.error(err), true
}

// answer is what a client is told of a call that was not made.
type answer struct {
	code       connect.Code
	text       string
	details    []proto.Message
	pushback   string // milliseconds, of gRPC; empty for none
	retryAfter string // seconds; empty for none
}

// error is the answer in place of err.
func (a answer) error(err error) *connect.Error {
	told := connect.NewError(a.code, &instead{a.text, err})
	for _, d := range a.details {
		if detail, err := connect.NewErrorDetail(d); err == nil {
			told.AddDetail(detail)
		}
	}
	return told
}

// instead is err with another text.
type instead struct {
	text string
	err  error
}

func (e *instead) Error() string { return e.text }
func (e *instead) Unwrap() error { return e.err }

// noRetry is the pushback that keeps a client from trying again.
const noRetry = "-1"

const tooMuch = "the call asks for what its rate limit never allows, however long it waits"

func answerTo(err error) (answer, bool) {
	var own *connect.Error
	var exceeded *ratelimit.ExceededError
	var cost *ratelimit.CostError
	switch {
	case err == nil, errors.As(err, &own):
		return answer{}, false
	case errors.As(err, &exceeded):
		return exceededAnswer(exceeded), true
	case errors.As(err, &cost):
		return costAnswer(cost), true
	}
	for _, c := range classes {
		if errors.Is(err, c.err) {
			return c.answer, true
		}
	}
	return answer{}, false
}

// exceededAnswer names the limit, and when to come again unless that is never.
func exceededAnswer(e *ratelimit.ExceededError) answer {
	quota := violation(e.Type, e.Method, e.Limit, e.Kind.String(), e.Rule.Count)
	if e.RetryAfter == store.Never {
		return never(quota)
	}
	text := fmt.Sprintf("rate limit %q is exceeded, retry after %v", e.Limit, e.RetryAfter)
	if e.Banned {
		text = fmt.Sprintf("rate limit %q was exceeded too often, and denies everything: retry after %v", e.Limit, e.RetryAfter)
		quota.Violations[0].Description += ", by a ban"
	}
	ms := (e.RetryAfter + time.Millisecond - 1) / time.Millisecond
	return answer{
		code: connect.CodeResourceExhausted, text: text,
		details:    []proto.Message{quota, &errdetails.RetryInfo{RetryDelay: durationpb.New(e.RetryAfter)}},
		pushback:   strconv.FormatInt(int64(ms), 10),
		retryAfter: strconv.FormatInt(ratelimit.RetrySeconds(e.RetryAfter), 10),
	}
}

// costAnswer names the limit that never allows the cost.
func costAnswer(e *ratelimit.CostError) answer {
	return answer{
		code:     connect.CodeInvalidArgument,
		text:     fmt.Sprintf("the call has cost %d, rate limit %q allows 0 to %d", e.Cost, e.Limit, e.Most),
		details:  []proto.Message{violation(e.Type, e.Method, e.Limit, e.Kind.String(), e.Most)},
		pushback: noRetry,
	}
}

// never is the answer to a call that no waiting makes pass.
func never(quota *errdetails.QuotaFailure) answer {
	return answer{code: connect.CodeResourceExhausted, text: tooMuch, details: []proto.Message{quota}, pushback: noRetry}
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

// classes of errors that say no more than that.
var classes = []struct {
	err error
	answer
}{
	{ratelimit.ErrMisconfigured, answer{code: connect.CodeInternal, text: "rate limiting does not work"}},
	{ratelimit.ErrUnavailable, answer{code: connect.CodeUnavailable, text: "rate limits cannot be checked at the moment"}},
	{ratelimit.ErrNoIdentity, answer{code: connect.CodeUnauthenticated, text: "the call does not say who is calling"}},
	{ratelimit.ErrUnknownPlan, answer{code: connect.CodePermissionDenied, text: "the caller's plan is unknown"}},
	{ratelimit.ErrCost, answer{
		code: connect.CodeInvalidArgument, text: "the rate limit never allows the cost of the call", pushback: noRetry,
	}},
	{ratelimit.ErrExceeded, answer{code: connect.CodeResourceExhausted, text: "the rate limit is exceeded"}},
}
