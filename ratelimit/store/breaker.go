package store

// Breaker is a [Remote] that is not asked for a moment once it has not decided several calls in a row.
type Breaker interface {
	Remote

	// Resting says whether the store is not asked now.
	Resting() bool
}
