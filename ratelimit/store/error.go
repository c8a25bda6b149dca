package store

// Class says what is known of a call that a store could not decide.
type Class uint8

const (
	// Unavailable: the store did not decide, and did not charge.
	Unavailable Class = iota
	// Indeterminate: the store may have charged, and its answer is lost.
	Indeterminate
	// Misconfigured: the store refuses, and will until somebody mends it.
	Misconfigured
)

func (c Class) String() string {
	switch c {
	case Unavailable:
		return "unavailable"
	case Indeterminate:
		return "indeterminate"
	case Misconfigured:
		return "misconfigured"
	}
	return "unknown"
}

// Error is a decision that a store could not make.
type Error struct {
	Class Class
	Err   error
}

func (e *Error) Error() string { return e.Class.String() + ": " + e.Err.Error() }

func (e *Error) Unwrap() error { return e.Err }
