package ratelimit

import (
	"context"
	"net/http"
)

// ContextOf returns the context that v carries, as an *http.Request does; the background context for a nil pointer.
func ContextOf[P interface {
	*T
	Context() context.Context
}, T any](v P) context.Context {
	if v == nil {
		return context.Background()
	}
	return v.Context()
}

// ContextIn returns the context that v carries, as a stream does; the background context for a nil interface.
func ContextIn(v interface{ Context() context.Context }) context.Context {
	if v == nil {
		return context.Background()
	}
	return v.Context()
}

// CarryOf returns v with another context, as an *http.Request's WithContext does; nil for a nil pointer.
func CarryOf[P interface {
	*T
	WithContext(context.Context) P
}, T any](v P, ctx context.Context) P {
	if v == nil {
		return nil
	}
	return v.WithContext(ctx)
}

// CarryIn returns v with another context; nil for a nil interface.
func CarryIn[V interface{ WithContext(context.Context) V }](v V, ctx context.Context) V {
	if any(v) == nil {
		return v
	}
	return v.WithContext(ctx)
}

// CarryBack gives r the form that served has parsed, a copy of it with another context: the server removes the files of a form that r has, and knows
// nothing of copies. It is for a defer statement, before served is that copy.
func CarryBack(r *http.Request, served **http.Request) {
	if r != nil && r.MultipartForm == nil && *served != nil {
		r.MultipartForm = (*served).MultipartForm
	}
}

// FirstContext returns the first context of a list, the background context if there is none.
func FirstContext[C context.Context](list []C) context.Context {
	if len(list) == 0 {
		return context.Background()
	}
	return list[0]
}
