package rules

import (
	"fmt"
	"slices"
	"strings"
)

// Error is one problem of a directive: what was found, what was wanted, and how to mend it.
type Error struct {
	// Column is the 1-based byte column in the comment's text. In a block comment of several lines the
	// bytes of the earlier lines and their line ends count too.
	Column int
	Msg    string

	mend *Edit // nil where there is no one sure way
}

// Error returns the column and the message: "column 18: …".
func (e *Error) Error() string { return fmt.Sprintf("column %d: %s", e.Column, e.Msg) }

// Errors is every problem of a directive, sorted by column. [Parse] never returns it empty.
type Errors []*Error

// Error returns the problems, one per line.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, err := range e {
		lines[i] = err.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the problems, for [errors.As].
func (e Errors) Unwrap() []error {
	errs := make([]error, len(e))
	for i, err := range e {
		errs[i] = err
	}
	return errs
}

// addf records a problem at a 1-based column, and returns it for its mend.
func (e *Errors) addf(column int, format string, args ...any) *Error {
	*e = append(*e, &Error{Column: column, Msg: fmt.Sprintf(format, args...)})
	return (*e)[len(*e)-1]
}

// err returns e as an error, sorted; nil if e is empty.
func (e Errors) err() error {
	if len(e) == 0 {
		return nil
	}
	slices.SortStableFunc(e, func(a, b *Error) int { return a.Column - b.Column })
	return e
}

// A fault is a problem inside a text that does not know its column yet: at counts the bytes before it.
type fault struct {
	at  int
	msg string

	better string // what to write for the whole text, where that is sure
	extra  bool   // the text can be left out
}

func faultf(at int, format string, args ...any) *fault {
	return &fault{at: at, msg: fmt.Sprintf(format, args...)}
}

// list returns "a, b or c".
func list(words []string) string {
	switch n := len(words); n {
	case 0:
		return "nothing"
	case 1:
		return words[0]
	default:
		return strings.Join(words[:n-1], ", ") + " or " + words[n-1]
	}
}
