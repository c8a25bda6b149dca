package ratelimit

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/rlgen/rlgen/ratelimit/lock"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// Classes of the errors that a limited call returns before the method runs; ask with [errors.Is]. A context that is done
// is not among them: its own error is returned.
var (
	// ErrExceeded: a limit has no room for the call. The error is an [*ExceededError].
	ErrExceeded = errors.New("rate limit exceeded")
	// ErrUnavailable: the store could not decide, and a limit says onfail=closed.
	ErrUnavailable = errors.New("rate limit store unavailable")
	// ErrNoIdentity: a limit counts by an id that the call does not carry, and says missing=deny.
	ErrNoIdentity = errors.New("no identity to limit by")
	// ErrUnknownPlan: all limits of a kind are for plans, and the caller is on none of these plans.
	ErrUnknownPlan = errors.New("unknown plan")
	// ErrCost: the call's cost is negative, or more than a limit can ever allow. A retry does not help.
	// The error is a [*CostError].
	ErrCost = errors.New("cost cannot be met")
	// ErrMisconfigured: the store refuses to decide until somebody mends it, or the wrapper does not fit its
	// policy. It is returned whatever onfail says.
	ErrMisconfigured = errors.New("rate limiting is misconfigured")
)

// ExceededError is a call that a limit denied. It names the limit and the wait, and never the caller.
//
// Where several rules deny, it is about the one that denies for the longest.
type ExceededError struct {
	// Type and Method are what was called: "orders.Orders", "Create".
	Type, Method string
	// Limit is the limit's name in its policy, and Kind says whose calls it counts.
	Limit string
	Kind  rules.Kind
	// Rule is the rule that has no room. Of a concurrency it is its Count without a window, of a lock the zero Rule.
	Rule rules.Rule
	// RetryAfter is how long until the same call would pass all of its limits if nobody else called. It is more than zero. A call in flight whose limit charges by
	// outcome (charge=) is taken for one that is charged: where it gives its permit back, the same call passes before. Where a
	// concurrency or a lock denies, it is when to ask again: when the lease that is in the way ends, and in a second at most,
	// since nobody knows when its holder lets go.
	RetryAfter time.Duration
	// Banned says that the limit denies everything for RetryAfter, because it has been exceeded too often. A ban that ends before the rule has room is not what
	// the error is about, and has it false.
	Banned bool
	// Crowded says that the call would have waited, had not as many calls waited already as [WithMaxWaiters] lets; or that so many calls of this process
	// asked for something to hold that the store was not asked for this one in time.
	Crowded bool
}

func (e *ExceededError) Error() string {
	text := fmt.Sprintf("%s %s: %v: limit %q %s, retry after %v",
		e.Type, e.Method, ErrExceeded, e.Limit, e.says(), e.RetryAfter)
	if e.Banned {
		text += "; it was exceeded too often, and denies everything until then"
	}
	if e.Crowded {
		text += "; it does not wait, for too many calls do"
	}
	return text
}

// says is what keeps the call out.
func (e *ExceededError) says() string {
	switch e.Kind {
	case rules.Concurrency:
		return fmt.Sprintf("allows %d in flight", e.Rule.Count)
	case rules.Lock:
		return "is held by another call"
	}
	return "allows " + e.Rule.String()
}

// Is reports whether target is [ErrExceeded], or [lock.ErrBusy] where a concurrency or a lock denies.
func (e *ExceededError) Is(target error) bool {
	return target == ErrExceeded || target == lock.ErrBusy && e.Kind.Holds()
}

// StatusCode is 429, for HTTP stacks that ask errors for their status.
func (e *ExceededError) StatusCode() int { return http.StatusTooManyRequests }

// Headers has Retry-After in whole seconds, rounded up, for HTTP stacks that ask errors for their headers.
func (e *ExceededError) Headers() http.Header {
	h := make(http.Header, 1)
	if e.RetryAfter != store.Never {
		h.Set("Retry-After", strconv.FormatInt(RetrySeconds(e.RetryAfter), 10))
	}
	return h
}

// RetrySeconds is wait in whole seconds, rounded up and at least 1, as an HTTP Retry-After has it.
func RetrySeconds(wait time.Duration) int64 {
	s := int64(wait / time.Second)
	if wait%time.Second > 0 {
		s++
	}
	return max(1, s)
}

// CostError is the error of a call whose cost a limit never allows. A retry does not help. The error
// names the limit, and never the caller.
type CostError struct {
	// Type and Method are what was called: "orders.Orders", "Search".
	Type, Method string
	// Limit is the limit's name in its policy, and Kind says whose calls it counts.
	Limit string
	Kind  rules.Kind
	// Cost is what the call asks for, and Most the largest cost that the limit can allow.
	Cost, Most int64
}

func (e *CostError) Error() string {
	return fmt.Sprintf("%s %s: %v: limit %q: cost %d, want 0 to %d", e.Type, e.Method, ErrCost, e.Limit, e.Cost, e.Most)
}

// Is reports whether target is [ErrCost].
func (e *CostError) Is(target error) bool { return target == ErrCost }

// StatusCode returns 422, for HTTP stacks that ask errors for their status.
func (e *CostError) StatusCode() int { return http.StatusUnprocessableEntity }

// callError is a call that failed for another reason than an exceeded limit.
type callError struct {
	policy *rules.Policy
	limit  int // -1 if no single limit is to blame
	class  error
	cause  error // may be nil
}

func (e *callError) Error() string {
	text := e.policy.Type + " " + e.policy.Method + ": " + e.class.Error()
	if e.limit >= 0 {
		text += ": limit " + strconv.Quote(e.policy.Name(e.limit))
	}
	if e.cause != nil {
		text += ": " + e.cause.Error()
	}
	return text
}

func (e *callError) Unwrap() []error {
	if e.cause == nil {
		return []error{e.class}
	}
	return []error{e.class, e.cause}
}

// StatusCode is the HTTP status that suits the error.
func (e *callError) StatusCode() int {
	switch e.class {
	case ErrUnavailable:
		return http.StatusServiceUnavailable
	case ErrNoIdentity:
		return http.StatusUnauthorized
	case ErrUnknownPlan:
		return http.StatusForbidden
	}
	return http.StatusInternalServerError
}
