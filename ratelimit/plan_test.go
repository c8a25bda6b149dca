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

// Each plan has its own count. A call on one plan changes nothing for a call on another.
func TestPlansHaveTheirOwnCounts(t *testing.T) {
	for _, algo := range []string{
		"sliding-log", "compact-log", "sliding-window", "fixed-window", "token-bucket", "leaky-bucket", "gcra",
	} {
		t.Run(algo, func(t *testing.T) {
			clock := newClock()
			guard := limiter(t, memstore.New(memstore.WithClock(clock.Now))).Guard(create(
				limits(t, "user 3,10s plan=free algo="+algo, "user 8,10s 12,1m plan=pro algo="+algo)...))
			free, pro := ratelimit.WithPlan(alice(), "free"), ratelimit.WithPlan(alice(), "pro")
			want := func(plan string, ctx context.Context, n int) {
				t.Helper()
				if got := passes(t, guard, ctx); got != n {
					t.Errorf("%d calls passed on %s, want %d", got, plan, n)
				}
			}
			want("pro", pro, 8)
			want("free", free, 3)
			clock.Advance(20 * time.Second)
			if _, err := guard.Take(free); err != nil {
				t.Fatal(err)
			}
			more := passes(t, guard, pro)
			if log := algo == "sliding-log" || algo == "compact-log"; log && more != 4 {
				t.Errorf("%d more calls passed on pro, want 4: 12 in a minute", more)
			}
			want("pro", pro, 0)
			want("free", free, 2)
		})
	}
}
