package redisstore

import (
	"fmt"

	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

const maxCount = 1_000_000 // units that one key may hold

// validate refuses what the script cannot decide.
func validate(requests []store.Request) error {
	for i := range requests {
		if a := requests[i].Algorithm; a != rules.SlidingLog {
			return fmt.Errorf("limit %d of the call: algorithm %d, want %d (sliding-log)", i+1, a, rules.SlidingLog)
		}
		for _, r := range requests[i].Rules {
			if r.Count > maxCount {
				return fmt.Errorf("limit %d of the call: count %d, want at most %d", i+1, r.Count, maxCount)
			}
		}
	}
	return store.Validate(requests)
}

func misconfigured(err error) error {
	return meaning{class: store.Misconfigured}.fail(err)
}
