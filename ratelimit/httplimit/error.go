package httplimit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/store"
)

// The types of a [Problem] that a limit is the reason of, as draft-ietf-httpapi-ratelimit-headers-10 has them.
const (
	QuotaExceeded = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	// AbnormalUsageDetected is that of a ban: the caller has not heeded denials.
	AbnormalUsageDetected = "https://iana.org/assignments/http-problem-types#abnormal-usage-detected"
)

// Problem is the body of an answer that [WriteError] writes, as RFC 9457 (application/problem+json) has it.
type Problem struct {
	// Type is [QuotaExceeded] or [AbnormalUsageDetected] where a limit denied the call; else it is empty, which is to say that the status says it all.
	Type   string `json:"type,omitempty"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	// Limit is the name of the limit that denied the call or does not allow its cost. It is empty if
	// there is none.
	Limit string `json:"limit,omitempty"`
	// ViolatedPolicies are the rules that denied the call, by the names that the RateLimit fields of the answer have for them
	// where [Headers] writes those; else it is Limit alone.
	ViolatedPolicies []string `json:"violated-policies,omitempty"`
	// RetryAfter is in whole seconds, the same as the header's; 0 if waiting does not help or nobody knows how long.
	RetryAfter int64 `json:"retry_after,omitempty"`
	// Banned says that the limit denies everything for RetryAfter, whatever it has room for, because it was exceeded too often.
	Banned bool `json:"banned,omitempty"`
}

// WriteError answers r with the error that a limited call returned before its method ran, and reports whether err, or an
// error that it wraps, is one:
//
//	error                        status  Retry-After
//	ratelimit.ErrExceeded        429     seconds, rounded up, 1 or more; of a ban, until it ends
//	ratelimit.ErrCost            422     none: a retry does not help
//	ratelimit.ErrUnavailable     503
//	ratelimit.ErrNoIdentity      401
//	ratelimit.ErrUnknownPlan     403
//	ratelimit.ErrMisconfigured   500
//
// For any other error, a context's own among them, and for nil it writes nothing. The body is a [Problem]; it names the limit and
// the wait, and never the caller or what err says of the store. A program whose 401 carries a WWW-Authenticate sets it
// before. WriteError is called before anything is written to w.
func WriteError(w http.ResponseWriter, r *http.Request, err error) bool {
	p, ok := problem(r.Context(), err)
	if !ok {
		return false
	}
	p.write(w)
	return true
}

// write answers with p.
func (p *Problem) write(w http.ResponseWriter) {
	h := w.Header()
	// As http.Error does: these were for the answer that is not given.
	for _, name := range []string{"Content-Length", "Content-Encoding", "Etag", "Last-Modified", "Cache-Control"} {
		h.Del(name)
	}
	h.Set("Content-Type", "application/problem+json")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Del("Retry-After")
	if p.RetryAfter > 0 {
		h.Set("Retry-After", strconv.FormatInt(p.RetryAfter, 10))
	}
	w.WriteHeader(p.Status)
	json.NewEncoder(w).Encode(p) // an error here is the connection's, and the server's to deal with
}

// problem returns what there is to say of err, and whether it is ours.
func problem(ctx context.Context, err error) (Problem, bool) {
	var exceeded *ratelimit.ExceededError
	if errors.As(err, &exceeded) {
		return denied(ctx, exceeded), true
	}
	var cost *ratelimit.CostError
	if errors.As(err, &cost) {
		return costProblem(cost), true
	}
	for _, c := range classes {
		if errors.Is(err, c.err) {
			return newProblem(c.status, c.detail), true
		}
	}
	return Problem{}, false
}

// denied returns what there is to say of a call that a limit denied.
func denied(ctx context.Context, err *ratelimit.ExceededError) Problem {
	p := quota(err.Limit, tooMany)
	if err.Banned {
		p.Type, p.Title, p.Detail, p.Banned = AbnormalUsageDetected, "Abnormal Usage Detected", tooOften, true
	}
	if rec := recordIn(ctx); rec != nil {
		if names := rec.violated(err.Type, err.Method); names != nil {
			p.ViolatedPolicies = names
		}
	}
	if err.RetryAfter == store.Never {
		p.Detail = tooMuch
	} else {
		p.RetryAfter = ratelimit.RetrySeconds(err.RetryAfter)
	}
	return p
}

// costProblem describes a cost that the limit never allows.
func costProblem(err *ratelimit.CostError) Problem {
	detail := fmt.Sprintf("The request has cost %d. The rate limit allows 0 to %d.", err.Cost, err.Most)
	p := newProblem(http.StatusUnprocessableEntity, detail)
	p.Limit = err.Limit
	return p
}

// quota is the problem that a limit is the reason of.
func quota(limit, detail string) Problem {
	p := newProblem(http.StatusTooManyRequests, detail)
	p.Type, p.Title = QuotaExceeded, "Quota Exceeded"
	p.Limit, p.ViolatedPolicies = limit, []string{safe(limit)}
	return p
}

const (
	tooMany  = "The rate limit is exceeded."
	tooOften = "The rate limit was exceeded too often, and denies everything until the time in Retry-After is over."
	tooMuch  = "The request asks for what the rate limit never allows, however long it waits."
)

var classes = []struct {
	err    error
	status int
	detail string
}{
	{ratelimit.ErrMisconfigured, http.StatusInternalServerError, "Rate limiting does not work."},
	{ratelimit.ErrUnavailable, http.StatusServiceUnavailable, "Rate limits cannot be checked at the moment."},
	{ratelimit.ErrNoIdentity, http.StatusUnauthorized, "The request does not say who is calling."},
	{ratelimit.ErrUnknownPlan, http.StatusForbidden, "The caller's plan is unknown."},
	{ratelimit.ErrCost, http.StatusUnprocessableEntity, "The rate limit never allows the cost of the request."},
	{ratelimit.ErrExceeded, http.StatusTooManyRequests, tooMany},
}

func newProblem(status int, detail string) Problem {
	return Problem{Title: http.StatusText(status), Status: status, Detail: detail}
}
