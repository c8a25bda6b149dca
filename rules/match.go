package rules

import (
	"regexp"
	"strings"
)

var nearMiss = regexp.MustCompile(`(?i)^(?://|/\*)[ \t]*[+@]?(?:go:)?(?:rate[-_]?limit(?:er)?)[ \t]*:?[ \t]*([a-z]+)`)

// Match reports whether the text of a comment is a directive, or nearly one.
func Match(comment string) (exact bool, near *Error) {
	if rest, ok := strings.CutPrefix(comment, Namespace); ok && rest != "" && (('a' <= rest[0] && rest[0] <= 'z') || ('0' <= rest[0] && rest[0] <= '9')) {
		return true, nil
	}
	m := nearMiss.FindStringSubmatch(comment)
	if m == nil {
		return false, nil
	}
	if _, ok := findDirective(strings.ToLower(m[1])); !ok {
		return false, nil
	}
	mend := Namespace + strings.ToLower(m[1]) + strings.TrimSuffix(comment[len(m[0]):], "*/")
	return false, &Error{3, "found " + comment + ", want a directive; write " + mend}
}
