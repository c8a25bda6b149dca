package rules

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
