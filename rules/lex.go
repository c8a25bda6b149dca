package rules

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A piece is a text and where it comes from in the comment.
type piece struct {
	text string // what it says
	raw  string // how it is written, without the quotes around it
	at   int    // offset of raw in the comment
}

// column returns the 1-based column in the comment of the byte of p.text at offset.
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
		read++
		if multibyte {
			read += utf8.RuneLen(r) - 1
		}
		rest = tail
	}
	return p.at + 1 + len(p.raw) - len(rest)
}

// after returns the part of p behind its first n bytes.
func (p piece) after(n int) piece {
	at := p.column(n) - 1
	return piece{text: p.text[n:], raw: p.raw[at-p.at:], at: at}
}

// A field is what stands between two blanks of a directive's line: a rule, an option or a stray.
type field struct {
	piece        // all of it, as written
	name  string // of an option; empty for what is none
	value piece  // of an option, without its quotes
	bad   bool   // a problem with it is already reported
}

// fields splits text, from offset on, at blanks. Blanks in a value's strings and brackets do not split it.
func fields(text string, offset int, errs *Errors) []field {
	var all []field
	for i := offset; i < len(text); {
		switch width, name := oddRune(text[i:]); {
		case text[i] == ' ' || text[i] == '\t':
			i++
		case width > 0:
			errs.addf(i+1, "found %s, want a plain space", name)
			i += width
		default:
			f := scanField(text, i, errs)
			all = append(all, f)
			i += len(f.raw)
		}
	}
	return all
}

// scanField reads the field that begins at offset i of text.
func scanField(text string, i int, errs *Errors) field {
	if end := scanString(text, i); end > i && atBlank(text, end) {
		f := field{piece: piece{text: text[i:end], raw: text[i:end], at: i}}
		content := unquoted(text, i, end)
		if n := optionName(content.text); n > 0 {
			f.name, f.value = content.text[:n], content.after(n+1)
		}
		return f
	}
	f := field{}
	n := optionName(text[i:])
	end := i
	if n == 0 {
		for end < len(text) && !atBlank(text, end) {
			end++
		}
	} else {
		f.name = text[i : i+n]
		f.value, end, f.bad = scanValue(text, i+n+1, errs)
	}
	f.piece = piece{text: text[i:end], raw: text[i:end], at: i}
	return f
}

// scanValue reads the value that begins at offset i of text, and says where it ends.
func scanValue(text string, i int, errs *Errors) (value piece, end int, bad bool) {
	if end := scanString(text, i); end > i && atBlank(text, end) {
		return unquoted(text, i, end), end, false
	}
	var open []int // offsets of the brackets that are not closed yet
	for end = i; end < len(text); {
		switch c := text[end]; c {
		case '"', '`', '\'':
			closed := scanString(text, end)
			if closed < 0 {
				errs.addf(end+1, "found %c without its end, want another %[1]c behind %q", c, text[end+1:])
				return piece{text[i:], text[i:], i}, len(text), true
			}
			end = closed
			continue
		case '(', '[', '{':
			open = append(open, end)
		case ')', ']', '}':
			if len(open) > 0 {
				open = open[:len(open)-1]
			}
		default:
			if atBlank(text, end) {
				if len(open) == 0 {
					return piece{text[i:end], text[i:end], i}, end, bad
				}
				if width, name := oddRune(text[end:]); width > 0 {
					errs.addf(end+1, "found %s, want a plain space", name)
					bad = true
				}
			}
		}
		end++
	}
	if len(open) > 0 && !bad {
		at := open[len(open)-1]
		errs.addf(at+1, "found %q without its end, want the bracket closed in %q", text[at:at+1], text[i:end])
		bad = true
	}
	return piece{text[i:end], text[i:end], i}, end, bad
}

// scanString returns the end of the Go string or rune literal that begins at offset i of text: i if none
// begins there, -1 if it does not end.
func scanString(text string, i int) int {
	if i >= len(text) || !strings.ContainsRune("\"`'", rune(text[i])) {
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

// unquoted returns what the Go string text[i:end] says; a literal that says nothing in Go says itself.
func unquoted(text string, i, end int) piece {
	raw := text[i+1 : end-1]
	content, err := strconv.Unquote(text[i:end])
	if err != nil || text[i] == '\'' {
		return piece{text[i:end], text[i:end], i}
	}
	return piece{content, raw, i + 1}
}

// optionName returns the length of the name in "name=…", and 0 if text is not of that form.
func optionName(text string) int {
	for i := range len(text) {
		switch c := text[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z':
		case i > 0 && ('0' <= c && c <= '9' || c == '-' || c == '_'):
		case c == '=':
			return i
		default:
			return 0
		}
	}
	return 0
}

// atBlank reports whether text ends, or has a blank of any kind, at offset i.
func atBlank(text string, i int) bool {
	if i >= len(text) || text[i] == ' ' || text[i] == '\t' {
		return true
	}
	width, _ := oddRune(text[i:])
	return width > 0
}

// oddRune returns the width and the name of a rune that looks like a blank, or like nothing, and is neither a
// space nor a tab. The width is 0 if text begins with another rune.
func oddRune(text string) (width int, name string) {
	r, width := utf8.DecodeRuneInString(text)
	if r == ' ' || r == '\t' || r == utf8.RuneError || !unicode.In(r, unicode.White_Space, unicode.Cc, unicode.Cf) {
		return 0, ""
	}
	name = strconv.QuoteToASCII(string(r))
	if r == '\u00a0' {
		name = "a no-break space (U+00A0)"
	}
	return width, name
}
