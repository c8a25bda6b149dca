package rules

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// shop are the policies that overrides are tried on.
func shop(t *testing.T) []*Policy {
	t.Helper()
	policy := func(typ, method string, lines ...string) *Policy {
		p := &Policy{Package: "example.com/shop", Type: typ, Method: method}
		for _, line := range lines {
			p.Limits = append(p.Limits, mustParse(t, Namespace+line))
		}
		if err := p.Validate(); err != nil {
			t.Fatal(err)
		}
		return p
	}
	return []*Policy{
		policy("orders.Orders", "Create", "user 10,1s 100,1m", "ip 1000,1h algo=gcra burst=50", "user 5,1s mode=shadow"),
		policy("orders.Orders", "Find", "key 60,1m plan=free by=q", "key 600,1m plan=pro by=q"),
		policy("orders.Orders", "Pay", "concurrency 10 per=user wait=2s name=flight"),
		policy("orders.Orders", "Cancel", "concurrency 10 per=user wait=2s name=flight"),
		policy("carts.Carts", "Create", "user 10,1s"),
		policy("mail.Mail", "Create", "user 10,1s"),
		policy("carts.Carts", "Add", "global 10,1s bucket=shared"),
		policy("carts.Carts", "Drop", "global 10,1s bucket=shared"),
		policy("carts.Carts", "Mail", "global 1,1s algo=leaky-bucket", "global 1,1s algo=leaky-bucket wait=10s name=queue"),
	}
}

// overridesOf reads lines of a name, a colon and a text.
func overridesOf(text string) (all []Override) {
	for i, line := range strings.Split(strings.Trim(text, "\n"), "\n") {
		name, value, _ := strings.Cut(line, ": ")
		all = append(all, Override{Name: name, Text: value, At: Place{"limits.yaml", i + 1, len(name) + 3}})
	}
	return all
}

func TestResolve(t *testing.T) {
	for _, test := range []struct{ name, overrides, want string }{
		{"rules", "Create/user: 20,1s", "orders.Orders.Create/user: user 20,1s name=Create/user"},
		{"rules and options", "Create/user: 20/1s 200,1m mode=shadow onfail=closed missing=allow", "orders.Orders.Create/user: user 20,1s 200,1m name=Create/user missing=allow onfail=closed mode=shadow"},
		{"options alone", "Create/ip: burst=80", "orders.Orders.Create/ip: ip 1000,1h algo=gcra burst=80 name=Create/ip"},
		{"a default", "Create/user/shadow: mode=enforce", "orders.Orders.Create/user/shadow: user 5,1s name=Create/user/shadow"},
		{"off", "Create/ip: off", "orders.Orders.Create/ip: off"},
		{"a plan's numbers", "Find/key/pro: 900,1m", "orders.Orders.Find/key/pro: key 900,1m by=q name=Find/key/pro plan=pro"},
		{"behind the type", "carts.Carts.Create: 9,1s", "carts.Carts.Create: user 9,1s name=Create"},
		{"in flight, of all methods", "flight: 3 wait=1s", `
orders.Orders.flight: concurrency 3 per=user name=flight wait=1s
orders.Orders.flight: concurrency 3 per=user name=flight wait=1s`},
		{"a shadow of what waits", "queue: mode=shadow", "carts.Carts.queue: global 1,1s algo=leaky-bucket name=queue wait=10s mode=shadow"},
		{"a bucket, all of it", "Add: 5,1s\nDrop: 5,1s", `
carts.Carts.Add: global 5,1s name=Add bucket=shared
carts.Carts.Drop: global 5,1s name=Drop bucket=shared`},

		{"unknown name", "Creat/user: 20,1s", `limits.yaml:1:13: unknown limit "Creat/user", want the name of one, as rlgen list has it; did you mean "Create/user"?`},
		{"a name of several types", "Create: off", `limits.yaml:1:9: limit name "Create" is that of several types, want one of them: carts.Carts.Create or mail.Mail.Create`},
		{"twice", "Create/user: 20,1s\norders.Orders.Create/user: off", `limits.yaml:2:28: found limit "orders.Orders.Create/user" again, which stands at limits.yaml:1:14 as "Create/user", want it once; remove one`},
		{"nothing", "Create/user: ", `limits.yaml:1:14: limit "Create/user": found nothing, want off, or rules as count,window and then the options burst, missing, onfail, wait or mode`},
		{"not a rule", "Create/user: 20,1sec", `limits.yaml:1:17: limit "Create/user": rule "20,1sec" has the unknown unit "sec", want ms, s, m, h, d or w; write "20,1s"`},
		{"a rule that never binds", "Create/user: 20,1s 10,1m", `limits.yaml:1:14: limit "Create/user": rule "20,1s" never binds beside "10,1m", which admits at most 10 in 1s, want a count under that; remove one`},
		{"too many", "Create/user: 20000,1s", `limits.yaml:1:14: limit "Create/user": rule "20000,1s" has a count that is too large for sliding-log, want 1 to 10000; write algo=compact-log, sliding-window, fixed-window, token-bucket, leaky-bucket or gcra`},
		{"the algorithm", "Create/user: 20,1s algo=gcra", `limits.yaml:1:20: limit "Create/user": found option algo, which no override can change, want rules as count,window and then the options burst, missing, onfail, wait or mode; change the directive in the code`},
		{"an expression", "Find/key/free: by=x", `limits.yaml:1:16: limit "Find/key/free": found option by, which no override can change, want rules as count,window and then the options burst, missing, onfail, wait or mode; change the directive in the code`},
		{"an unknown option", "Create/user: mod=shadow", `limits.yaml:1:14: limit "Create/user": unknown option "mod", want rules as count,window and then the options burst, missing, onfail, wait or mode; did you mean "mode"?`},
		{"off in capitals", "Create/user: OFF", `limits.yaml:1:14: limit "Create/user": found "OFF", want off in small letters, with which every call passes the limit`},
		{"off as YAML has it", "Create/user:  Off\nFind/key/free: no\nflight: false", `
limits.yaml:1:14: limit "Create/user": found "Off", want off in small letters, with which every call passes the limit
limits.yaml:2:16: limit "Find/key/free": found "no", want off in small letters, with which every call passes the limit
limits.yaml:3:9: limit "flight": found "false", want off in small letters, with which every call passes the limit`},
		{"a burst of a log", "Create/user: 20,1s burst=5", `limits.yaml:1:26: limit "Create/user": found option burst on a limit of algo=sliding-log, want it with algo=token-bucket, leaky-bucket or gcra only`},
		{"rules of what is in flight", "flight: 20,1s", `limits.yaml:1:9: limit "flight": found rule "20,1s" on concurrency, which counts calls in flight and has no window, want the number of calls that may be in flight, 1 to 1000000; write "//ratelimit:concurrency 20"`},
		{"a queue of a bucket", "Mail/global: wait=5s", `limits.yaml:1:19: limit "Mail/global": found option wait on a leaky-bucket without one, which it would make a queue, and a queue cannot read what the bucket has counted; change the directive in the code`},
		{"half of a bucket", "Add: 5,1s", `limits.yaml:1:6: limit "Add" shares its bucket with "carts.Carts.Drop": found the rules 5,1s and 10,1s, want the same; override both alike`},
		{"all that is wrong", "Nothing: off\nCreate/user: 0,1s onfail=never", `
limits.yaml:1:10: unknown limit "Nothing", want the name of one, as rlgen list has it
limits.yaml:2:14: limit "Create/user": rule "0,1s" admits nothing, want a count of 1 to 10000
limits.yaml:2:26: limit "Create/user": option onfail has the unknown value "never", want local, open or closed`},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got, want := resolve(shop(t), overridesOf(test.overrides)), strings.TrimPrefix(test.want, "\n"); got != want {
				t.Errorf("Resolve(%s) =\n%s\nwant\n%s", test.overrides, got, want)
			}
		})
	}
}

// resolve returns the limits that are overridden, or the error.
func resolve(policies []*Policy, layers ...[]Override) string {
	all, err := Resolve(policies, layers...)
	if err != nil {
		return err.Error()
	}
	var lines []string
	for _, p := range policies {
		o := all[p]
		if o == nil {
			continue
		}
		for i, by := range o.By {
			if by == nil {
				continue
			}
			text := o.Policy.Limits[i].String()
			if o.Off[i] {
				text = "off"
			}
			lines = append(lines, fmt.Sprintf("%s.%s: %s", p.Type, o.Policy.Name(i), text))
		}
	}
	return strings.Join(lines, "\n")
}

// A later layer holds in place of an earlier one, of the whole limit.
func TestResolveLayers(t *testing.T) {
	file := overridesOf("Create/user: 20,1s onfail=open\nCreate/ip: off")
	hash := overridesOf("orders.Orders.Create/user: 30,1s")
	const want = "orders.Orders.Create/user: user 30,1s name=Create/user\norders.Orders.Create/ip: off"
	if got := resolve(shop(t), file, hash); got != want {
		t.Errorf("Resolve =\n%s\nwant\n%s", got, want)
	}
}

// What is overridden is a copy: the policies are those of the program.
func TestResolveChangesNoPolicy(t *testing.T) {
	policies := shop(t)
	before := fmt.Sprint(policies[0].Limits)
	if _, err := Resolve(policies, overridesOf("Create/user: 20,1s\nCreate/ip: burst=9")); err != nil {
		t.Fatal(err)
	}
	if after := fmt.Sprint(policies[0].Limits); after != before {
		t.Errorf("the policy is %s, want it as it was, %s", after, before)
	}
}

// No text makes a limit that is not valid: what Resolve takes, Validate takes.
func FuzzResolve(f *testing.F) {
	for _, seed := range []string{"20,1s", "off", "20,1s 100,1m mode=shadow", "burst=5", "wait=1s", "3 wait=2s", `mode="shadow"`, "1,1s # why", "//ratelimit:user 1,1s", "20, 1s"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		policies := shop(t)
		for _, name := range []string{"Create/user", "Create/ip", "flight", "queue", "Mail/global"} {
			all, err := Resolve(policies, []Override{{Name: name, Text: text}})
			if err != nil {
				continue
			}
			for _, o := range all {
				p := *o.Policy
				if name == "queue" && p.Limits[1].Mode == Shadow {
					p.Limits[1].Mode = Enforce // of which a directive has no wait
				}
				if name == "flight" && p.Limits[0].Mode == Shadow {
					p.Limits[0].Mode = Enforce
				}
				if err := p.Validate(); err != nil {
					t.Errorf("Resolve takes %q for %s, and Validate says %v", text, name, err)
				}
			}
		}
	})
}

// Of very many problems some are told of, and no more are looked for.
func TestResolveOfManyProblems(t *testing.T) {
	var list []Override
	for i := range 10 * MaxProblems {
		list = append(list, Override{Name: fmt.Sprint("Find", i), Text: "off", At: Place{Source: "f", Line: i + 1}})
	}
	_, err := Resolve(nil, list)
	lines := strings.Split(fmt.Sprint(err), "\n")
	if last := lines[len(lines)-1]; len(lines) != MaxProblems+1 || last != "f:101: and more, which are not told of: mend these first" {
		t.Errorf("Resolve tells of %d problems, the last of which is %q, want %d and that there are more", len(lines), last, MaxProblems)
	}
}

// What overrides make of limits are limits as directives may have them, but that a shadow may have a wait, which it does not heed.
func TestOverriddenLimitsAreValid(t *testing.T) {
	directives := []string{
		"user 5,1s", "user 5,1s ban=1h after=3", "user 5,1s wait=1s", "user 500,1s prefetch=100ms", "user 5,1s algo=gcra burst=10", "user 5,1s algo=leaky-bucket wait=2s",
		"user 5,1s algo=leaky-bucket burst=9", "user 5,1s 50,1m algo=token-bucket refill=interval", "user 5,1s algo=fixed-window start=first",
		"user 100,1s algo=sliding-window segments=50", "user 5,1s ban=1h after=3 mode=shadow", "user 500,1s algo=gcra prefetch=200ms", "user 500,1s 5000,1m algo=compact-log prefetch=100ms",
		"concurrency 5", "concurrency 5 per=user wait=1s", "lock", "lock lease=10s wait=1s",
	}
	texts := []string{
		"", "6,1s", "1,1d", "1000000,1s", "10001,1s", "5,1s 50,1m", "5,1ms", "9,1s 9,1s", "5,1ms 900,52w", "7",
		"wait=1s", "wait=10s", "burst=3", "burst=1000000000", "mode=shadow", "mode=enforce", "missing=allow", "onfail=closed",
	}
	resolved := 0
	for _, directive := range directives {
		for _, one := range texts {
			for _, two := range texts {
				d, err := Parse(Namespace + directive)
				if err != nil {
					t.Fatal(err)
				}
				p := &Policy{Package: "example.com/shop", Type: "shop.Orders", Method: "Create", Limits: []Limit{d.Limit}}
				text := strings.TrimSpace(one + " " + two)
				of, err := Resolve([]*Policy{p}, []Override{{Name: p.Name(0), Text: text}})
				if err != nil {
					continue
				}
				resolved++
				made := *of[p].Policy
				made.Limits = slices.Clone(made.Limits)
				if l := &made.Limits[0]; l.Mode == Shadow {
					l.Wait = 0
				}
				if err := made.Validate(); err != nil {
					t.Errorf("%s, overridden by %s, is no limit: %v", directive, text, err)
				}
			}
		}
	}
	if resolved < 1000 {
		t.Errorf("%d overrides were good, want more to look at", resolved)
	}
}

// Of a long text that is wrong, a problem tells the beginning, and of limits that share a bucket, that they do.
func TestResolveTellsOfLongTexts(t *testing.T) {
	policies := shop(t)
	name := policies[0].Name(0)
	long := strings.Repeat("x", 45_000)
	for _, o := range []Override{{Name: name, Text: long}, {Name: long, Text: "5,1h"}, {Name: name, Text: "5,1h mode=" + long}} {
		_, err := Resolve(policies, []Override{o})
		if err == nil || len(err.Error()) > 1100 || !strings.Contains(err.Error(), " bytes more)") || errors.Is(err, ErrUnlike) {
			t.Errorf("Resolve of %.20q: %.20q = %.2000v, want an error of 1100 bytes at most, which says that there is more", o.Name, o.Text, err)
		}
	}
}
