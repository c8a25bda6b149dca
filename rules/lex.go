package rules

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A piece is a text and where in the comment it is written.
type piece struct {
	text string // what it says
	raw  string // how it is written, inside its quotes if it has some
	at   int    // the offset of raw in the comment
}

// column returns the 1-based column in the comment of the byte at offset of p.text.
func (p piece) column(offset int) int {
	if p.text == p.raw {
		return p.at + 1 + offset
	}
	rest := p.raw
	for read := 0; read < offset && rest != ""; {
		r, multibyte, tail, err := strconv.UnquoteChar(rest, '"')
		if err != nil {
			break
		}
		if read++; multibyte {
			read += utf8.RuneLen(r) - 1
		}
		rest = tail
	}
	return p.at + 1 + len(p.raw) - len(rest)
}

// behind returns p without its first n bytes.
func (p piece) behind(n int) piece {
	cut := p.column(n) - 1 - p.at
	return piece{p.text[n:], p.raw[cut:], p.at + cut}
}

// A field is what stands between two spaces of a directive: a rule, an option or something else.
type field struct {
	raw   string
	at    int    // the offset of raw in the comment
	name  string // of an option; empty for anything else
	value piece  // of an option
}

func (f field) end() int { return f.at + len(f.raw) }

// splitFields splits what stands in text from an offset on, and reports what cannot be split. Spaces and tabs separate,
// but not those in the strings and brackets of an option's value.
func splitFields(text string, from int, errs *Errors) []field {
	text = strings.TrimSuffix(text, "\r")
	var fields []field
	for i := from; i < len(text); {
		if width, name := oddRune(text[i:]); width > 0 {
			errs.odd(text, i, width, name)
			i += width
		} else if atBlank(text, i) {
			i++
		} else {
			f := scanField(text, i, errs)
			fields = append(fields, f)
			i = f.end()
		}
	}
	return fields
}

// scanField reads the field that begins at an offset of text.
func scanField(text string, i int, errs *Errors) field {
	if end := scanString(text, i); end > i && atBlank(text, end) {
		f := field{raw: text[i:end], at: i}
		if content := unquote(text, i, end); optionName(content.text) > 0 {
			n := optionName(content.text)
			f.name, f.value = content.text[:n], content.behind(n+1)
		}
		return f
	}
	if n := optionName(text[i:]); n > 0 {
		f := field{at: i, name: text[i : i+n]}
		end := 0
		f.value, end = scanValue(text, i+n+1, errs)
		f.raw = text[i:end]
		return f
	}
	if fancyQuote(text[i:]) {
		errs.fancy(text, i)
		return field{raw: text[i:], at: i}
	}
	end := i
	for !atBlank(text, end) {
		end++
	}
	return field{raw: text[i:end], at: i}
}

// scanValue reads the value that begins at an offset of text: one Go string, or text up to a space outside of
// strings and brackets.
func scanValue(text string, i int, errs *Errors) (value piece, end int) {
	if end := scanString(text, i); end > i && atBlank(text, end) {
		return unquote(text, i, end), end
	}
	var open []int // where the brackets stand that are not closed yet
	for end = i; end < len(text) && (len(open) > 0 || !atBlank(text, end)); {
		width, name := oddRune(text[end:])
		switch c := text[end]; {
		case width > 0:
			errs.odd(text, end, width, name)
			end += width
			continue
		case c == '"' || c == '`' || c == '\'':
			closed := scanString(text, end)
			if closed < 0 {
				errs.addf(end+1, "found %q, want a closing %c", text[end:], c)
				return piece{text[i:], text[i:], i}, len(text)
			}
			end = closed
			continue
		case fancyQuote(text[end:]):
			errs.fancy(text, end)
			return piece{text[i:], text[i:], i}, len(text)
		case c == '(' || c == '[' || c == '{':
			open = append(open, end)
		case (c == ')' || c == ']' || c == '}') && len(open) > 0:
			open = open[:len(open)-1]
		}
		end++
	}
	if len(open) > 0 {
		at := open[len(open)-1]
		errs.addf(at+1, "found %q, want a closing %c", text[at:end], closing(text[at]))
	}
	return piece{text[i:end], text[i:end], i}, end
}

// odd reports a blank that is not plain, or a character that looks like nothing.
func (e *Errors) odd(text string, at, width int, name string) {
	plain := ""
	if r, _ := utf8.DecodeRuneInString(text[at:]); unicode.IsSpace(r) && at+width < len(text) {
		plain = " "
	}
	e.addf(at+1, "found %s, want a plain space or nothing", name).mend = &Edit{Start: at, End: at + width, Text: plain}
}

// fancyQuotes are what editors and other languages have for quotes.
const fancyQuotes = "“”„‟«»‘’"

// fancyQuote reports whether a text begins with a quote that Go does not have.
func fancyQuote(text string) bool {
	r, _ := utf8.DecodeRuneInString(text)
	return r >= utf8.RuneSelf && strings.ContainsRune(fancyQuotes, r)
}

// fancy reports a quote that Go does not have; its mend makes it and those behind it plain ones.
func (e *Errors) fancy(text string, at int) {
	r, _ := utf8.DecodeRuneInString(text[at:])
	plain := strings.Map(func(r rune) rune {
		if strings.ContainsRune(fancyQuotes, r) {
			return '"'
		}
		return r
	}, text[at:])
	e.addf(at+1, "found %q, want a plain quote (\")", string(r)).mend = &Edit{Start: at, End: len(text), Text: plain}
}

func closing(open byte) rune {
	if open == '(' {
		return ')'
	}
	return rune(open) + 2 // [] and {} stand two apart
}

// scanString returns the end of the Go string or rune that begins at an offset of text: the offset itself
// if none begins there, -1 if it does not end.
func scanString(text string, i int) int {
	if i >= len(text) || text[i] != '"' && text[i] != '`' && text[i] != '\'' {
		return i
	}
	for j := i + 1; j < len(text); j++ {
		switch {
		case text[j] == text[i]:
			return j + 1
		case text[j] == '\\' && text[i] != '`':
			j++
		}
	}
	return -1
}

// unquote returns what the literal text[i:end] says. A rune, or what is no Go string after all, says itself.
func unquote(text string, i, end int) piece {
	raw := text[i:end]
	if content, err := strconv.Unquote(raw); err == nil && raw[0] != '\'' {
		return piece{content, raw[1 : len(raw)-1], i + 1}
	}
	return piece{raw, raw, i}
}

// quote returns a value as it stands behind name=: in quotes if it would read differently without.
func quote(value string) string {
	var errs Errors
	got, end := scanValue(value, 0, &errs)
	switch {
	case len(errs) == 0 && end == len(value) && got.text == value && got.raw == value:
		return value
	case strings.ContainsAny(value, `"\`) && strconv.CanBackquote(value):
		return "`" + value + "`"
	}
	return strconv.Quote(value)
}

// optionName returns the length of the name in "name=", and 0 if text does not begin so.
func optionName(text string) int {
	for i := range len(text) {
		switch c := text[i]; {
		case c == '=':
			return i
		case !isNameByte(c) || i == 0 && (c < 'A' || c == '_'):
			return 0
		}
	}
	return 0
}

// atBlank reports whether text ends at an offset, or has a blank of any kind there.
func atBlank(text string, i int) bool {
	if i >= len(text) || text[i] == ' ' || text[i] == '\t' {
		return true
	}
	width, _ := oddRune(text[i:])
	return width > 0
}

// oddRune returns the width and a name of the rune that text begins with if it looks like a blank or like nothing, but
// is neither a space nor a tab. Otherwise the width is 0.
func oddRune(text string) (width int, name string) {
	r, width := utf8.DecodeRuneInString(text)
	switch {
	case r == ' ', r == '\t', !unicode.In(r, unicode.White_Space, unicode.Cc, unicode.Cf):
		return 0, ""
	case r == '\u00a0':
		return width, "a no-break space (U+00A0)"
	case unicode.IsSpace(r) && r >= 0x80:
		return width, fmt.Sprintf("a space that is not plain (%U)", r)
	case r >= 0x80:
		return width, fmt.Sprintf("an invisible character (%U)", r)
	}
	return width, fmt.Sprintf("the control character %q", r)
}
