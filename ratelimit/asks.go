package ratelimit

import (
	"slices"
	"sync"

	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// asks are the requests of a call, and the limits that they ask.
type asks struct {
	requests []store.Request
	limits   []asked
}

// asked is a limit that a call asks: its place in the policy, and its rules for this call, which may be computed.
type asked struct {
	index int
	*rules.Limit
}

// add asks a limit, under a key, for cost. What it returns is valid until the next add.
func (a *asks) add(of asked, key string, cost int64) *store.Request {
	a.limits = append(a.limits, of)
	a.requests = append(a.requests, store.NewRequest(of.Limit, key, cost))
	return &a.requests[len(a.requests)-1]
}

// grow makes room for n more.
func (a *asks) grow(n int) {
	a.requests = slices.Grow(a.requests, n)
	a.limits = slices.Grow(a.limits, n)
}

// drop takes some out.
func (a *asks) drop(dropped func(of asked) bool) {
	kept := 0
	for n, of := range a.limits {
		if !dropped(of) {
			a.limits[kept], a.requests[kept] = of, a.requests[n]
			kept++
		}
	}
	a.limits, a.requests = a.limits[:kept], a.requests[:kept]
}

// memories are those of asks that nobody reads any more.
var memories = sync.Pool{New: func() any { return new(asks) }}
