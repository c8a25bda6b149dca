package stale

type Foreign struct{} // want `foreign_ratelimit.go stands where rlgen writes what it generates, and rlgen did not write it; rename it`

//ratelimit:global 10,1s
func (Foreign) Serve() error { return nil }
