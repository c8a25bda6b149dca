package store

import (
	"fmt"
	"time"
)

// MaxWindow is the longest window that a store need decide: every time in µs is then exact in a float64, which is
// what Lua counts in.
const MaxWindow = 100 * 365 * 24 * time.Hour

// Validate reports what makes the requests of one call undecidable for any store: a negative cost, no rules, a count or a window
// out of range, equal keys. The text names no key, for keys hold ids.
func Validate(requests []Request) error {
	for i := range requests {
		req := &requests[i]
		if req.Cost < 0 {
			return fmt.Errorf("limit %d of the call: cost %d, want 0 or more", i+1, req.Cost)
		}
		if len(req.Rules) == 0 {
			return fmt.Errorf("limit %d of the call has no rule, want one or more", i+1)
		}
		for _, r := range req.Rules {
			if r.Count < 1 || r.Window < time.Microsecond || r.Window > MaxWindow || r.Window%time.Microsecond != 0 {
				return fmt.Errorf("limit %d of the call: rule of %d in %v, want 1 or more in whole microseconds, at most %v",
					i+1, r.Count, r.Window, MaxWindow)
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
