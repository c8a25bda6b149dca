package rules_test

import (
	"errors"
	"testing"

	"github.com/rlgen/rlgen/rules"
)

func TestMend(t *testing.T) {
	for in, want := range map[string]string{
		"// ratelimit:user 10,1s":               "//ratelimit:user 10,1s",
		"//ratelimit:User 10,1s":                "//ratelimit:user 10,1s",
		"//RateLimit:ip 10,1s":                  "//ratelimit:ip 10,1s",
		"//ratelimit: user 10,1s":               "//ratelimit:user 10,1s",
		"//ratelimit:usr 10,1s":                 "//ratelimit:user 10,1s",
		"//ratelimit:user 10,1s onfial=open":    "//ratelimit:user 10,1s onfail=open",
		"//ratelimit:user 10,1s onfail=opne":    "//ratelimit:user 10,1s onfail=open",
		`//ratelimit:user 10,1s "missing=alow"`: `//ratelimit:user 10,1s "missing=allow"`,
		"//ratelimit:user 10,1s":                "",
		"//ratelimit:user 10,1s fruit=apple":    "",
		"//ratelimit:user":                      "",
		"//ratelimit:user 10,1s 10,1s":          "",
		"/* ratelimit:user 10,1s */":            "",
	} {
		t.Run(in, func(t *testing.T) {
			got := ""
			for _, e := range problems(in) {
				if start, end, text, ok := rules.Mend(in, e); ok {
					got = in[:start] + text + in[end:]
				}
			}
			if got != want {
				t.Errorf("Mend(%q) gives %q, want %q", in, got, want)
			}
		})
	}
}

func problems(comment string) rules.Errors {
	_, err := rules.Parse(comment)
	var list rules.Errors
	errors.As(err, &list)
	return list
}
