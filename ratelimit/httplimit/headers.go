package httplimit

import (
	"context"
	"net/http"

	"github.com/rlgen/rlgen/ratelimit"
)

// HeadersOption configures [Headers].
type HeadersOption interface{ applyHeaders(*headers) }

type headersOption func(*headers)

func (f headersOption) applyHeaders(h *headers) { f(h) }

// WithXRateLimit makes [Headers] write X-RateLimit-Limit, X-RateLimit-Remaining and X-RateLimit-Reset, too, for clients that
// know no others. They have room for one rule: it is the one that denies for the longest, else the one of which least
// remains. The reset is a time in Unix seconds by this process's clock, as most who write it have it. The default is not to write
// them.
func WithXRateLimit() HeadersOption {
	return headersOption(func(h *headers) { h.x = true })
}

type headers struct{ x bool }

// Headers returns a middleware that says in the header of an answer what the limits of those methods said that were called for
// it, whether the calls were allowed or denied:
//
//	RateLimit-Policy: "Create 10s";q=3;w=10, "Create 1h";q=100;w=3600
//	RateLimit: "Create 10s";r=1;t=7, "Create 1h";r=97;t=3580
//
// The fields are those of draft-ietf-httpapi-ratelimit-headers-10, Lists of Structured Fields (RFC 9651). Each rule is an item
// with the name of its limit, and where the limit has several rules, with the window. A second limit of a name, of another type, is
// "carts.Carts Create". The items say
//
//	q   what the rule allows at once: its count, of a bucket its depth
//	w   the seconds in which that comes back, rounded up; left out where it takes less than one
//	r   the cost that would pass now
//	t   of a rule that denies, the seconds until it does not, and else until all of q is there again; rounded up
//	qu  "concurrent-requests" for a concurrency, which has no w, and is in RateLimit only where it denies
//
// A client that waits for Retry-After has waited for every t of the answer: a rule that has room for a call which others deny
// says none. Locks, limits that did not apply, and those that nobody has decided are not told of. Where a rule was asked several
// times, its last answer counts, and where it was asked for several ids, that of which least remains. Of more than 16
// rules those are told of that deny, and then those of which least remains. No item says whose calls it counts.
//
// An answer of 401, 403 or 503 has none of the fields, and neither has one to a request for which no limit was asked. Fields of
// these names that a handler adds, such as those of a service behind it, stay beside them.
//
// The fields are written with the first byte of the answer: calls that come later are not told of. Handlers may flush, hijack, and use
// an [http.ResponseController], as they may without the middleware. It stands before [Identify] or
// after it, and around the whole router of a framework that takes no net/http middlewares or answers errors after them, as gin and echo
// do. The store is asked what remains for the requests that come through it, and for no others.
func Headers(opts ...HeadersOption) func(http.Handler) http.Handler {
	h := new(headers)
	for _, o := range opts {
		o.applyHeaders(h)
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.serve(next, w, r) })
	}
}

func (h *headers) serve(next http.Handler, w http.ResponseWriter, r *http.Request) {
	if recordIn(r.Context()) != nil {
		next.ServeHTTP(w, r) // another Headers stands before this one
		return
	}
	rec := new(record)
	ctx := context.WithValue(ratelimit.Watch(r.Context(), rec), recordKey{}, rec)
	answer := &writer{under: w, begins: func(status int) { h.begin(status, w.Header(), rec) }}
	serveCopy(next, answer.shaped(), r, r.WithContext(ctx))
	answer.begin(http.StatusOK)
}

// begin is write for an answer of status.
func (h *headers) begin(status int, header http.Header, rec *record) {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusServiceUnavailable:
	default:
		h.write(header, rec)
	}
}

// write writes what rec has into header.
func (h *headers) write(header http.Header, rec *record) {
	all := rec.shown()
	if len(all) == 0 {
		return
	}
	header.Add("RateLimit-Policy", policyField(all))
	if text := limitField(all); text != "" {
		header.Add("RateLimit", text)
	}
	if h.x {
		writeX(header, all)
	}
}
