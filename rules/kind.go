package rules

import "fmt"

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

// SlidingLog records each admission and counts those of the last window. It is exact.
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

// An algorithm is what the rule language knows of one.
type algorithm struct {
	name     string
	maxCount int64 // the most that a rule may have
}

// algorithms by Algorithm.
var algorithms = []algorithm{
	SlidingLog: {name: "sliding-log", maxCount: 10_000},
}

var (
	kindNames    = []string{IP: "ip", User: "user", Global: "global", Key: "key"}
	missingNames = []string{MissingDeny: "deny", MissingAllow: "allow"}
	onFailNames  = []string{FailLocal: "local", FailOpen: "open", FailClosed: "closed"}
)

var algorithmNames = func() []string {
	var names []string
	for _, a := range algorithms {
		names = append(names, a.name)
	}
	return names
}()

// String returns the word that directives have for the kind: "user".
func (k Kind) String() string { return nameOf("Kind", kindNames, k) }

// String returns the word that directives have for the algorithm: "sliding-log".
func (a Algorithm) String() string { return nameOf("Algorithm", algorithmNames, a) }

// String returns the word that directives have for m: "deny".
func (m Missing) String() string { return nameOf("Missing", missingNames, m) }

// String returns the word that directives have for f: "local".
func (f OnFail) String() string { return nameOf("OnFail", onFailNames, f) }

func (a Algorithm) maxCount() int64 {
	if int(a) < len(algorithms) {
		return algorithms[a].maxCount
	}
	return algorithms[SlidingLog].maxCount
}

// nameOf returns the name of v, and "Kind(9)" if it has none.
func nameOf[T ~uint8](what string, names []string, v T) string {
	if int(v) < len(names) && names[v] != "" {
		return names[v]
	}
	return fmt.Sprintf("%s(%d)", what, uint8(v))
}
