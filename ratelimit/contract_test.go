package ratelimit_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/memstore"
	"github.com/rlgen/rlgen/ratelimit/ratelimittest"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// contracts are the rules of some users, by name.
type contracts map[string][]rules.Rule

func (c contracts) rules(ctx context.Context, _ *rules.Policy, _ int) ([]rules.Rule, error) {
	user, _ := ratelimit.UserFrom(ctx)
	if user == "mallory" {
		return nil, errors.New("the contracts cannot be read")
	}
	return c[user], nil
}

func as(user string) context.Context { return ratelimit.WithUser(context.Background(), user) }

// Each caller is limited by what the hook computes for him, and those for whom it computes nothing as written.
func TestWithRules(t *testing.T) {
	c := contracts{"acme": per(5, time.Hour), "small": {{Count: 3, Window: time.Hour}, {Count: 2, Window: time.Minute}}}
	guard := limiter(t, memstore.New(), ratelimit.WithRules(c.rules)).Guard(create(limits(t, "user 1,1h", "user 4,1h mode=shadow")...))
	for user, want := range map[string]int{"acme": 5, "small": 2, "other": 1} {
		if got := passes(t, guard, as(user)); got != want {
			t.Errorf("%d calls of %s passed, want %d", got, user, want)
		}
	}
	d, _, err := guard.Decide(as("small"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(c["small"], d.Limits[0].Computed); diff != "" {
		t.Errorf("computed rules (-want +got):\n%s", diff)
	}
	if d, _, _ := guard.Decide(as("other")); d.Limits[0].Computed != nil {
		t.Errorf("computed rules are %v, want none", d.Limits[0].Computed)
	}
}

// A contract that changes takes along what was counted.
func TestContractChanges(t *testing.T) {
	c := contracts{"acme": per(2, time.Hour)}
	guard := limiter(t, memstore.New(), ratelimit.WithRules(c.rules)).Guard(create(limits(t, "user 1,1h")...))
	if got := passes(t, guard, as("acme")); got != 2 {
		t.Errorf("%d calls passed, want 2", got)
	}
	c["acme"] = per(5, time.Hour)
	if got := passes(t, guard, as("acme")); got != 3 {
		t.Errorf("%d more calls passed, want 3", got)
	}
}

// Rules that are not valid are loud, and so is a hook that fails.
func TestWithRulesFails(t *testing.T) {
	c := contracts{"none": {}, "zero": per(0, time.Hour), "many": per(20_000, time.Hour)}
	guard := limiter(t, memstore.New(), ratelimit.WithRules(c.rules)).Guard(create(limits(t, "user 1,1h onfail=open")...))
	for user, want := range map[string]struct {
		class error
		text  string
	}{
		"none":    {ratelimit.ErrMisconfigured, `shop.Orders Create: rate limiting is misconfigured: limit "Create": found 0 rules for a limit of kind user, want one or more on a limit that counts calls`},
		"zero":    {ratelimit.ErrMisconfigured, `shop.Orders Create: rate limiting is misconfigured: limit "Create": rule "0,1h" admits nothing, want a count of 1 to 10000`},
		"many":    {ratelimit.ErrMisconfigured, `shop.Orders Create: rate limiting is misconfigured: limit "Create": rule "20000,1h" has a count that is too large for sliding-log, want 1 to 10000; write algo=compact-log, sliding-window, fixed-window, token-bucket, leaky-bucket or gcra`},
		"mallory": {ratelimit.ErrUnavailable, `shop.Orders Create: rate limit store unavailable: limit "Create": the contracts cannot be read`},
	} {
		if _, err := guard.Take(as(user)); !errors.Is(err, want.class) || err.Error() != want.text {
			t.Errorf("Take of %s = %v, want %s", user, err, want.text)
		}
	}
}

// A shadow refuses nobody for a hook that fails, or computes what is no rule, and says nothing of such a call.
func TestWithRulesOfAShadowFails(t *testing.T) {
	c := contracts{"none": {}, "zero": per(0, time.Hour)}
	guard := limiter(t, memstore.New(), ratelimit.WithRules(c.rules), ratelimit.WithMode(rules.Shadow)).Guard(create(limits(t, "user 1,1h")...))
	for _, user := range []string{"none", "zero", "mallory"} {
		if d, _, err := guard.Decide(as(user)); err != nil || !d.Allowed || len(d.Limits) != 0 {
			t.Errorf("Decide of %s = %+v, %v, want it allowed, and nothing said", user, d, err)
		}
	}
}

// Where this process decides alone, its share is that of the contract.
func TestShareOfAContract(t *testing.T) {
	c := contracts{"acme": per(8, time.Hour)}
	guard := ratelimittest.Failing(store.Unavailable, ratelimit.WithRules(c.rules), ratelimit.WithInstances(2)).Guard(create(limits(t, "user 2,1h")...))
	for user, want := range map[string]int{"acme": 4, "other": 1} {
		if got := passes(t, guard, as(user)); got != want {
			t.Errorf("%d calls of %s passed on one of two instances, want %d", got, user, want)
		}
	}
}

// The decision has the contract that applies, whoever decides by it.
func TestDecisionHasTheContractWithoutAStore(t *testing.T) {
	c := contracts{"acme": {{Count: 8, Window: time.Hour}, {Count: 4, Window: time.Minute}}}
	for _, onFail := range []string{"local", "open"} {
		guard := ratelimittest.Failing(store.Unavailable, ratelimit.WithRules(c.rules)).Guard(create(limits(t, "user 2,1h onfail="+onFail)...))
		for _, user := range []string{"acme", "other"} {
			d, _, err := guard.Decide(as(user))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c[user], d.Limits[0].Computed); diff != "" {
				t.Errorf("onfail=%s: computed rules of %s (-want +got):\n%s", onFail, user, diff)
			}
		}
	}
}

// A caller with more rules than the limit has costs the others nothing.
func TestWithRulesOfSeveralLimits(t *testing.T) {
	hook := func(_ context.Context, p *rules.Policy, i int) ([]rules.Rule, error) {
		if p.Limits[i].Kind == rules.Global {
			return per(3, time.Hour), nil
		}
		return nil, nil
	}
	guard := limiter(t, memstore.New(), ratelimit.WithRules(hook)).Guard(create(limits(t, "user 9,1h", "global 9,1h", "ip 9,1h")...))
	if got := passes(t, guard, alice()); got != 3 {
		t.Errorf("%d calls passed, want 3", got)
	}
}
