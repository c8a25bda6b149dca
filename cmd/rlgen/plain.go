package main

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// plain writes text without what would move a terminal's cursor, colour it, set its title or turn its direction round. That comes out as JSON and Go have
// it in strings, \u001b; bytes that are no letters come out as \xff. Line ends and tabs stay.
type plain struct{ to io.Writer }

// plain is the command with plain output.
func (c *command) plain() *command { return &command{stdout: plain{c.stdout}, stderr: plain{c.stderr}} }

func (p plain) Write(text []byte) (int, error) {
	if bytes.ContainsFunc(text, moves) {
		if _, err := io.WriteString(p.to, escape(string(text))); err != nil {
			return 0, err
		}
		return len(text), nil
	}
	return p.to.Write(text)
}

// moves says whether a letter does more than to be seen; of bytes that are none, it does.
func moves(r rune) bool {
	return r != '\n' && r != '\t' && !unicode.IsPrint(r) || r == utf8.RuneError
}

func escape(text string) string {
	var b strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, text[0])
		case r == utf8.RuneError || !moves(r):
			b.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		text = text[size:]
	}
	return b.String()
}

// shown is a text that others have written, in quotes where it has more in it than letters and spaces, such as a line end.
func shown(text string) string {
	if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }) {
		return strconv.Quote(text)
	}
	return text
}

// quoted is a text as shown has it, and an empty one in quotes.
func quoted(text string) string {
	if text == "" {
		return `""`
	}
	return shown(text)
}
