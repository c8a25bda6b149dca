package rules_test

import (
	"errors"
	"testing"

	"github.com/rlgen/rlgen/rules"
)

// TestMend applies the mends of all problems of a comment, the last first, and reads what comes of it: no problem is left
// that has a mend, and what goes above stands before a bar.
func TestMend(t *testing.T) {
	for in, want := range map[string]string{
		"// ratelimit:user 10,1s":               "//ratelimit:user 10,1s",
		"//ratelimit:User 10,1s":                "//ratelimit:user 10,1s",
		"//RateLimit:ip 10,1s":                  "//ratelimit:ip 10,1s",
		"//ratelimit: user 10,1s":               "//ratelimit:user 10,1s",
		"/* ratelimit:user 10,1s */":            "//ratelimit:user 10,1s",
		"// Create. //ratelimit:user 10,1s":     "// Create.|//ratelimit:user 10,1s",
		"//ratelimit:usr 10,1s":                 "//ratelimit:user 10,1s",
		"//ratelimit:user 10,1s onfial=open":    "//ratelimit:user 10,1s onfail=open",
		"//ratelimit:user 10,1s onfail=opne":    "//ratelimit:user 10,1s onfail=open",
		"//ratelimit:wrapper constructr=New":    "//ratelimit:wrapper constructor=New",
		`//ratelimit:user 10,1s "missing=alow"`: `//ratelimit:user 10,1s "missing=allow"`,

		// Rules.
		"//ratelimit:user 10,1sec":             "//ratelimit:user 10,1s",
		"//ratelimit:user 10/1min 100/1hour":   "//ratelimit:user 10,1m 100,1h",
		"//ratelimit:user 10, 1s":              "//ratelimit:user 10,1s",
		"//ratelimit:user 10 / 1s 100 per 1m":  "//ratelimit:user 10,1s 100,1m",
		"//ratelimit:user 10 calls per 1m":     "//ratelimit:user 10,1m",
		"//ratelimit:user 10 per min":          "//ratelimit:user 10,1m",
		"//ratelimit:user 1s,10":               "//ratelimit:user 10,1s",
		"//ratelimit:user 10:1s":               "//ratelimit:user 10,1s",
		"//ratelimit:user 10_000,1s":           "//ratelimit:user 10000,1s",
		"//ratelimit:user 10,1s,100,1m":        "//ratelimit:user 10,1s 100,1m",
		"//ratelimit:user 10,1s 10/1s":         "//ratelimit:user 10,1s",
		"//ratelimit:user onfail=open 10,1s":   "//ratelimit:user 10,1s onfail=open",
		"//ratelimit:user 9,1s name=a 80/1min": "",
		"//ratelimit:user:10,1s":               "//ratelimit:user 10,1s",
		"//ratelimit:user(10,1s)":              "//ratelimit:user 10,1s",

		// Options.
		"//ratelimit:user 10,1s name=a name=a":                 "//ratelimit:user 10,1s name=a",
		"//ratelimit:user 10,1s name=a onfail=open \"name=a\"": "//ratelimit:user 10,1s name=a onfail=open",
		"//ratelimit:user 10,1s name=a name=b":                 "",
		"//ratelimit:wrapper constructor=New constructor=New":  "//ratelimit:wrapper constructor=New",
		"//ratelimit:user 10,1s onfail:open":                   "//ratelimit:user 10,1s onfail=open",
		"//ratelimit:user 10,1s onfail = open":                 "//ratelimit:user 10,1s onfail=open",
		"//ratelimit:user 10,1s when=a == b":                   `//ratelimit:user 10,1s when="a == b"`,

		// Blanks and quotes.
		"//ratelimit:user\u00a010,1s":                    "//ratelimit:user 10,1s",
		"//ratelimit:user 10,1s\u00a0onfail=open":        "//ratelimit:user 10,1s onfail=open",
		"//ratelimit:user 10,\u200b1s":                   "//ratelimit:user 10,1s",
		"//ratelimit:user 10,1s\ufeff":                   "//ratelimit:user 10,1s",
		"//ratelimit:user\u00a010,1s\u00a0onfail=open":   "//ratelimit:user 10,1s onfail=open",
		"//ratelimit:user 10,1s when=“a == b”":           `//ratelimit:user 10,1s when="a == b"`,
		"//ratelimit:user 10,1s by=f(“a”) onfail=“open”": `//ratelimit:user 10,1s by=f("a") onfail="open"`,

		// Remarks.
		"//ratelimit:user 10,1s // because":            "// because|//ratelimit:user 10,1s",
		"//ratelimit:user 10,1s onfail=open # because": "// because|//ratelimit:user 10,1s onfail=open",
		"//ratelimit:user 10,1s /* because */":         "// because|//ratelimit:user 10,1s",
		"//ratelimit:none //":                          "//ratelimit:none",
		"//ratelimit:user 10,1s //ratelimit:ip 5,1s":   "//ratelimit:ip 5,1s|//ratelimit:user 10,1s",

		// Both, at once.
		"//ratelimit:user 10,1sec onfial=open name=a name=a // because": "// because|//ratelimit:user 10,1s onfail=open name=a",

		// No sure way.
		"//ratelimit:user 10,1s":             "",
		"//ratelimit:user 10,60":             "",
		"//ratelimit:user 10,1month":         "",
		"//ratelimit:user 10,1M":             "",
		"//ratelimit:user 0,1s":              "",
		"//ratelimit:user 10,1s fruit=apple": "",
		"//ratelimit:user":                   "",
		"//ratelimit:none 10,1s":             "",
		"//ratelimit:user 100,1m 10,1h":      "",
		"/*\n * ratelimit:user 10,1s\n */":   "",
	} {
		t.Run(in, func(t *testing.T) {
			got, above := in, ""
			for again := true; again; {
				again = false
				for _, e := range problems(got) {
					if m, ok := rules.Mend(got, e); ok {
						got, again = m.Apply(got), true
						if m.Above != "" {
							above = m.Above + "|"
						}
						break
					}
				}
			}
			if left := problems(got); want != "" && len(left) > 0 {
				t.Errorf("%q is mended to %q, which has the problems %v", in, got, left)
			}
			if got = above + got; want != "" && got != want || want == "" && got != in {
				t.Errorf("%q is mended to %q, want %q", in, got, want)
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
