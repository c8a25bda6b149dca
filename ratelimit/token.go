package ratelimit

import (
	"context"

	"github.com/rlgen/rlgen/ratelimit/lock"
	"github.com/rlgen/rlgen/rules"
)

// Token is the fencing token of one of the locks of a method: of the one whose limit is called name, as errors and metrics call it ([rules.Policy.Name]:
// what the directive's name= says). It is 0 where the call does not hold it: because it is off, a shadow, does not apply, or is
// not there to be had and onfail=open. The context is the one that the method was given, or derives from it.
//
// A method with one lock has that one's token from [lock.Token], too.
func Token(ctx context.Context, name string) int64 {
	t, _ := ctx.Value(tokensKey{}).(*tokens)
	if t == nil {
		return 0
	}
	for _, held := range t.held {
		if t.policy.Name(held.index) == name {
			return held.lock.Token()
		}
	}
	return 0
}

// tokensKey is what a context has the tokens of the innermost method with locks by.
type tokensKey struct{}

// tokens has the locks that a call holds. They are written before the method has the context.
type tokens struct {
	policy *rules.Policy // as written
	held   []held
}

// unfence hides the tokens of the locks around the call from a method that has locks of its own.
func (g *Guard) unfence(ctx context.Context) context.Context {
	if !g.fenced || ctx == nil {
		return ctx
	}
	return context.WithValue(lock.WithoutToken(ctx), tokensKey{}, &tokens{policy: g.policy})
}

// fence makes the tokens of what a call holds be had of ctx, which is of unfence's.
func fence(ctx context.Context, all []held) {
	if t, ok := ctx.Value(tokensKey{}).(*tokens); ok {
		for _, h := range all {
			if h.lock != nil {
				t.held = append(t.held, h)
			}
		}
	}
}
