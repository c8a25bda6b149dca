package ratelimit

import "context"

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

// FirstContext returns the first context of a list, the background context if there is none.
func FirstContext[C context.Context](list []C) context.Context {
	if len(list) == 0 {
		return context.Background()
	}
	return list[0]
}
