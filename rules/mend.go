package rules

import (
	"slices"
	"strings"
)

// Mend returns what to write in place of the bytes from start up to end of a comment, to resolve a problem that [Match]
// or [Parse] has with it, if there is one sure way: a mangled directive in its proper form, and the nearest
// known word for an unknown directive, option or value. It is not ok for every other problem.
func Mend(comment string, e *Error) (start, end int, text string, ok bool) {
	exact, near := Match(comment)
	switch {
	case near != nil:
		text, ok = mendMangled(comment)
		return 0, len(comment), text, ok
	case !exact:
		return 0, 0, "", false
	}
	return mendWord(comment, e)
}

// mendMangled returns the directive that a line comment was meant to be.
func mendMangled(comment string) (string, bool) {
	if !strings.HasPrefix(comment, "//") {
		return "", false
	}
	c, _ := findCandidate(comment, len("//"), len(comment), false)
	if c == nil {
		return "", false
	}
	return c.meantLine()
}

// mendWord replaces the word at the problem's column with each known word that is near, and takes the first with which
// the problem is gone.
func mendWord(comment string, e *Error) (start, end int, text string, ok bool) {
	start = e.Column - 1
	if start < len(Namespace) || start >= len(comment) {
		return 0, 0, "", false
	}
	end = start
	for end < len(comment) && isNameByte(comment[end]) {
		end++
	}
	word := comment[start:end]
	for _, known := range vocabularies() {
		text := Suggest(word, known)
		if text == "" || text == word || slices.Contains(known, word) {
			continue
		}
		if !hasProblemAt(comment[:start]+text+comment[end:], e.Column) {
			return start, end, text, true
		}
	}
	return 0, 0, "", false
}

// vocabularies returns the words that may stand in one place of a directive, for each such place.
func vocabularies() [][]string {
	return [][]string{directiveNames, optionNames, algorithmNames, missingNames, onFailNames, denyNames}
}

func hasProblemAt(comment string, column int) bool {
	_, err := Parse(comment)
	errs, _ := err.(Errors)
	return slices.ContainsFunc(errs, func(e *Error) bool { return e.Column == column })
}
