package rules

import "fmt"

// Kind says which directive a limit is: whose calls it counts, or what it holds. The zero Kind is not valid.
type Kind uint8

const (
	IP     Kind = iota + 1 // by the caller's network address
	User                   // by the authenticated user
	Global                 // one count for all callers
	Key                    // by the text of an expression

	Concurrency // calls in flight, by [Limit.Per]
	Lock        // one holder at a time, by [Limit.By]
)

// Per says whose calls in flight a [Concurrency] counts. The zero Per is [PerGlobal].
type Per uint8

const (
	PerGlobal Per = iota // all callers'
	PerIP                // those from one network address
	PerUser              // those of one user
	PerKey               // those with one text of an expression
)

// Charge says which calls a limit is charged for, by how they end. The zero Charge is [ChargeAlways].
type Charge uint8

const (
	ChargeAlways  Charge = iota // all that it lets pass
	ChargeSuccess               // those that return no error
	ChargeError                 // those that return an error or panic
)

// Missing says what becomes of a call that carries no id for a limit. The zero Missing is [MissingDeny].
type Missing uint8

const (
	MissingDeny  Missing = iota // the call fails with ratelimit.ErrNoIdentity
	MissingAllow                // the limit does not apply to the call
)

// Free says what a computed cost below 1 is. The zero Free is [FreeDeny].
type Free uint8

const (
	FreeDeny  Free = iota // it counts as 1
	FreeAllow             // a cost of 0 asks the limit without charging it, and a cost below 0 is an error
)

// OnFail says what becomes of a limit while its store cannot decide. The zero OnFail is [FailLocal].
type OnFail uint8

const (
	FailLocal  OnFail = iota // this process decides alone
	FailOpen                 // the limit lets the call pass
	FailClosed               // the call fails with ratelimit.ErrUnavailable
)

// Deny says what a denied call returns. The zero Deny is [DenyError].
type Deny uint8

const (
	DenyError Deny = iota // an error
	DenyZero              // zero values, since the method has no result for an error
)

// Mode says whether a limit denies calls. The zero Mode is [Enforce].
type Mode uint8

const (
	Enforce Mode = iota // it denies those that it has no room for
	Shadow              // it decides, counts and reports, and denies none
)

// Start says where the windows of a [FixedWindow] begin. The zero Start is [StartClock].
type Start uint8

const (
	StartClock Start = iota // at the multiples of their length since 1970-01-01 00:00 UTC
	StartFirst              // at the first call that is admitted after the window before
)

// Refill says how a [TokenBucket] gains its tokens. The zero Refill is [RefillSmooth].
type Refill uint8

const (
	RefillSmooth   Refill = iota // evenly, each after window/count
	RefillInterval               // count of them whenever a window has passed
)

// The words that directives have for the values above, each at its value.
var (
	kindNames    = []string{IP: "ip", User: "user", Global: "global", Key: "key", Concurrency: "concurrency", Lock: "lock"}
	perNames     = []string{PerGlobal: "global", PerIP: "ip", PerUser: "user", PerKey: "key"}
	chargeNames  = []string{ChargeAlways: "always", ChargeSuccess: "success", ChargeError: "error"}
	missingNames = []string{MissingDeny: "deny", MissingAllow: "allow"}
	freeNames    = []string{FreeDeny: "deny", FreeAllow: "allow"}
	onFailNames  = []string{FailLocal: "local", FailOpen: "open", FailClosed: "closed"}
	denyNames    = []string{DenyZero: "zero"} // an error needs no word
	modeNames    = []string{Enforce: "enforce", Shadow: "shadow"}
	startNames   = []string{StartClock: "clock", StartFirst: "first"}
	refillNames  = []string{RefillSmooth: "smooth", RefillInterval: "interval"}
)

// String returns the word that directives have for the kind: "user".
func (k Kind) String() string { return wordFor("Kind", kindNames, k) }

// Holds reports whether a limit of the kind holds something while the call runs: a [Concurrency] and a [Lock] do.
func (k Kind) Holds() bool { return k == Concurrency || k == Lock }

// String returns the word that directives have for p: "user".
func (p Per) String() string { return wordFor("Per", perNames, p) }

// String returns the word that directives have for c: "success".
func (c Charge) String() string { return wordFor("Charge", chargeNames, c) }

// String returns the word that directives have for m: "deny".
func (m Missing) String() string { return wordFor("Missing", missingNames, m) }

// String returns the word that directives have for f: "deny".
func (f Free) String() string { return wordFor("Free", freeNames, f) }

// String returns the word that directives have for f: "local".
func (f OnFail) String() string { return wordFor("OnFail", onFailNames, f) }

// String returns the word that directives have for d, "zero", or "error" where they have none.
func (d Deny) String() string {
	if d == DenyError {
		return "error"
	}
	return wordFor("Deny", denyNames, d)
}

// String returns the word that directives have for m: "shadow".
func (m Mode) String() string { return wordFor("Mode", modeNames, m) }

// String returns the word that directives have for s: "clock".
func (s Start) String() string { return wordFor("Start", startNames, s) }

// String returns the word that directives have for r: "smooth".
func (r Refill) String() string { return wordFor("Refill", refillNames, r) }

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
