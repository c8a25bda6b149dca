package rules

import (
	"fmt"
	"slices"
)

// Kind says whose calls a limit counts. The zero Kind is not valid.
type Kind uint8

const (
	IP     Kind = iota + 1 // by the caller's network address
	User                   // by the authenticated user
	Global                 // one count for all callers
	Key                    // by the text of an expression
)

// Algorithm says how a limit counts. The zero Algorithm is [SlidingLog], the default.
type Algorithm uint8

// SlidingLog records each admission and counts those of the last window. It is exact, and remembers at most
// 10,000 admissions of an id.
const SlidingLog Algorithm = 0

// Missing says what becomes of a call that carries no id for a limit. The zero Missing is [MissingDeny].
type Missing uint8

const (
	MissingDeny  Missing = iota // the call fails with ratelimit.ErrNoIdentity
	MissingAllow                // the limit does not apply to the call
)

// OnFail says what becomes of a limit while its store cannot decide. The zero OnFail is [FailLocal].
type OnFail uint8

const (
	FailLocal  OnFail = iota // this process decides alone
	FailOpen                 // the limit lets the call pass
	FailClosed               // the call fails with ratelimit.ErrUnavailable
)

// The words that directives have for the values above, each at its value.
var (
	kindNames    = []string{IP: "ip", User: "user", Global: "global", Key: "key"}
	missingNames = []string{MissingDeny: "deny", MissingAllow: "allow"}
	onFailNames  = []string{FailLocal: "local", FailOpen: "open", FailClosed: "closed"}
)

// An algorithm is what the rule language knows of one. The table below is the only place that knows them.
type algorithm struct {
	name     string
	maxCount int64 // the largest count of a rule
}

// algorithms has each at its Algorithm.
var algorithms = []algorithm{
	SlidingLog: {name: "sliding-log", maxCount: 10_000},
}

var algorithmNames = namesOf(algorithms, func(a algorithm) string { return a.name })

// String returns the word that directives have for the kind: "user".
func (k Kind) String() string { return wordFor("Kind", kindNames, k) }

// String returns the word that directives have for the algorithm: "sliding-log".
func (a Algorithm) String() string { return wordFor("Algorithm", algorithmNames, a) }

// String returns the word that directives have for m: "deny".
func (m Missing) String() string { return wordFor("Missing", missingNames, m) }

// String returns the word that directives have for f: "local".
func (f OnFail) String() string { return wordFor("OnFail", onFailNames, f) }

// maxCount returns the largest count of a rule of a; of an unknown algorithm, the largest of any.
func (a Algorithm) maxCount() int64 {
	if int(a) < len(algorithms) {
		return algorithms[a].maxCount
	}
	return mostCount()
}

// mostCount returns the largest count of any algorithm.
func mostCount() int64 {
	most := int64(0)
	for _, a := range algorithms {
		most = max(most, a.maxCount)
	}
	return most
}

// largerCounts returns which algorithms take the count, as the end of a message, and "" if none does.
func largerCounts(count int64) string {
	takes := slices.DeleteFunc(slices.Clone(algorithms), func(a algorithm) bool { return a.maxCount < count })
	if len(takes) == 0 {
		return ""
	}
	return "; write algo=" + list(namesOf(takes, func(a algorithm) string { return a.name }))
}

// wordFor returns the word of v, and "Kind(9)" if it has none.
func wordFor[T ~uint8](what string, words []string, v T) string {
	if int(v) < len(words) && words[v] != "" {
		return words[v]
	}
	return fmt.Sprintf("%s(%d)", what, uint8(v))
}

func namesOf[T any](table []T, name func(T) string) []string {
	var names []string
	for _, entry := range table {
		names = append(names, name(entry))
	}
	return names
}
