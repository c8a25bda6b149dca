package rules

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestValidate(t *testing.T) {
	one := []Rule{{1, time.Second}}
	many := make([]Limit, 17)
	for _, test := range []struct {
		name string
		p    *Policy
		want string
	}{
		{"nil", nil, `rules: found a nil policy, want one`},
		{"zero", &Policy{}, `
rules: policy ".": has no Type, want one such as orders.Orders
rules: policy ".": has no Method, want one
rules: policy ".": has no limits, want one or more`},
		{"valid", &Policy{Type: "a.B", Method: "C", Limits: []Limit{{Kind: User, Rules: one}, {Kind: User, Rules: one}, {Kind: Global, Rules: one}}}, ``},
		{"separators", &Policy{Type: "a.B-C", Method: "D@2", Limits: []Limit{{Kind: User, Rules: one}}}, `
rules: policy "a.B-C.D@2": has the Type "a.B-C", want none of - and @, which separate the parts of a key
rules: policy "a.B-C.D@2": has the Method "D@2", want no @, which separates the parts of a key`},
		{"too many limits", &Policy{Type: "a.B", Method: "C", Limits: many}, `
rules: policy "a.B.C": has 17 limits, want at most 16`},
		{"no kind", &Policy{Type: "a.B", Method: "C", Limits: []Limit{{Rules: one}}}, `
rules: policy "a.B.C": Limits[0] (LIMIT): found Kind(0), want IP, User, Global, Key, Concurrency or Lock`},
		{"no rules", &Policy{Type: "a.B", Method: "C", Limits: []Limit{{Kind: IP}}}, `
rules: policy "a.B.C": Limits[0] (LIMIT): found no rules, want one or more`},
		{"rules", &Policy{Type: "a.B", Method: "C", Limits: []Limit{{Kind: IP, Rules: []Rule{{0, time.Second}, {1, 0}, {1, 1500 * time.Nanosecond}, {1, time.Second + 1}, {-1, 400 * day}, {10_001, time.Second}}}}}, `
rules: policy "a.B.C": Limits[0] (LIMIT): rule "0,1s" admits nothing, want a count of 1 to 10000
rules: policy "a.B.C": Limits[0] (LIMIT): rule "1,0s" has a window out of range, want 1ms to 366d
rules: policy "a.B.C": Limits[0] (LIMIT): rule "1,1.5µs" has a window out of range, want 1ms to 366d
rules: policy "a.B.C": Limits[0] (LIMIT): rule "1,1.000000001s" has a part of a microsecond in its window, want whole microseconds
rules: policy "a.B.C": Limits[0] (LIMIT): rule "-1,400d" admits nothing, want a count of 1 to 10000
rules: policy "a.B.C": Limits[0] (LIMIT): rule "10001,1s" has a count that is too large for sliding-log, want 1 to 10000; write algo=compact-log, sliding-window, fixed-window, token-bucket, leaky-bucket or gcra`},
		{"reach", &Policy{Type: "a.B", Method: "C", Limits: []Limit{{Kind: IP, Rules: one}, {Kind: User, Rules: []Rule{{100, time.Minute}, {10, time.Hour}}}}}, `
rules: policy "a.B.C": Limits[1] (user 100,1m 10,1h): rule "100,1m" never binds beside "10,1h", which admits at most 10 in 1m, want a count under that; remove one`},
		{"options", &Policy{Type: "a.B", Method: "C", Limits: []Limit{{Kind: Global, Rules: one, By: "id", Cost: "a b", When: "x // y", Name: "a b", Bucket: "a/b", Prefix: strings.Repeat("x", 65), Missing: MissingAllow, OnFail: 7, Algorithm: 99}}}, `
rules: policy "a.B.C": Limits[0] (LIMIT): option algo has the unknown value "algo(99)", want sliding-log, compact-log, sliding-window, fixed-window, token-bucket, leaky-bucket or gcra
rules: policy "a.B.C": Limits[0] (LIMIT): found option by on global, want it on ip, user, key, concurrency or lock only
rules: policy "a.B.C": Limits[0] (LIMIT): option cost has "a b" (expected 'EOF', found b), want a Go expression, such as cost=len(req.Items)
rules: policy "a.B.C": Limits[0] (LIMIT): option when has "x // y" (found a comment), want a Go expression; write the remark on a line of its own
rules: policy "a.B.C": Limits[0] (LIMIT): option name has ' ' in "a b", want letters (a-z, A-Z), digits and ._-/ only
rules: policy "a.B.C": Limits[0] (LIMIT): option bucket has '/' in "a/b", want letters (a-z, A-Z), digits and ._- only
rules: policy "a.B.C": Limits[0] (LIMIT): option prefix has 65 bytes in "` + strings.Repeat("x", 65) + `", want at most 64
rules: policy "a.B.C": Limits[0] (LIMIT): found option missing on global, want it on ip, user, key, concurrency or lock only
rules: policy "a.B.C": Limits[0] (LIMIT): option onfail has the unknown value "onfail(7)", want local, open or closed`},
		{"key", &Policy{Type: "a.B", Method: "C", Limits: []Limit{{Kind: Key, Rules: one}}}, `
rules: policy "a.B.C": Limits[0] (LIMIT): directive key has no option by, want one; write by=req.Customer`},
		{"names", &Policy{Type: "a.B", Method: "C", Limits: []Limit{{Kind: IP, Rules: one, Name: "C/user"}, {Kind: User, Rules: one}}}, `
rules: policy "a.B.C": has the name "C/user" for Limits[0] and Limits[1], want one for each; set Name`},
		{"buckets", &Policy{Type: "a.B", Method: "C", Limits: []Limit{{Kind: IP, Rules: one, Bucket: "x"}, {Kind: IP, Rules: one, Bucket: "x", Prefix: "rl"}, {Kind: User, Rules: one, Bucket: "x"}}}, `
rules: policy "a.B.C": has the key "rl:ip=<addr>:x" for Limits[0] and Limits[1], want one for each; set Bucket or Prefix to another word, or put the rules into one limit`},
		{"bucket like the default", &Policy{Type: "a.B", Method: "C", Limits: []Limit{{Kind: IP, Rules: one, Bucket: "a.B-C"}, {Kind: IP, Rules: one}}}, `
rules: policy "a.B.C": has the key "rl:ip=<addr>:a.B-C" for Limits[0] and Limits[1], want one for each; set Bucket or Prefix to another word, or put the rules into one limit`},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got, want := validate(test.p), strings.TrimPrefix(test.want, "\n"); got != want {
				t.Errorf("Validate() =\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// validate returns what Validate says of p, with the word LIMIT for the limit of a policy that has one.
func validate(p *Policy) string {
	err := p.Validate()
	switch {
	case err == nil:
		return ""
	case p == nil || len(p.Limits) != 1:
		return err.Error()
	}
	return strings.ReplaceAll(err.Error(), "("+p.Limits[0].String()+")", "(LIMIT)")
}

func TestNamesAndKeys(t *testing.T) {
	one := []Rule{{1, time.Second}}
	for _, test := range []struct {
		name  string
		p     Policy
		names string
		keys  string
	}{
		{
			"one", Policy{Type: "orders.Orders", Method: "Create", Limits: []Limit{{Kind: User, Rules: one}}},
			"Create", "rl:user=<id>:orders.Orders-Create",
		},
		{
			"named", Policy{Type: "orders.Orders", Method: "Create", Limits: []Limit{{Kind: User, Rules: one, Name: "burst"}}},
			"burst", "rl:user=<id>:orders.Orders-Create",
		},
		{
			"each kind", Policy{Type: "a.B", Method: "C", Limits: []Limit{{Kind: IP}, {Kind: User}, {Kind: Global}, {Kind: Key}}},
			"C/ip C/user C/global C/key",
			"rl:ip=<addr>:a.B-C rl:user=<id>:a.B-C rl:global:a.B-C rl:key=<text>:a.B-C",
		},
		{
			"several of a kind", Policy{Type: "a.B", Method: "C", Limits: []Limit{{Kind: User}, {Kind: IP}, {Kind: User, Name: "x"}, {Kind: User}}},
			"C/user C/ip x C/user3",
			"rl:user=<id>:a.B-C rl:ip=<addr>:a.B-C rl:user=<id>:a.B-C@2 rl:user=<id>:a.B-C@3",
		},
		{
			"buckets and prefixes", Policy{Type: "a.B", Method: "C", Limits: []Limit{{Kind: User, Bucket: "x"}, {Kind: User, Prefix: "api"}, {Kind: User}}},
			"C/user C/user2 C/user3",
			"rl:user=<id>:x api:user=<id>:a.B-C rl:user=<id>:a.B-C@2",
		},
		{
			"algorithms", Policy{Type: "a.B", Method: "C", Limits: []Limit{{Kind: User}, {Kind: User, Algorithm: 9}, {Kind: User, Algorithm: 9}, {Kind: User, Algorithm: 9, Bucket: "x"}}},
			"C/user C/user2 C/user3 C/user4",
			"rl:user=<id>:a.B-C rl:user=<id>:a.B-C@Algorithm(9) rl:user=<id>:a.B-C@Algorithm(9)@2 rl:user=<id>:x@Algorithm(9)",
		},
		{
			"plans", Policy{Type: "a.B", Method: "C", Limits: []Limit{{Kind: User, Plan: "free"}, {Kind: User, Plan: "pro"}, {Kind: User}, {Kind: User, Plan: "pro"}, {Kind: User, Plan: "free", Algorithm: GCRA}}},
			"C/user/free C/user/pro C/user C/user2/pro C/user2/free",
			"rl:user=<id>:a.B-C@plan=free rl:user=<id>:a.B-C@plan=pro rl:user=<id>:a.B-C " +
				"rl:user=<id>:a.B-C@plan=pro@2 rl:user=<id>:a.B-C@gcra@plan=free",
		},
		{
			"shadows", Policy{Type: "a.B", Method: "C", Limits: []Limit{{Kind: User, Mode: Shadow}, {Kind: User}, {Kind: User, Mode: Shadow, Plan: "pro"}}},
			"C/user/shadow C C/user/pro/shadow",
			"rl:user=<id>:a.B-C@shadow rl:user=<id>:a.B-C rl:user=<id>:a.B-C@plan=pro@shadow",
		},
		{
			"escapes", Policy{Type: "größe.Map[struct{}]", Method: "Löschen", Limits: []Limit{{Kind: Global}}},
			"Löschen", "rl:global:gr%C3%B6%C3%9Fe.Map%5Bstruct%7B%7D%5D-L%C3%B6schen",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			var names, keys []string
			for i := range test.p.Limits {
				names = append(names, test.p.Name(i))
				keys = append(keys, test.p.KeyTemplate(i))
			}
			if got := strings.Join(names, " "); got != test.names {
				t.Errorf("Name() = %s, want %s", got, test.names)
			}
			if got := strings.Join(keys, " "); got != test.keys {
				t.Errorf("KeyTemplate() = %s, want %s", got, test.keys)
			}
		})
	}
}

func TestEscape(t *testing.T) {
	for in, want := range map[string]string{
		"":              "",
		"az-AZ_09.x@y":  "az-AZ_09.x@y",
		"a:b{c}":        "a%3Ab%7Bc%7D",
		"100%":          "100%25",
		" \x00\r\n\xff": "%20%00%0D%0A%FF",
		"ä":             "%C3%A4",
	} {
		if got := Escape(in); got != want {
			t.Errorf("Escape(%q) = %q, want %q", in, got, want)
		}
	}
}

// What is escaped holds no separator, and unescapes to what it was: so no two texts escape alike.
func TestEscapeLaw(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) })).Draw(t, "in")
		out := Escape(in)
		if back, err := url.PathUnescape(out); err != nil || back != in {
			t.Errorf("PathUnescape(Escape(%q)) = %q, %v; want the same", in, back, err)
		}
		if strings.ContainsAny(out, ":{}[]/*? \r\n\x00") {
			t.Errorf("Escape(%q) = %q, want no separator", in, out)
		}
		if got := string(AppendEscape([]byte("x:"), in)); got != "x:"+out {
			t.Errorf("AppendEscape(x:, %q) = %q, want %q", in, got, "x:"+out)
		}
	})
}
