package redisstore_test

import (
	"context"
	"slices"
	"testing"

	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/ratelimit/storetest"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
)

// TestKeepsNoRequests holds the store to what every store promises while its callers write over the requests of each call that is decided: they may ask something else with them.
func TestKeepsNoRequests(t *testing.T) {
	t.Parallel()
	scribbling := func(open func(t *testing.T) storetest.Subject) func(t *testing.T) storetest.Subject {
		return func(t *testing.T) storetest.Subject {
			s := fewer(open)(t)
			s.Store = scribbler{s.Store}
			return s
		}
	}
	t.Run("standalone", func(t *testing.T) { storetest.Run(t, scribbling(ownClock(redistest.Standalone(t).Client(t)))) })
	t.Run("cluster", func(t *testing.T) { storetest.Run(t, scribbling(ownClock(redistest.NewCluster(t).Client(t)))) })
}

// scribbler writes over the requests that it has asked with, once they are decided.
type scribbler struct{ store.Store }

func (s scribbler) Take(ctx context.Context, requests []store.Request, detail bool, out *store.Outcome) error {
	own := slices.Clone(requests)
	if err := s.Store.Take(ctx, own, detail, out); err != nil {
		return err
	}
	if len(out.Receipt.Requests) > 0 {
		out.Receipt.Requests = requests
	}
	for i := range own {
		own[i] = store.Request{Key: "scribbled"}
	}
	return nil
}
