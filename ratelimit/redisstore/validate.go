package redisstore

import (
	"fmt"

	"github.com/rlgen/rlgen/ratelimit/store"
)

const maxLogCount = 1_000_000 // units that one log may hold

// validate refuses what the script cannot decide.
func validate(requests []store.Request) error {
	for i := range requests {
		a := requests[i].Algorithm
		if place(&requests[i]) < 0 {
			return fmt.Errorf("limit %d of the call: algorithm %v, want one that the script has", i+1, a)
		}
		for _, r := range requests[i].Rules {
			if a.Logs() && r.Count > maxLogCount {
				return fmt.Errorf("limit %d of the call: count %d, want at most %d", i+1, r.Count, maxLogCount)
			}
		}
	}
	return store.Validate(requests)
}

func misconfigured(err error) error {
	return meaning{class: store.Misconfigured}.fail(err)
}
