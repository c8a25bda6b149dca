package rules

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
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
//     of a directive: "ratelimit:user", "+RateLimit:User", "- ratelimit:user", "nolint:ratelimit:user", "///ratelimit:user";
//   - such a word, the name of a directive in some other way, and then nothing or a rule
//     or an option: "ratelimit: user", "ratelimit user 10,1s", "ratelimituser 10,1s";
//   - right behind the //, in any case, "ratelimit:" and any word at all, or nothing but the word.
//
// Letters that look like these, and characters that look like nothing, make no difference. A line whose end is a directive with
// slashes and rules is near, too: "Create places one. //ratelimit:user 10,1s".
//
// Keys ("ratelimit:user:42") and fields ("RateLimit: 10,") are prose. So is a directive in a // comment of its own
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
	// The words for the namespace, as people write them.
	namespaceWord = `(?i:rate[-_ :./–—]?limit(?:er|s|ing)?|rlgen)`

	// What some put before the word: bullets, marks of other tools, quotes, another slash, any other mark.
	sigils = `(?:[\pP\pS]+` + blanks + `)*`

	// A line that may be a mangled directive: blanks, what stands before the word, the word, what stands between
	// word and name, the name, and the rest.
	mangled = regexp.MustCompile(`(?s)^(` + blanks + `)(` + sigils + `)` +
		`(` + namespaceWord + `|[A-Za-z]{7,12})` +
		`(` + blanks + `[^\pL\pN\s"'` + "`" + `<{%]+` + blanks + `|` + blank + `+|$)` +
		`([\pL\pN_-]*)(.*)$`)

	// The same behind another tool's word: "nolint:ratelimit:user", "rlgen:ratelimit user".
	prefixed = regexp.MustCompile(`(?s)^(` + blanks + `)(` + sigils + `[A-Za-z]{1,12}:)` +
		`((?i:rate[-_ :./–—]?limit(?:er|s|ing)?))` +
		`(` + blanks + `[:：=./;,_(\[-]+` + blanks + `|` + blank + `+)` +
		`([\pL\pN_-]*)(.*)$`)

	// The same with nothing between word and name: "ratelimituser 10,1s".
	glued = regexp.MustCompile(`(?s)^(` + blanks + `)(` + sigils + `)((?i:rate[-_]?limit))()` +
		`((?i:` + strings.Join(directiveNames, "|") + `))(` + blank + `.*|)$`)

	// A directive behind other text.
	behind = regexp.MustCompile(`[ \t](//+[ \t]*(?i:ratelimit):([\pL\pN_-]+)(.*))$`)

	// What a rule or an option begins with, where little else can be meant, and anywhere.
	argument     = regexp.MustCompile(`^[ \t,:=(]*(?:[+-]?[0-9]|[a-z]+=|["` + "`" + `])`)
	sureArgument = regexp.MustCompile(`^[ \t,:=(@/|]*(?:[0-9]+,[0-9.]*[a-zµ]|(?:` + strings.Join(optionNames, "|") + `)=)`)

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

	block  bool
	inner  bool   // the line of a block comment begins as a // comment
	prefix bool   // sigil ends in another tool's word
	folded bool   // the line has letters that look like others, or characters that look like nothing
	known  bool   // name is a directive's, in any case
	meant  string // the directive that name probably means; empty if that is unclear
}

// nearMiss returns the problem if comment[at:end] is nearly a directive.
func nearMiss(comment string, at, end int, block bool) *Error {
	c, text := findCandidate(comment, at, end, block)
	if c == nil {
		return misplaced(comment, at, end)
	}
	column, text := at+len(c.lead)+1, text[len(c.lead):]
	if !block {
		column, text = 1+common(comment, Namespace+c.meant), strings.TrimRight(comment, " \t\r")
	}
	return &Error{Column: column, Msg: fmt.Sprintf("found %q, want %s; %s", text, strings.Join(c.wants(), " and "), c.mend()), mend: c.edit(comment)}
}

// misplaced returns the problem if comment[at:end] has a directive behind other text.
func misplaced(comment string, at, end int) *Error {
	text := strings.TrimRight(comment[at:end], " \t\r")
	if !strings.Contains(text, "//") {
		return nil
	}
	m := behind.FindStringSubmatchIndex(text)
	if m == nil {
		return nil
	}
	before := strings.TrimRight(text[:m[2]], " \t")
	name, rest := text[m[4]:m[5]], text[m[6]:m[7]]
	if strings.Trim(before, " \t*/") == "" || !slices.Contains(directiveNames, strings.ToLower(name)) {
		return nil
	}
	if rest == "" && !strings.ContainsAny(before[len(before)-1:], ".;:!?)") {
		return nil
	}
	line := strings.ToLower(Namespace+name) + rest
	if _, err := Parse(line); err != nil {
		return nil // text about directives: a quotation mark, or more words, behind one
	}
	e := &Error{Column: at + m[2] + 1, Msg: fmt.Sprintf("found %q behind other text, want the directive in a comment of its own; write %q on a line of its own", text[m[2]:], line)}
	if strings.HasPrefix(comment, "//") {
		e.mend = &Edit{End: len(comment), Text: line, Above: comment[:at] + before}
	}
	return e
}

// findCandidate returns comment[at:end] in its parts if it is nearly a directive, and without the blanks at its end.
func findCandidate(comment string, at, end int, block bool) (*candidate, string) {
	text := strings.TrimRight(comment[at:end], " \t\r")
	if c := findParts(text, block, false); c != nil {
		return c, text
	}
	if folded := fold(text); folded != text {
		if c := findParts(folded, block, true); c != nil {
			c.lead = text[:len(text)-len(strings.TrimLeftFunc(text, isBlank))]
			return c, text
		}
	}
	return nil, ""
}

// findParts returns the first way in which text is nearly a directive.
func findParts(text string, block, folded bool) *candidate {
	if !strings.ContainsAny(text, "rR") {
		return nil
	}
	for _, form := range []*regexp.Regexp{mangled, prefixed, glued} {
		m := form.FindStringSubmatch(text)
		if m == nil {
			continue
		}
		c := &candidate{lead: m[1], sigil: m[2], word: m[3], sep: m[4], name: m[5], rest: m[6], block: block, folded: folded, prefix: form == prefixed}
		if block { // the stars at the left, and the slashes of a // comment that is inside
			c.sigil = strings.TrimLeft(c.sigil, "* \t")
			c.lead = text[:len(m[1])+len(m[2])-len(c.sigil)]
			if rest := strings.TrimLeft(c.sigil, "/"); len(c.sigil)-len(rest) > 1 {
				c.sigil, c.inner = strings.TrimLeft(rest, " \t"), true
			}
			if strings.HasPrefix(c.sigil, "/") {
				continue // quoted
			}
		}
		if !c.alike() && distance(strings.ToLower(c.word), "ratelimit") > 2 {
			continue
		}
		c.meant = Suggest(c.name, directiveNames)
		c.known = strings.EqualFold(c.meant, c.name) && c.name != ""
		if c.near() && (form != glued || sureArgument.MatchString(c.rest)) {
			return c
		}
	}
	return nil
}

// lookalikes are letters that look like those of directives.
var lookalikes = strings.NewReplacer(
	"а", "a", "е", "e", "і", "i", "о", "o", "р", "p", "с", "c", "у", "u", "т", "t", "м", "m", "г", "r", "ѕ", "s", "ӏ", "l", "к", "k",
	"α", "a", "ε", "e", "ι", "i", "ο", "o", "τ", "t", "υ", "u", "ı", "i", "ⅼ", "l", "ｌ", "l",
	"А", "A", "Е", "E", "І", "I", "Т", "T", "М", "M", "Α", "A", "Ε", "E", "Ι", "I", "Τ", "T", "Μ", "M",
)

// fold returns text without characters that look like nothing, and with a letter of ASCII for every other letter: the
// one that it looks like, or some.
func fold(text string) string {
	if isASCII(text) {
		return text
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r < 0x80:
			return r
		case 0xff01 <= r && r <= 0xff5e: // of full width
			return r - 0xfee0
		case unicode.In(r, unicode.Cf, unicode.Mn):
			return -1
		case unicode.IsLetter(r):
			return 'x'
		}
		return r
	}, lookalikes.Replace(text))
}

func isASCII(text string) bool {
	for i := range len(text) {
		if text[i] >= 0x80 {
			return false
		}
	}
	return true
}

func isBlank(r rune) bool { return unicode.In(r, unicode.White_Space, unicode.Z, unicode.Cf) }

// near reports whether the line is rather a mangled directive than prose.
func (c *candidate) near() bool {
	var (
		own   = strings.EqualFold(c.word, "ratelimit")
		mark  = c.sigil == "+" || c.sigil == "@" || c.prefix && strings.EqualFold(c.sigil, "go:")
		tight = mark || c.lead == "" || c.inner
		bare  = strings.Trim(c.rest, " \t\"'`)]}") == ""
		sure  = sureArgument.MatchString(c.rest)
		args  = sure || argument.MatchString(c.rest) && tight
		colon = strings.ContainsAny(c.sep, ":：")
		next  = strings.Trim(c.sep, ":：") == "" && colon
	)
	if c.lead != "" && !mark && !c.inner && c.sigil != "" {
		if !c.block && strings.Contains(c.sigil, "/") || strings.ContainsAny(c.sigil, "\"'`([{") {
			return false // quoted
		}
		return c.known && (sure || bare && next && !c.prefix)
	}
	switch {
	case c.name == "" && c.sep == "":
		return c.word == "ratelimit" && c.lead == "" && c.sigil == "" && bare && !c.block
	case c.name == "":
		return c.word == "ratelimit" && tight && colon && (bare || c.sep == ":") && !c.prefix
	case c.isRule():
		return c.alike() && (tight || colon)
	case c.known && sure && own:
		return true
	case keyRest.MatchString(c.rest) && !bare:
		return false
	case c.prefix:
		return c.known && (args || bare && colon)
	case !c.alike():
		return c.known && (args || tight && bare) || tight && sure && c.sep == ":"
	case next:
		return c.known || own && tight && aName.MatchString(c.name+c.rest) || sure || c.meant != "" && (bare || argument.MatchString(c.rest))
	case colon:
		return c.known && (args || own && bare || tight && (bare || c.word == "ratelimit")) || tight && sure
	default:
		return c.known && (args || tight && bare && (c.word == "ratelimit" || strings.Trim(c.sep, " \t") == ""))
	}
}

// alike reports whether the word is "ratelimit" or another for the same thing, and not just a word of similar letters.
func (c *candidate) alike() bool {
	word := strings.ToLower(c.word)
	return word == "rlgen" || strings.HasPrefix(strings.NewReplacer("-", "", "_", "", " ", "", ".", "", "/", "", "–", "", "—", "", ":", "").Replace(word), "ratelimit")
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
	want(!c.block || c.inner, "a // comment")
	want(!c.inner, "it outside of the /* */ comment")
	want(c.block || c.lead == "", "no blank behind the //")
	want(c.sigil == "", fmt.Sprintf("no %q", strings.TrimRight(c.sigil, " \t")))
	want(!c.folded, "plain letters of ASCII and nothing invisible")
	want(c.word == "ratelimit" || c.folded, fmt.Sprintf(`"ratelimit" for %q`, c.word))
	want(c.sep == ":" || c.name == "" && c.sep == "", "only a colon before the name")
	want(named, "the name of a directive")
	want(!named || !c.known || c.meant == c.name, "the name in lower case")
	want(!named || c.known, "one of "+list(directiveNames))
	return wants
}

// meantLine returns the directive that the line was probably meant to be, if that is one without problems.
func (c *candidate) meantLine() (string, bool) {
	rest := c.rest
	if strings.ContainsAny(c.sep+c.sigil, "([{") {
		rest = strings.TrimRight(rest, ")]}")
	}
	if strings.ContainsAny(c.sigil, "\"'`") {
		rest = strings.TrimRight(rest, "\"'`")
	}
	text := strings.TrimSpace(Namespace + c.meant + " " + strings.TrimLeft(rest, " \t,:=(@/|"))
	_, err := parseExact(text)
	return text, err == nil && c.meant != ""
}

// edit is the mend that writes the directive in place of the comment, nil if that is not all that the comment says.
func (c *candidate) edit(comment string) *Edit {
	text, ok := c.meantLine()
	if !ok || c.block && strings.Contains(comment, "\n") {
		return nil
	}
	return &Edit{End: len(comment), Text: text}
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
