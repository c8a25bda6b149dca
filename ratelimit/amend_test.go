package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"testing"
	"time"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/memstore"
	"github.com/rlgen/rlgen/ratelimit/ratelimittest"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// login is five failed attempts, after the third further one of which the address is banned.
var login = rules.Policy{
	Package: "example.com/shop/accounts", Type: "accounts.Accounts", Method: "Login",
	Limits: []rules.Limit{
		{Kind: rules.IP, Rules: []rules.Rule{{Count: 5, Window: 15 * time.Minute}}, Ban: time.Hour, After: 3},
		{Kind: rules.User, Rules: []rules.Rule{{Count: 7, Window: time.Hour}}},
		{Kind: rules.Global, Rules: []rules.Rule{{Count: 1000, Window: time.Second}}},
	},
}

func attempt(ip, user string) context.Context {
	return ratelimit.WithUser(ratelimit.WithIP(context.Background(), netip.MustParseAddr(ip)), user)
}

// Denials ban, whatever the calls in flight return. A success gives its permit back, and no denial.
func TestBanOfDenials(t *testing.T) {
	policy := login
	policy.Limits = []rules.Limit{login.Limits[0]}
	policy.Limits[0].Charge = rules.ChargeError
	guard := limiter(t, memstore.New(memstore.WithClock(newClock().Now))).Guard(&policy)
	ctx := attempt("192.0.2.1", "alice")
	var inFlight []ratelimit.Permit
	for range 5 {
		permit, err := guard.Take(ctx)
		if err != nil {
			t.Fatal(err)
		}
		inFlight = append(inFlight, permit)
	}
	wantDenial := func(banned bool) {
		t.Helper()
		var exceeded *ratelimit.ExceededError
		if _, err := guard.Take(ctx); !errors.As(err, &exceeded) || exceeded.Banned != banned {
			t.Fatalf("Take = %v, want it denied, by a ban: %v", err, banned)
		}
	}
	wantDenial(false)
	wantDenial(false)
	wantDenial(true)
	for _, permit := range inFlight {
		permit.Done(new(error))
	}
	wantDenial(true)
}

// What this process has counted by itself is forgotten with the rest, though the store cannot be asked.
func TestResetOfWhatIsCountedHere(t *testing.T) {
	l := ratelimittest.Failing(store.Unavailable, ratelimit.WithLocal(memstore.New()), ratelimit.WithLogger(slog.New(slog.DiscardHandler)))
	guard := l.Guard(create(limits(t, "user 1,1h")...))
	if got := passes(t, guard, as("alice")); got != 1 {
		t.Fatalf("%d calls passed, want 1", got)
	}
	if err := guard.Reset(context.Background(), ratelimit.ID{Kind: rules.User, Text: "alice"}); !errors.Is(err, ratelimit.ErrUnavailable) {
		t.Errorf("Reset = %v, want that the store is unavailable", err)
	}
	if got := passes(t, guard, as("alice")); got != 1 {
		t.Errorf("%d calls passed once what was counted here is reset, want 1", got)
	}
}

// A ban that ends before the rule has room is not what keeps the caller out for as long as the error says, and is not said to be.
func TestBanThatEndsFirst(t *testing.T) {
	clock := newClock()
	limiter, err := ratelimit.New(memstore.New(memstore.WithClock(clock.Now)))
	if err != nil {
		t.Fatal(err)
	}
	guard, err := limiter.Prepare(&login)
	if err != nil {
		t.Fatal(err)
	}
	ctx, ip := attempt("192.0.2.1", "alice"), ratelimit.ID{Kind: rules.IP, Text: "192.0.2.1"}
	for range 5 {
		if _, err := guard.Take(ctx); err != nil {
			t.Fatal(err)
		}
	}
	for _, ban := range []time.Duration{time.Minute, 15 * time.Minute} {
		if err := guard.Ban(ctx, ip, ban); err != nil {
			t.Fatal(err)
		}
		want := `accounts.Accounts Login: rate limit exceeded: limit "Login/ip" allows 5,15m, retry after 15m0s`
		if ban == 15*time.Minute {
			want += "; it was exceeded too often, and denies everything until then"
		}
		if _, err := guard.Take(ctx); err == nil || err.Error() != want {
			t.Errorf("banned for %v: %v, want %s", ban, err, want)
		}
	}
	if d, _, err := guard.Decide(ctx); err != nil || d.Limits[0].Banned != 15*time.Minute {
		t.Errorf("Decide = %+v, %v, want it to tell of the ban", d, err)
	}
}

// Who is denied too often is banned, for longer than the window, however little else it asks; lifted or reset, it is let in.
func TestBan(t *testing.T) {
	clock := newClock()
	limiter, err := ratelimit.New(memstore.New(memstore.WithClock(clock.Now)))
	if err != nil {
		t.Fatal(err)
	}
	guard, err := limiter.Prepare(&login)
	if err != nil {
		t.Fatal(err)
	}
	ctx, ip := attempt("192.0.2.1", "alice"), ratelimit.ID{Kind: rules.IP, Text: "192.0.2.1"}
	for i := range 8 {
		_, err := guard.Take(ctx)
		var exceeded *ratelimit.ExceededError
		errors.As(err, &exceeded)
		if (err != nil) != (i >= 5) || i == 6 && exceeded.Banned || i == 7 && (!exceeded.Banned || exceeded.RetryAfter != time.Hour) {
			t.Fatalf("call %d: %v, want 5 allowed, 2 denied and a ban", i, err)
		}
	}
	clock.Advance(time.Hour - time.Microsecond)
	_, err = guard.Take(ctx)
	if want := `accounts.Accounts Login: rate limit exceeded: limit "Login/ip" allows 5,15m, retry after 1µs; it was exceeded too often, and denies everything until then`; err == nil || err.Error() != want {
		t.Errorf("a microsecond before the ban ends: %v, want %s", err, want)
	}
	if _, err := guard.Take(attempt("192.0.2.2", "bob")); err != nil {
		t.Errorf("another address: %v, want it allowed", err)
	}
	if err := guard.Ban(ctx, ip, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := guard.Take(ctx); err != nil {
		t.Errorf("once the ban is lifted: %v, want it allowed", err)
	}
	if err := guard.Ban(ctx, ip, time.Minute, "Login/ip"); err != nil {
		t.Fatal(err)
	}
	if d, _, err := guard.Decide(ctx); err != nil || d.Allowed || d.RetryAfter != time.Minute || d.Limits[0].Banned != time.Minute || d.Limits[1].Banned != 0 {
		t.Errorf("banned by hand: %+v, %v, want it denied for a minute", d, err)
	}
	if err := guard.Reset(ctx, ip); err != nil {
		t.Fatal(err)
	}
	if d, _, err := guard.Decide(ctx); err != nil || !d.Allowed || d.Limits[0].Rules[0].Remaining != 4 {
		t.Errorf("once it is reset: %+v, %v, want it allowed as a first call", d, err)
	}
}

func TestResetRefuses(t *testing.T) {
	limiter, err := ratelimit.New(memstore.New())
	if err != nil {
		t.Fatal(err)
	}
	guard, ctx := limiter.Guard(&login), context.Background()
	alice := ratelimit.ID{Kind: rules.User, Text: "alice"}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	for name, test := range map[string]struct {
		err, want error
	}{
		"no id":                {guard.Reset(ctx, ratelimit.ID{}), ratelimit.ErrNoIdentity},
		"no user":              {guard.Reset(ctx, ratelimit.ID{Kind: rules.User}), ratelimit.ErrNoIdentity},
		"no address":           {guard.Reset(ctx, ratelimit.ID{Kind: rules.IP, Text: "alice"}), ratelimit.ErrNoIdentity},
		"a text for all":       {guard.Reset(ctx, ratelimit.ID{Kind: rules.Global, Text: "alice"}), ratelimit.ErrNoIdentity},
		"a kind without limit": {guard.Reset(ctx, ratelimit.ID{Kind: rules.Key, Text: "alice"}), ratelimit.ErrMisconfigured},
		"another's name":       {guard.Reset(ctx, alice, "Login/ip"), ratelimit.ErrMisconfigured},
		"no bans":              {guard.Ban(ctx, alice, time.Hour), ratelimit.ErrMisconfigured},
		"an ended context":     {guard.Reset(ended, alice), context.Canceled},
	} {
		if !errors.Is(test.err, test.want) {
			t.Errorf("%s: %v, want %v", name, test.err, test.want)
		}
	}
}

// A support tool lets a customer through by resetting the limit that denies.
func ExampleGuard_Reset() {
	limiter, _ := ratelimit.New(memstore.New())
	guard := limiter.Guard(&rules.Policy{
		Package: "example.com/shop/orders", Type: "orders.Orders", Method: "Create",
		Limits: []rules.Limit{{Kind: rules.User, Rules: []rules.Rule{{Count: 1, Window: time.Hour}}}},
	})
	ctx := ratelimit.WithUser(context.Background(), "alice")
	guard.Take(ctx)
	_, err := guard.Take(ctx)
	fmt.Println(errors.Is(err, ratelimit.ErrExceeded))
	fmt.Println(guard.Reset(ctx, ratelimit.ID{Kind: rules.User, Text: "alice"}))
	_, err = guard.Take(ctx)
	fmt.Println(err)
	// Output:
	// true
	// <nil>
	// <nil>
}
