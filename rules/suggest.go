package rules

import (
	"slices"
	"strings"
)

// Suggest returns the word of known that word was probably meant to be, and "" if none is near: one typing
// mistake away (two for words of more than four letters), whatever its case, or begun but not
// finished. Of words equally near it is the first.
func Suggest(word string, known []string) string {
	word = strings.ToLower(word)
	best, nearest := "", 1+len(word)
	limit := 1
	if len(word) > 4 {
		limit = 2
	}
	for _, k := range known {
		d := distance(word, strings.ToLower(k))
		if begun := len(word) >= 3 && strings.HasPrefix(strings.ToLower(k), word); begun {
			d = min(d, limit)
		}
		// A change of every letter is not a likeness.
		if d <= limit && d < nearest && d < max(len(word), len(k)) {
			best, nearest = k, d
		}
	}
	return best
}

// distance counts the bytes to insert, delete, replace or swap with their neighbour to make a of b.
func distance(a, b string) int {
	const far = 1 << 20
	if len(a) > 64 || len(b) > 64 {
		return far
	}
	var before []int
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		next := make([]int, len(b)+1)
		next[0] = i + 1
		for j := range len(b) {
			change := 1
			if a[i] == b[j] {
				change = 0
			}
			next[j+1] = min(row[j+1]+1, next[j]+1, row[j]+change)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
		}
		before, row = row, next
	}
	return row[len(b)]
}

// didYouMean returns `; did you mean "user"?`, and "" if nothing is near.
func didYouMean(word string, known []string) string {
	if s := Suggest(word, known); s != "" && !slices.Contains(known, word) {
		return `; did you mean "` + s + `"?`
	}
	return ""
}
