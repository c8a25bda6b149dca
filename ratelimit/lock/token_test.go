package lock_test

import (
	"context"
	"testing"

	"github.com/rlgen/rlgen/ratelimit/lock"
)

// TestTokenOf holds that the tokens of all locks that a context holds are to be had by the names of these, nested or not.
func TestTokenOf(t *testing.T) {
	locks, err := lock.New(lock.NewMemory())
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int64{"none": 0}
	ctx := t.Context()
	for _, name := range []string{"order", "stock", "order"} {
		inner, hold, err := locks.Lock(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		defer hold.Unlock()
		ctx, want[name] = inner, hold.Token()
	}
	for name, token := range want {
		for what, ctx := range map[string]context.Context{"the context": ctx, "one without a token": lock.WithoutToken(ctx)} {
			if got := lock.TokenOf(ctx, name); got != token {
				t.Errorf("TokenOf(%s, %q) = %d, want %d", what, name, got, token)
			}
		}
	}
	if want["order"] == want["stock"] {
		t.Errorf("two locks have the token %d, want one each", want["order"])
	}
}
