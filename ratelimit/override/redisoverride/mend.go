package redisoverride

import (
	"regexp"
	"strings"
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

var (
	bare     = regexp.MustCompile(`^[A-Za-z0-9._/@%+=:,-]{1,200}$`)
	quotable = regexp.MustCompile(`^[\p{L}\p{N}\p{P}\p{S} ]{1,200}$`)
)

// quoted is a word as a shell reads it, empty where it has letters that cannot be seen, or too many.
func quoted(word string) string {
	switch {
	case word == "":
		return `""`
	case bare.MatchString(word):
		return word
	case utf8.ValidString(word) && quotable.MatchString(word):
		return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	return ""
}
