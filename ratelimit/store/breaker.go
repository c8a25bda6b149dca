package store

// Breaker is a [Remote] whose servers are not asked for a moment once they have not decided several calls in a row, each by itself.
type Breaker interface {
	Remote

	// Resting returns the addresses of the store's servers that are not asked now, or by one call at a time since, in order; none where all are asked. It leaves
	// out one that answers, and one that nobody has asked for a minute. What has no address has a name in words.
	Resting() []string
}
