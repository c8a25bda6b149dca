package redisoverride

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rlgen/rlgen/rules"
)

// Mend is the command that takes what is wrong with overrides for the limits of policies out of the hash, each for itself: "rlgen override remove Gone". It is empty where nothing
// is, or nobody could type the names.
func Mend(policies []*rules.Policy, overrides []rules.Override, opts ...Option) string {
	words := []string{"rlgen override remove"}
	if key := of(nil, opts).key; key != Key {
		words[0] = "rlgen override -overrides-key " + quoted(key) + " remove"
	}
	for _, name := range rules.Misfits(policies, overrides, mostMended) {
		word := quoted(name)
		if word == "" {
			return ""
		}
		words = append(words, word)
	}
	if len(words) == 1 {
		return ""
	}
	return strings.Join(words, " ")
}

// mostMended is how many names one command takes away.
const mostMended = 5

// maxQuoted is the length of the longest word that a command names, in characters.
const maxQuoted = 200

// quoted returns a word as a shell reads it. It returns nothing for a word that is too long or has
// characters that cannot be seen.
func quoted(word string) string {
	switch {
	case word == "":
		return `""`
	case !utf8.ValidString(word) || utf8.RuneCountInString(word) > maxQuoted:
		return ""
	case !strings.ContainsFunc(word, notBare):
		return word
	case !strings.ContainsFunc(word, notQuotable):
		return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	return ""
}

// notBare reports whether a shell may read a character as more than itself.
func notBare(r rune) bool {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
		return false
	}
	return !strings.ContainsRune("._/@%+=:,-", r)
}

// notQuotable reports whether a character cannot be seen.
func notQuotable(r rune) bool {
	return r != ' ' && !unicode.In(r, unicode.L, unicode.N, unicode.P, unicode.S)
}
