package redisstore

import (
	"fmt"
	"time"

	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

const (
	maxCount  = 1_000_000                  // units that one key may hold
	maxWindow = 100 * 365 * 24 * time.Hour // so that every time in µs is exact in Lua
)

// validate refuses what the script cannot decide.
func validate(requests []store.Request) error {
	for i := range requests {
		req := &requests[i]
		switch {
		case req.Cost < 0:
			return fmt.Errorf("cost %d, want 0 or more", req.Cost)
		case req.Algorithm != rules.SlidingLog:
			return fmt.Errorf("algorithm %d, want %d (sliding-log)", req.Algorithm, rules.SlidingLog)
		case len(req.Rules) == 0:
			return fmt.Errorf("limit %d of the call has no rule, want one or more", i+1)
		}
		for _, r := range req.Rules {
			if r.Count < 1 || r.Count > maxCount || r.Window <= 0 || r.Window > maxWindow {
				return fmt.Errorf("rule of %d in %v, want 1 to %d in more than 0s and at most %v",
					r.Count, r.Window, maxCount, maxWindow)
			}
		}
		for j := range i {
			if requests[j].Key == req.Key {
				return fmt.Errorf("limits %d and %d of the call have the same key, want distinct ones", j+1, i+1)
			}
		}
	}
	return nil
}

func misconfigured(err error) error {
	return meaning{class: store.Misconfigured}.fail(err)
}
