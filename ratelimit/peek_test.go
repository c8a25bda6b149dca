package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/lock"
	"github.com/rlgen/rlgen/ratelimit/memstore"
	"github.com/rlgen/rlgen/rules"
)

// policy is that of a method with these limits.
func policyOf(t testing.TB, method string, directives ...string) *rules.Policy {
	t.Helper()
	p := &rules.Policy{Package: "example.com/shop/orders", Type: "orders.Orders", Method: method}
	for _, text := range directives {
		d, err := rules.Parse("//ratelimit:" + text)
		if err != nil {
			t.Fatal(err)
		}
		p.Limits = append(p.Limits, d.Limit)
	}
	return p
}

func aliceID(kind rules.Kind) ratelimit.ID { return ratelimit.ID{Kind: kind, Text: "alice"} }

// An id's limits say what is used and what remains, and that is what the next call is told. What an override or a plan says is what counts.
func TestPeek(t *testing.T) {
	clock := newClock()
	limiter, err := ratelimit.New(memstore.New(memstore.WithClock(clock.Now)))
	if err != nil {
		t.Fatal(err)
	}
	guard := limiter.Guard(policyOf(t, "Create", "user 2,1s 5,1m", "user 3,1m plan=pro algo=gcra", "global 100,1s"))
	ctx := ratelimit.WithUser(context.Background(), "alice")
	for range 2 {
		if _, err := guard.Take(ctx); err != nil {
			t.Fatal(err)
		}
	}
	peek := func(ctx context.Context, id ratelimit.ID, limits ...string) string {
		t.Helper()
		all, err := guard.Peek(ctx, id, limits...)
		if err != nil {
			return err.Error()
		}
		var lines []string
		for _, s := range all {
			line := s.Name
			for _, r := range s.Rules {
				line += fmt.Sprintf(" %v: %d of %d, %d left, retry %v, reset %v;", r.Rule, r.Used, r.Capacity, r.Remaining, r.RetryAfter, r.ResetAfter)
			}
			lines = append(lines, line)
		}
		return strings.Join(lines, "\n")
	}
	user := aliceID(rules.User)
	check := func(name, got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, want)
		}
	}
	both := "Create/user 2,1s: 2 of 2, 0 left, retry 1s, reset 1s; 5,1m: 2 of 5, 3 left, retry 0s, reset 1m0s;\n" +
		"Create/user/pro 3,1m: 0 of 3, 3 left, retry 0s, reset 0s;"
	check("without a plan", peek(context.Background(), user), both)
	check("again", peek(context.Background(), user), both)
	check("on another plan", peek(ratelimit.WithPlan(context.Background(), "free"), user), strings.Split(both, "\n")[0])
	check("by name", peek(context.Background(), user, "Create/user/pro"), strings.Split(both, "\n")[1])
	check("of all", peek(context.Background(), ratelimit.ID{Kind: rules.Global}), "Create/global 100,1s: 2 of 100, 98 left, retry 0s, reset 1s;")
	check("by a name that is none", peek(context.Background(), user, "Create/usr"),
		`orders.Orders Create: `+ratelimit.ErrMisconfigured.Error()+`: found the limit name "Create/usr", want one of a limit by user that can do this; did you mean "Create/user"?`)
	if err := limiter.Override(ctx, []rules.Override{{Name: "Create/user", Text: "4,1m"}}); err != nil {
		t.Fatal(err)
	}
	check("overridden", peek(context.Background(), user, "Create/user"), "Create/user 4,1m: 2 of 4, 2 left, retry 0s, reset 1m0s;")
	keys, err := guard.Keys(context.Background(), user)
	if err != nil || len(keys) != 2 || !slices.Equal(keys[0].Keys, []string{"rl:user=alice:orders.Orders-Create"}) || keys[1].Keys[0] != "rl:user=alice:orders.Orders-Create@gcra@plan=pro" {
		t.Errorf("Keys = %+v, %v, want those of both limits", keys, err)
	}
}

// What is held is told by who holds it, and a ban beside what remains under it.
func TestPeekAtWhatIsHeldAndAtBans(t *testing.T) {
	limiter, err := ratelimit.New(memstore.New(), ratelimit.WithLocks(lock.NewMemory()))
	if err != nil {
		t.Fatal(err)
	}
	guard := limiter.Guard(policyOf(t, "Pay", "user 5,1h ban=1h after=3", "concurrency 3 per=user", "lock"))
	ctx := ratelimit.WithUser(context.Background(), "alice")
	_, permit, err := guard.Hold(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := guard.Ban(ctx, aliceID(rules.User), time.Hour); err != nil {
		t.Fatal(err)
	}
	standing := func() (flight, rate, locked ratelimit.Standing) {
		t.Helper()
		of, err := guard.Peek(ctx, aliceID(rules.User))
		all, err2 := guard.Peek(ctx, ratelimit.ID{Kind: rules.Global})
		if err := errors.Join(err, err2); err != nil || len(of) != 2 || len(all) != 1 {
			t.Fatalf("Peek = %+v, %+v, %v, want a rate, what is in flight and a lock", of, all, err)
		}
		return of[1], of[0], all[0]
	}
	flight, rate, locked := standing()
	if flight.Held.Cost != 1 || len(flight.Held.Leases) != 1 || flight.Held.Leases[0].Left <= 0 || flight.Limit.Count != 3 {
		t.Errorf("in flight: %+v, want one call", flight.Held)
	}
	if locked.Held.Cost != 1 || len(locked.Held.Leases) != 1 || locked.Held.Token == 0 || locked.Held.Waiting != 0 {
		t.Errorf("locked: %+v, want one holder", locked.Held)
	}
	if rate.Held != nil || rate.Banned <= 59*time.Minute || rate.Rules[0].Remaining != 4 || rate.Rules[0].Used != 1 || rate.Rules[0].RetryAfter != 0 {
		t.Errorf("banned: %+v, want the ban, and what remains under it", rate)
	}
	permit.Done(nil)
	if flight, _, locked := standing(); flight.Held.Cost != 0 || locked.Held.Cost != 0 {
		t.Errorf("once it has ended: %+v and %+v, want nobody", flight.Held, locked.Held)
	}
}

// A grant makes room for as many calls, and no more than there ever is.
func TestGrant(t *testing.T) {
	for _, options := range []string{"", "algo=sliding-window", "algo=fixed-window", "algo=token-bucket", "algo=leaky-bucket", "algo=gcra"} {
		t.Run(options, func(t *testing.T) {
			limiter, err := ratelimit.New(memstore.New(memstore.WithClock(newClock().Now)))
			if err != nil {
				t.Fatal(err)
			}
			guard, ctx := limiter.Guard(policyOf(t, "Create", "user 3,1h "+options)), ratelimit.WithUser(context.Background(), "alice")
			passes := func() (n int) {
				for range 10 {
					if _, err := guard.Take(ctx); err == nil {
						n++
					}
				}
				return n
			}
			first := passes()
			errs := []error{guard.Grant(ctx, aliceID(rules.User), 2)}
			second := passes()
			errs = append(errs, guard.Grant(ctx, aliceID(rules.User), 3), guard.Grant(ctx, aliceID(rules.User), 3))
			if third := passes(); first != 3 || second != 2 || third != 3 || errors.Join(errs...) != nil {
				t.Errorf("%d calls pass, then %d of a grant of 2, then %d of two of 3, want 3, 2 and 3; %v", first, second, third, errs)
			}
		})
	}
}

func TestGrantRefuses(t *testing.T) {
	limiter, err := ratelimit.New(memstore.New(), ratelimit.WithLocks(lock.NewMemory()))
	if err != nil {
		t.Fatal(err)
	}
	guard, ctx := limiter.Guard(policyOf(t, "Send", "user 3,1h 9,24h", "key 5,1s algo=leaky-bucket wait=2s by=req.To", "concurrency 3 per=ip")), context.Background()
	for name, test := range map[string]struct {
		id    ratelimit.ID
		n     int64
		names []string
	}{
		"nothing":                  {aliceID(rules.User), 0, nil},
		"more than there ever is":  {aliceID(rules.User), 10, nil},
		"a queue":                  {aliceID(rules.Key), 1, nil},
		"a queue by name":          {aliceID(rules.Key), 1, []string{"Send/key"}},
		"what holds":               {ratelimit.ID{Kind: rules.IP, Text: "192.0.2.1"}, 1, nil},
		"a limit of another kind":  {aliceID(rules.User), 1, []string{"Send/key"}},
		"a limit that there isn't": {aliceID(rules.User), 1, []string{"Send/usr"}},
	} {
		if err := guard.Grant(ctx, test.id, test.n, test.names...); !errors.Is(err, ratelimit.ErrMisconfigured) {
			t.Errorf("%s: %v, want %v", name, err, ratelimit.ErrMisconfigured)
		}
	}
	if err := guard.Grant(ctx, aliceID(rules.User), 9); err != nil {
		t.Errorf("the largest count: %v, want nil", err)
	}
}

func TestFind(t *testing.T) {
	limiter, err := ratelimit.New(memstore.New())
	if err != nil {
		t.Fatal(err)
	}
	create := limiter.Guard(policyOf(t, "Create", "user 3,1h"))
	limiter.Guard(policyOf(t, "List", "user 30,1h"))
	ctx := ratelimit.WithUser(context.Background(), "alice")
	if _, err := create.Take(ctx); err != nil {
		t.Fatal(err)
	}
	found, err := limiter.Find("Create")
	if err != nil || found.Policy() != create.Policy() {
		t.Fatalf("Find = %v, %v, want the method's guard", found, err)
	}
	if all, err := found.Peek(ctx, aliceID(rules.User)); err != nil || all[0].Rules[0].Used != 1 {
		t.Errorf("Peek of what is found = %+v, %v, want what was charged", all, err)
	}
	if _, err := limiter.Find("Craete"); err == nil || err.Error() != "ratelimit: no limited method Craete; did you mean Create?" {
		t.Errorf("Find of a name that none has = %v, want the one that was meant", err)
	}
}

func TestParseID(t *testing.T) {
	for text, want := range map[string]ratelimit.ID{
		"user=42": {Kind: rules.User, Text: "42"}, "key=a=b": {Kind: rules.Key, Text: "a=b"}, "global": {Kind: rules.Global},
		"ip=2001:db8::1": {Kind: rules.IP, Text: "2001:db8::1"}, "user=": {Kind: rules.User},
	} {
		if got, err := ratelimit.ParseID(text); got != want || err != nil {
			t.Errorf("ParseID(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "42", "user", "usr=42", "global=1", "concurrency=1", "=42"} {
		if id, err := ratelimit.ParseID(text); err == nil {
			t.Errorf("ParseID(%q) = %v, want an error", text, id)
		}
	}
}

// A support tool gives a customer some calls back.
func ExampleGuard_Grant() {
	limiter, _ := ratelimit.New(memstore.New())
	guard := limiter.Guard(&rules.Policy{
		Package: "example.com/shop/orders", Type: "orders.Orders", Method: "Create",
		Limits: []rules.Limit{{Kind: rules.User, Rules: []rules.Rule{{Count: 10, Window: time.Hour}}}},
	})
	ctx := ratelimit.WithUser(context.Background(), "alice")
	for range 10 {
		guard.Take(ctx)
	}
	alice, _ := ratelimit.ParseID("user=alice")
	fmt.Println(guard.Grant(ctx, alice, 4))
	standings, _ := guard.Peek(ctx, alice)
	for _, s := range standings {
		fmt.Println(s.Name, s.Rules[0].Used, "used,", s.Rules[0].Remaining, "left")
	}
	// Output:
	// <nil>
	// Create 6 used, 4 left
}
