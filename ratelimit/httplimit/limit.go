package httplimit

import (
	"errors"
	"net/http"

	"github.com/rlgen/rlgen/ratelimit"
)

// LimitOption configures [Limit].
type LimitOption interface{ applyLimit(*limited) }

type limitOption func(*limited)

func (f limitOption) applyLimit(l *limited) { f(l) }

// WithInputs makes [Limit] give the guard what f finds in a request: an input for each limit of the policy, in its order, as the wrapper
// does that rlgen writes for directives with by, cost or when. The default is none.
func WithInputs(f func(*http.Request) []ratelimit.Input) LimitOption {
	if f == nil {
		panic("httplimit: WithInputs with a nil func, want one, or no WithInputs")
	}
	return limitOption(func(l *limited) { l.inputs = f })
}

// limited is what stands before handlers.
type limited struct {
	guard  *ratelimit.Guard
	inputs func(*http.Request) []ratelimit.Input
}

// Limit returns a middleware that lets requests through as g allows, for handlers that no wrapper of rlgen's stands before: rates, and
// what a concurrency or a lock holds, which a request holds until its handler returns or panics.
//
// The request that a handler gets has the context of what it holds: it is done when the client goes away, and, with the cause
// lock.ErrLost, before anybody else can have what was lost. Who takes over the connection, and who answers in a goroutine of his
// own, holds nothing any more once the handler has returned. Methods with limits of their own nest in a lock if they are called with
// that context.
//
// A request that is not let through is answered as [WriteError] does, and with 503 where its context ends while it waits. For limits that are
// charged by outcome, an answer of status 400 or more is an error, and so is a panic. Limit stands behind [Identify]
// and [Headers]. It panics if g is nil, or an option's func.
func Limit(g *ratelimit.Guard, opts ...LimitOption) func(http.Handler) http.Handler {
	if g == nil {
		panic("httplimit: Limit with a nil Guard, want one of ratelimit.Limiter's")
	}
	l := &limited{guard: g, inputs: func(*http.Request) []ratelimit.Input { return nil }}
	for _, o := range opts {
		o.applyLimit(l)
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { l.serve(next, w, r) })
	}
}

// errStatus is the outcome of a request whose answer is of status 400 or more.
var errStatus = errors.New("the answer is an error")

func (l *limited) serve(next http.Handler, w http.ResponseWriter, r *http.Request) {
	ctx, permit, err := l.guard.Hold(r.Context(), l.inputs(r)...)
	if err != nil {
		refuse(w, r, err)
		return
	}
	defer permit.Done(&err)
	answer := &writer{under: w, begins: func(status int) {
		if status >= http.StatusBadRequest {
			err = errStatus
		}
	}}
	serveCopy(next, answer.shaped(), r, r.WithContext(ctx))
}

// serveCopy serves a request by a copy of it. What the server removes when it has ended is what it knows of: the form of the original.
func serveCopy(next http.Handler, w http.ResponseWriter, r, served *http.Request) {
	defer ratelimit.CarryBack(r, &served)
	next.ServeHTTP(w, served)
}

// refuse answers a request that is not let through because of err.
func refuse(w http.ResponseWriter, r *http.Request, err error) {
	if !WriteError(w, r, err) {
		p := newProblem(http.StatusServiceUnavailable, "The request ended before it was its turn.")
		p.write(w)
	}
}
