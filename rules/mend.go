package rules

import "slices"

// Edit is a change of a comment that is, or nearly is, a directive: Text in place of the bytes from Start up to End.
type Edit struct {
	Start, End int
	Text       string
	// Above is a line of comment that goes before the comment's, empty for none.
	Above string
}

// Mend returns the change that resolves a problem which [Match] or [Parse] found in a comment, if there is one sure way:
// a mangled directive in its proper form, the nearest known word for an unknown one, a rule or an option as it was meant,
// blanks that are plain, what stands there twice only once, and remarks on lines of their own. It is not ok for every other
// problem.
func Mend(comment string, e *Error) (Edit, bool) {
	if e.mend != nil {
		return *e.mend, fewer(comment, *e.mend)
	}
	if exact, _ := Match(comment); !exact {
		return Edit{}, false
	}
	return mendWord(comment, e)
}

// Apply returns the comment with the change.
func (m Edit) Apply(comment string) string { return comment[:m.Start] + m.Text + comment[m.End:] }

// fewer reports whether a comment has fewer problems with a change than without, or none where it was no directive.
func fewer(comment string, m Edit) bool {
	before, after := problems(comment), problems(m.Apply(comment))
	return len(after) == 0 || isExact(comment) && len(after) < len(before)
}

func problems(comment string) Errors {
	_, err := Parse(comment)
	errs, _ := err.(Errors)
	return errs
}

// mendWord replaces the word at the problem's column with each known word that is near, and takes the first with which
// the problem is gone.
func mendWord(comment string, e *Error) (Edit, bool) {
	start := e.Column - 1
	if start < len(Namespace) || start >= len(comment) {
		return Edit{}, false
	}
	end := start
	for end < len(comment) && isNameByte(comment[end]) {
		end++
	}
	word := comment[start:end]
	for _, known := range vocabularies() {
		text := Suggest(word, known)
		if text == "" || text == word || slices.Contains(known, word) {
			continue
		}
		m := Edit{Start: start, End: end, Text: text}
		if !hasProblemAt(m.Apply(comment), e.Column) {
			return m, true
		}
	}
	return Edit{}, false
}

// vocabularies returns the words that may stand in one place of a directive, for each such place.
func vocabularies() [][]string {
	words := [][]string{directiveNames, optionNames, wrapperOptions}
	for _, o := range options {
		words = append(words, o.words)
	}
	return words
}

func hasProblemAt(comment string, column int) bool {
	return slices.ContainsFunc(problems(comment), func(e *Error) bool { return e.Column == column })
}
