package rules

import (
	"fmt"
	"regexp"
	"strings"
)

// Match says whether a comment is a directive. Comment is the whole text of one // or /* */ comment.
//
// Exact means that the comment begins with "//ratelimit:" and a lower-case letter or a digit, as go/ast has it. What
// it says is then for [Parse] to judge.
//
// Near tells of a line that was probably meant as a directive and that every tool takes for prose, and what to write
// instead. It is nil for prose, which is every line that does not begin, behind blanks, in one of these ways:
//
//   - "ratelimit:" in any case, or a word like it (rate-limit, ratelimiter, rlgen), and right behind it the name
//     of a directive: "ratelimit:user", "+RateLimit:User", "go:ratelimit:user";
//   - such a word, the name of a directive in some other way, and then nothing or a rule
//     or an option: "ratelimit: user", "ratelimit user 10,1s";
//   - right behind the //, in any case, "ratelimit:" and any word at all.
//
// Keys ("ratelimit:user:42") and fields ("RateLimit: 10,") are prose. So is a directive in a comment of its own
// ("// //ratelimit:user 10,1s"): that is how to quote one, or to switch it off.
func Match(comment string) (exact bool, near *Error) {
	switch {
	case isExact(comment):
		return true, nil
	case strings.HasPrefix(comment, "//"):
		return false, nearMiss(comment, len("//"), len(comment), false)
	case strings.HasPrefix(comment, "/*"):
		end := len(strings.TrimSuffix(comment, "*/"))
		for at := len("/*"); at < end; {
			next := end
			if n := strings.IndexByte(comment[at:end], '\n'); n >= 0 {
				next = at + n
			}
			if near := nearMiss(comment, at, next, true); near != nil {
				return false, near
			}
			at = next + 1
		}
	}
	return false, nil
}

func isExact(comment string) bool {
	rest, ok := strings.CutPrefix(comment, Namespace)
	return ok && rest != "" && ('a' <= rest[0] && rest[0] <= 'z' || '0' <= rest[0] && rest[0] <= '9')
}

var (
	// A line that may be a mangled directive: blanks, what some put before the word, the word, what stands between
	// word and name, the name, and the rest.
	mangled = regexp.MustCompile(`(?s)^(` + blanks + `\**` + blanks + `)` +
		`([+@]|(?i:go):|)` +
		`((?i:rate[-_ ]?limit(?:er|s|ing)?|rlgen)|[A-Za-z]{7,12})` +
		`(` + blanks + `[:：=./;,_(\[-]+` + blanks + `|` + blank + `+|$)` +
		`([\pL\pN_-]*)(.*)$`)

	// What a rule or an option begins with, where little else can be meant, and anywhere.
	argument     = regexp.MustCompile(`^[ \t,:=(]*(?:[+-]?[0-9]|[a-z]+=|["` + "`" + `])`)
	sureArgument = regexp.MustCompile(`^[ \t,:=(]*(?:[0-9]+,[0-9.]*[a-zµ]|(?:` + strings.Join(optionNames, "|") + `)=)`)

	// A name that has nothing of an expression, unlike the value of a field that is commented out.
	aName = regexp.MustCompile(`^[\pL_-][\pL\pN_-]*(?:[ \t]|$)`)

	// What the name is followed by in a key or a path.
	keyRest = regexp.MustCompile(`^(?::[^ \t:]|[{<*%/@"'` + "`" + `])`)
)

const (
	blank  = `[\s\p{Z}\p{Cf}]`
	blanks = blank + `*`
)

// A candidate is a line of a comment in the parts that mangled finds.
type candidate struct {
	lead, sigil, word, sep, name, rest string

	block bool
	known bool   // name is a directive's, in any case
	meant string // the directive that name probably means; empty if that is unclear
}

// nearMiss returns the problem if comment[at:end] is nearly a directive.
func nearMiss(comment string, at, end int, block bool) *Error {
	c, text := findCandidate(comment, at, end, block)
	if c == nil {
		return nil
	}
	column, text := at+len(c.lead)+1, text[len(c.lead):]
	if !block {
		column, text = 1+common(comment, Namespace+c.meant), strings.TrimRight(comment, " \t\r")
	}
	return &Error{column, fmt.Sprintf("found %q, want %s; %s", text, strings.Join(c.wants(), " and "), c.mend())}
}

// findCandidate returns comment[at:end] in its parts if it is nearly a directive, and without the blanks at its end.
func findCandidate(comment string, at, end int, block bool) (*candidate, string) {
	text := strings.TrimRight(comment[at:end], " \t\r")
	if !strings.ContainsAny(text, "rR") {
		return nil, ""
	}
	m := mangled.FindStringSubmatch(text)
	if m == nil {
		return nil, ""
	}
	c := &candidate{lead: m[1], sigil: m[2], word: m[3], sep: m[4], name: m[5], rest: m[6], block: block}
	if !c.alike() && distance(strings.ToLower(c.word), "ratelimit") > 2 {
		return nil, ""
	}
	c.meant = Suggest(c.name, directiveNames)
	c.known = strings.EqualFold(c.meant, c.name) && c.name != ""
	if !c.near() {
		return nil, ""
	}
	return c, text
}

// near reports whether the line is rather a mangled directive than prose.
func (c *candidate) near() bool {
	var (
		own   = strings.EqualFold(c.word, "ratelimit")
		tight = c.sigil != "" || c.lead == ""
		bare  = strings.Trim(c.rest, " \t") == ""
		sure  = sureArgument.MatchString(c.rest)
		args  = sure || argument.MatchString(c.rest) && tight
		colon = strings.ContainsAny(c.sep, ":：")
		next  = strings.Trim(c.sep, ":：") == "" && colon
	)
	switch {
	case c.name == "":
		return c.word == "ratelimit" && tight && colon && (bare || c.sep == ":")
	case c.isRule():
		return c.alike() && (tight || colon)
	case keyRest.MatchString(c.rest):
		return false
	case !c.alike():
		return c.known && (args || tight && bare)
	case next:
		return c.known || own && tight && aName.MatchString(c.name+c.rest) || sure || c.meant != "" && (bare || argument.MatchString(c.rest))
	case colon:
		return c.known && (args || own && bare || tight && (bare || c.word == "ratelimit")) || tight && sure
	default:
		return c.known && (args || tight && bare && strings.Trim(c.sep, " \t") == "")
	}
}

// alike reports whether the word is "ratelimit" or another for the same thing, and not just a word of similar letters.
func (c *candidate) alike() bool {
	word := strings.ToLower(c.word)
	return word == "rlgen" || strings.HasPrefix(strings.NewReplacer("-", "", "_", "", " ", "").Replace(word), "ratelimit")
}

// isRule reports whether a rule stands where the name ought to.
func (c *candidate) isRule() bool { return sureArgument.MatchString(c.name+c.rest) && !c.known }

// wants lists what makes a directive of the line.
func (c *candidate) wants() []string {
	var wants []string
	want := func(ok bool, what string) {
		if !ok {
			wants = append(wants, what)
		}
	}
	named := c.name != "" && !c.isRule()
	want(!c.block, "a // comment")
	want(c.block || c.lead == "", "no blank behind the //")
	want(c.sigil == "", fmt.Sprintf("no %q", c.sigil))
	want(c.word == "ratelimit", fmt.Sprintf(`"ratelimit" for %q`, c.word))
	want(c.sep == ":", "only a colon before the name")
	want(named, "the name of a directive")
	want(!named || !c.known || c.meant == c.name, "the name in lower case")
	want(!named || c.known, "one of "+list(directiveNames))
	return wants
}

// meantLine returns the directive that the line was probably meant to be, if that is one without problems.
func (c *candidate) meantLine() (string, bool) {
	rest := c.rest
	if strings.ContainsAny(c.sep, "([") {
		rest = strings.TrimRight(rest, ")]")
	}
	text := strings.TrimSpace(Namespace + c.meant + " " + strings.TrimLeft(rest, " \t,:=("))
	_, err := parseExact(text)
	return text, err == nil && c.meant != ""
}

// mend says what to write instead.
func (c *candidate) mend() string {
	if text, ok := c.meantLine(); ok {
		return fmt.Sprintf("write %q", text)
	}
	example, ok := findDirective(c.meant)
	if !ok {
		example = directives[0]
	}
	return fmt.Sprintf("write one such as %q, or begin a remark with another word", example.example())
}

// common counts the bytes that a and b both begin with.
func common(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}
