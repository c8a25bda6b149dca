package stale

type Changed struct{} // want `changed_ratelimit.go is not what its source makes now; run go generate`

//ratelimit:global 10,1s
func (Changed) Run() error { return nil }
