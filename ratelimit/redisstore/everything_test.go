package redisstore_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rlgen/rlgen/ratelimit/internal/prefetch"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/ratelimit/storetest"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
	"github.com/rlgen/rlgen/rules"
)

// TestEverythingOn holds a server to what every store promises as a limiter asks it: what it denies is remembered, calls that meet share a script call, and
// calls of every other key ask for permits that may have been taken ahead. None are, for these laws are exact; package ratelimit's TestPrefetchInWindows and
// its neighbours hold by the same stack that no window has more calls than its limit where they are.
func TestEverythingOn(t *testing.T) {
	t.Parallel()
	client := redistest.Standalone(t).Client(t)
	var answers, asked, subjects atomic.Int64
	t.Cleanup(func() {
		if subjects.Load() > 10 && !t.Failed() && (answers.Load() < 100 || asked.Load() < 100) { // of few laws, as -run may choose, nothing is expected
			t.Errorf("%d answers from memory, and %d calls that ask ahead, want enough to tell", answers.Load(), asked.Load())
		}
	})
	for _, test := range []struct {
		name string
		open func(t *testing.T) storetest.Subject
	}{
		{"held", heldClock(client)},
		{"own", ownClock(client)},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			storetest.RunSample(t, func(t *testing.T) storetest.Subject {
				subjects.Add(1)
				s := remembered(t, &answers, fewer(test.open)(t))
				ahead := prefetch.New(s.Store)
				t.Cleanup(func() {
					if err := ahead.Close(context.Background()); err != nil {
						t.Error(err)
					}
				})
				s.Store = &foresighted{ahead, &asked}
				return s
			})
		})
	}
}

// foresighted asks for permits that may have been taken ahead, so short a time that none are.
type foresighted struct {
	store.Store
	asked *atomic.Int64 // calls
}

func (s *foresighted) Take(ctx context.Context, requests []store.Request, detail bool, out *store.Outcome) error {
	requests = slices.Clone(requests)
	ahead := false
	for i := range requests {
		if req := &requests[i]; req.Key != "" && req.Key[len(req.Key)-1]%2 == 0 && mayPrefetch(req) {
			req.Prefetch = time.Microsecond
			ahead = true
		}
	}
	if ahead {
		s.asked.Add(1)
	}
	return s.Store.Take(ctx, requests, detail, out)
}

// mayPrefetch says whether a directive could say so of the request.
func mayPrefetch(req *store.Request) bool {
	return !req.Queue && req.Algorithm != rules.FixedWindow && req.Refill != rules.RefillInterval && req.Ban == 0
}
