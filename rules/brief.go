package rules

import (
	"fmt"
	"unicode/utf8"
)

// Brief returns text, or of one that has more than most bytes the first, and how many are left out: "20,1s 200,… (and 45000 bytes more)" for the eyes
// of people and for logs, whoever has written it.
func Brief(text string, most int) string {
	if len(text) <= most {
		return text
	}
	end := max(0, most)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return fmt.Sprintf("%s… (and %d bytes more)", text[:end], len(text)-end)
}
