package ratelimit_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/memstore"
	"github.com/rlgen/rlgen/rules"
)

// passes is how many calls of ctx pass until one is denied.
func passes(t *testing.T, guard *ratelimit.Guard, ctx context.Context) int {
	t.Helper()
	for n := range 1000 {
		if _, err := guard.Take(ctx); errors.Is(err, ratelimit.ErrExceeded) {
			return n
		} else if err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("1000 calls passed, want some denied")
	return 0
}

// limits reads directives, without what stands before their names.
func limits(t testing.TB, lines ...string) []rules.Limit {
	t.Helper()
	var all []rules.Limit
	for _, line := range lines {
		d, err := rules.Parse(rules.Namespace + line)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, d.Limit)
	}
	return all
}

func TestPlanChoosesTheLimit(t *testing.T) {
	guard := limiter(t, memstore.New()).Guard(create(limits(t, "user 2,1h plan=free", "user 5,1h plan=pro", "global 100,1h")...))
	for plan, want := range map[string]int{"free": 2, "pro": 5} {
		ctx := ratelimit.WithPlan(ratelimit.WithUser(context.Background(), plan), plan)
		if got := passes(t, guard, ctx); got != want {
			t.Errorf("on plan %s %d calls passed, want %d", plan, got, want)
		}
	}
}

func TestPlanFrom(t *testing.T) {
	if plan, ok := ratelimit.PlanFrom(alice()); ok || plan != "" {
		t.Errorf("PlanFrom = %q, %t, want none", plan, ok)
	}
	ctx := ratelimit.WithPlan(alice(), "pro")
	if plan, ok := ratelimit.PlanFrom(ctx); !ok || plan != "pro" {
		t.Errorf("PlanFrom = %q, %t, want pro", plan, ok)
	}
	if user, _ := ratelimit.UserFrom(ctx); user != "alice" {
		t.Errorf("UserFrom = %q behind WithPlan, want alice", user)
	}
}

// A caller whose plan no limit is for is not let through unasked.
func TestUnknownPlan(t *testing.T) {
	const want = `shop.Orders Create: unknown plan: limit "Create/user/free": found `
	const how = `, want one of ["free" "pro"]; ` +
		`write ratelimit.WithPlan with one of them, a limit without plan=, or missing=allow`
	for _, test := range []struct {
		name, plan string
		lines      []string
		want       string
	}{
		{"none", "", []string{"user 2,1h plan=free", "user 5,1h plan=pro"}, want + "no plan" + how},
		{"another", "gold", []string{"user 2,1h plan=free", "user 5,1h plan=pro"}, want + `plan "gold"` + how},
		{"known to a shadow alone", "gold", []string{"user 2,1h plan=free", "user 5,1h plan=pro", "user 5,1h plan=gold mode=shadow"}, want + `plan "gold"` + how},
		{"of another kind", "gold", []string{"user 2,1h plan=free", "user 5,1h plan=pro", "ip 9,1h"}, want + `plan "gold"` + how},
		{"one for everybody", "gold", []string{"user 2,1h plan=free", "user 9,1h"}, ""},
		{"missing=allow", "gold", []string{"user 2,1h plan=free missing=allow", "user 5,1h plan=pro"}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			guard := limiter(t, memstore.New()).Guard(create(limits(t, test.lines...)...))
			_, err := guard.Take(ratelimit.WithPlan(alice(), test.plan))
			switch {
			case test.want == "" && err != nil:
				t.Errorf("Take = %v, want none", err)
			case test.want != "" && (!errors.Is(err, ratelimit.ErrUnknownPlan) || err.Error() != test.want):
				t.Errorf("Take = %v, want %s", err, test.want)
			}
		})
	}
}

// Limits that do not apply to a call refuse nobody for his plan.
func TestUnknownPlanWhereNoLimitApplies(t *testing.T) {
	guard := limiter(t, memstore.New()).Guard(create(limits(t, "user 2,1h plan=free when=paid")...))
	var in ratelimit.Input
	in.When(false)
	if _, err := guard.Take(alice(), in); err != nil {
		t.Errorf("Take where the limit does not apply = %v, want none", err)
	}
	in.When(true)
	if _, err := guard.Take(alice(), in); !errors.Is(err, ratelimit.ErrUnknownPlan) {
		t.Errorf("Take where it does = %v, want %v", err, ratelimit.ErrUnknownPlan)
	}
}

// An override that takes from a plan its limit, or makes a shadow of it, lets callers on that plan through, and refuses those on no plan as before.
func TestPlanWhoseLimitIsOverridden(t *testing.T) {
	for _, text := range []string{"mode=shadow", "off"} {
		l := limiter(t, memstore.New())
		guard := l.Guard(create(limits(t, "user 2,1h plan=free", "user 5,1h plan=pro", "user 5,1h plan=gold mode=shadow")...))
		if err := l.Override(t.Context(), []rules.Override{{Name: "Create/user/pro", Text: text}}); err != nil {
			t.Fatal(err)
		}
		for range 9 {
			if _, err := guard.Take(ratelimit.WithPlan(alice(), "pro")); err != nil {
				t.Fatalf("with %s on plan pro: %v, want every call to pass", text, err)
			}
		}
		if got := passes(t, guard, ratelimit.WithPlan(ratelimit.WithUser(t.Context(), "bob"), "free")); got != 2 {
			t.Errorf("with %s on plan free %d calls passed, want 2", text, got)
		}
		for _, plan := range []string{"", "gold", "none"} {
			if _, err := guard.Take(ratelimit.WithPlan(alice(), plan)); !errors.Is(err, ratelimit.ErrUnknownPlan) {
				t.Errorf("with %s on plan %q: %v, want %v", text, plan, err, ratelimit.ErrUnknownPlan)
			}
		}
		if err := l.Override(t.Context(), []rules.Override{{Name: "Create/user/pro", Text: text}, {Name: "Create/user/free", Text: text}}); err != nil {
			t.Fatal(err)
		}
		if _, err := guard.Take(alice()); err != nil {
			t.Errorf("with %s on every plan: %v, want callers on none to pass", text, err)
		}
	}
}

// A caller who changes plans takes along what was counted: the calls, or of a bucket the time until it is full.
func TestChangeOfPlan(t *testing.T) {
	for algo, more := range map[string]int{
		"sliding-log": 3, "compact-log": 3, "sliding-window": 3, "fixed-window": 3,
		"token-bucket": 0, "leaky-bucket": 0, "gcra": 0,
	} {
		t.Run(algo, func(t *testing.T) {
			clock := newClock()
			guard := limiter(t, memstore.New(memstore.WithClock(clock.Now))).
				Guard(create(limits(t, "user 2,1h plan=free algo="+algo, "user 5,1h plan=pro algo="+algo)...))
			free, pro := ratelimit.WithPlan(alice(), "free"), ratelimit.WithPlan(alice(), "pro")
			if got := passes(t, guard, free); got != 2 {
				t.Errorf("%d calls passed on free, want 2", got)
			}
			if got := passes(t, guard, pro); got != more {
				t.Errorf("%d more calls passed on pro, want %d", got, more)
			}
			if got := passes(t, guard, free); got != 0 {
				t.Errorf("%d calls passed back on free, want none", got)
			}
			clock.Advance(2 * time.Hour)
			if got := passes(t, guard, free); got != 2 {
				t.Errorf("%d calls passed later on, want 2", got)
			}
		})
	}
}
