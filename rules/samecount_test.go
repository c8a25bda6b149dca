package rules

import (
	"slices"
	"testing"
)

func TestSameCount(t *testing.T) {
	for _, tt := range []struct{ a, b, want string }{
		{"//ratelimit:user 10,1s", "//ratelimit:user 10/1s", ""},
		{"//ratelimit:user 10,1s", "//ratelimit:user 11,1s", "found the rules 10,1s and 11,1s, want the same"},
		{"//ratelimit:user 10,1s 100,1m", "//ratelimit:user 100,1m 10,1s", "found the rules 10,1s 100,1m and 100,1m 10,1s, want the same"},
		{"//ratelimit:user 10,1s algo=gcra", "//ratelimit:user 10,1s", "found algo=gcra and no algo, want the same"},
		{"//ratelimit:user 10,1s algo=gcra", "//ratelimit:user 10,1s algo=gcra burst=20", "found no burst and burst=20, want the same"},
		{
			"//ratelimit:user 10,1s bucket=a by=req.ID cost=2 when=req.Paid name=n missing=allow onfail=open",
			"//ratelimit:user 10,1s bucket=a",
			"",
		},
	} {
		a, b := mustParse(t, tt.a), mustParse(t, tt.b)
		got := ""
		if err := SameCount(&a, &b); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("SameCount(%s, %s) = %q, want %q", a, b, got, tt.want)
		}
	}
}

// An option that is new is one that counts differ in, until somebody says that they don't.
func TestSameCountOfEachOption(t *testing.T) {
	for _, o := range options {
		a, b := Limit{Rules: []Rule{{1, minWindow}}}, Limit{Rules: []Rule{{1, minWindow}}}
		if f := o.parse(&b, o.example); f != nil || o.print(&b) == "" {
			continue // the example is the default
		}
		if got, want := SameCount(&a, &b) != nil, !slices.Contains(perCall, o.name); got != want {
			t.Errorf("SameCount of limits with and without %s differs: %t, want %t", o.pair(o.example), got, want)
		}
	}
}

func mustParse(t *testing.T, line string) Limit {
	t.Helper()
	d, err := Parse(line)
	if err != nil {
		t.Fatal(err)
	}
	return d.Limit
}
