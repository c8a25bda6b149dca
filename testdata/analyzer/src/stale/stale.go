package stale

// A wrapper that nothing generated yet.
type Missing interface { // want `stale_ratelimit.go, which limits what the directives here say, is missing; run go generate`
	//ratelimit:global 10,1s
	Do() error
}
