package ratelimit_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/ratelimittest"
	"github.com/rlgen/rlgen/rules"
)

// stream carries a context as the streams of RPC frameworks do.
type stream struct{ ctx context.Context }

func (s stream) Context() context.Context { return s.ctx }

func TestCarriers(t *testing.T) {
	alice := ratelimit.WithUser(t.Context(), "alice")
	request := httptest.NewRequestWithContext(alice, http.MethodGet, "/", nil)
	for _, test := range []struct {
		name string
		got  context.Context
		want context.Context
	}{
		{"request", ratelimit.ContextOf(request), alice},
		{"nil request", ratelimit.ContextOf[*http.Request](nil), context.Background()},
		{"pointer to a stream", ratelimit.ContextOf(&stream{alice}), alice},
		{"stream", ratelimit.ContextIn(stream{alice}), alice},
		{"nil stream", ratelimit.ContextIn(nil), context.Background()},
		{"stream without a context", ratelimit.ContextIn(stream{}), nil},
		{"list", ratelimit.FirstContext([]context.Context{alice, t.Context()}), alice},
		{"empty list", ratelimit.FirstContext[context.Context](nil), context.Background()},
	} {
		if test.got != test.want {
			t.Errorf("%s: got %v, want %v", test.name, test.got, test.want)
		}
	}
}

func TestNilContext(t *testing.T) {
	limiter, _ := ratelimittest.New()
	var none context.Context
	rule := []rules.Rule{{Count: 1, Window: 1e9}}
	take := func(l rules.Limit) error {
		l.Rules = rule
		_, err := limiter.Guard(&rules.Policy{Type: "a.T", Method: "M" + l.Kind.String(), Limits: []rules.Limit{l}}).Take(none)
		return err
	}
	if err := take(rules.Limit{Kind: rules.Global}); err != nil {
		t.Errorf("Take of a global limit = %v, want nil", err)
	}
	if err := take(rules.Limit{Kind: rules.User}); !errors.Is(err, ratelimit.ErrNoIdentity) {
		t.Errorf("Take of a user limit = %v, want ErrNoIdentity", err)
	}
}

func TestStringer(t *testing.T) {
	if got := ratelimit.Stringer(nil); got != "" {
		t.Errorf("Stringer(nil) = %q, want none", got)
	}
	if got, want := ratelimit.Stringer(netip.MustParseAddr("::1")), "::1"; got != want {
		t.Errorf("Stringer(%s) = %q", want, got)
	}
}
