package ratelimit

import "context"

type watchKey struct{}

// watch is an observer that a context carries, and the one that it had before.
type watch struct {
	observer Observer
	before   *watch
}

// Watch returns a context whose calls tell o of their decisions, beside the limiter's own observers and those that ctx tells
// already. It is for whoever answers one request, and wants to say what the limits of the methods behind it said; the store
// is asked what remains for these calls only. It panics if o is nil.
func Watch(ctx context.Context, o Observer) context.Context {
	if o == nil {
		panic("ratelimit: Watch with a nil Observer, want one that is told of the context's decisions")
	}
	return context.WithValue(ctx, watchKey{}, &watch{o, watchIn(ctx)})
}

func watchIn(ctx context.Context) *watch {
	w, _ := ctx.Value(watchKey{}).(*watch)
	return w
}

// tell tells of a decision: those first who have watched for longest.
func (w *watch) tell(ctx context.Context, d *Decision, err error) {
	if w == nil {
		return
	}
	w.before.tell(ctx, d, err)
	w.observer.Observe(ctx, d, err)
}
