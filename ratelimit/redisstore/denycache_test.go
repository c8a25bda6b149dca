package redisstore_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/internal/denycache"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/ratelimit/storetest"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
	"github.com/rlgen/rlgen/testdata/suite"
)

// TestDenyCache holds the store to what every store promises while what it denies is remembered before it.
func TestDenyCache(t *testing.T) {
	t.Parallel()
	all := suite.Long() && drawsAll()
	var answers, subjects atomic.Int64
	t.Cleanup(func() {
		if n := answers.Load(); n < 100 && subjects.Load() > 10 && !t.Failed() { // of few laws, as -run may choose, nothing is expected
			t.Errorf("%d answers from memory, want enough to tell", n)
		}
	})
	t.Run("miniredis", func(t *testing.T) {
		if !all {
			t.Skip("a clock that is moved is that of the test on a server, too: runs with -rapid.checks")
		}
		storetest.Run(t, func(t *testing.T) storetest.Subject {
			server := miniredis.RunT(t)
			client := redis.NewClient(&redis.Options{Addr: server.Addr()})
			t.Cleanup(func() { client.Close() })
			clock := storetest.NewClock()
			clock.OnMove(server.SetTime)
			subjects.Add(1)
			return remembered(t, &answers, storetest.Subject{Store: newStore(t, client), Clock: clock})
		})
	})
	client := redistest.Standalone(t).Client(t)
	for _, test := range []struct {
		name string
		open func(t *testing.T) storetest.Subject
	}{
		{"held", heldClock(client)},
		{"own", ownClock(client)},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			storetest.RunSample(t, func(t *testing.T) storetest.Subject { return remembered(t, &answers, fewer(test.open)(t)) })
		})
	}
}

// remembered puts a cache before s, and asks s for each answer from memory whether it is true.
func remembered(t *testing.T, answers *atomic.Int64, s storetest.Subject) storetest.Subject {
	if s.Clock == nil {
		s.Store = &verified{t: t, answers: answers, Store: denycache.New(s.Store, nil), behind: s.Store}
	} else {
		s.Store = &verified{t: t, answers: answers, Store: denycache.New(s.Store, forward(s.Clock)), behind: s.Store, held: true}
	}
	return s
}

// verified is a cache whose answers from memory are compared with those of the store behind it, which it returns.
type verified struct {
	store.Store
	t       *testing.T
	answers *atomic.Int64 // from memory
	behind  store.Store
	held    bool // no time passes from one to the other

	resets sync.RWMutex // nor is there a reset between the two
}

func (s *verified) Reset(ctx context.Context, requests []store.Request) error {
	s.resets.Lock()
	defer s.resets.Unlock()
	return s.Store.Reset(ctx, requests)
}

func (s *verified) Grant(ctx context.Context, requests []store.Request) error {
	s.resets.Lock()
	defer s.resets.Unlock()
	return s.Store.Grant(ctx, requests)
}

func (s *verified) Ban(ctx context.Context, requests []store.Request, d time.Duration) error {
	s.resets.Lock()
	defer s.resets.Unlock()
	return s.Store.Ban(ctx, requests, d)
}

func (s *verified) Take(ctx context.Context, requests []store.Request, detail bool, out *store.Outcome) error {
	s.resets.RLock()
	defer s.resets.RUnlock()
	var fast store.Outcome
	if err := s.Store.Take(ctx, requests, detail, &fast); err != nil || !fast.Cached {
		*out = fast
		return err
	}
	s.answers.Add(1)
	err := s.behind.Take(ctx, requests, detail, out)
	if err == nil && s.held {
		compare(s.t, requests, detail, fast.Rules, out)
	}
	return err
}

func compare(t *testing.T, requests []store.Request, detail bool, fast []store.RuleOutcome, slow *store.Outcome) {
	if slow.Allowed {
		t.Errorf("Take(%v) is denied from memory, and allowed by the store", requests)
	}
	for i := range slow.Rules {
		f, s := fast[i], slow.Rules[i]
		if f.RetryAfter > s.RetryAfter || detail && (f.Remaining > s.Remaining || f.ResetAfter > s.ResetAfter || f.Banned != s.Banned) {
			t.Errorf("Take(%v) rule %d: %+v from memory, %+v by the store", requests, i, f, s)
		}
	}
}

// forward is the time that has passed while a clock was moved. Where it was set back, so long has passed that nothing is remembered: what was denied
// before is denied for longer then, of which a cache knows nothing.
func forward(clock *storetest.Clock) func() time.Duration {
	var last time.Time
	var passed time.Duration
	clock.OnMove(func(now time.Time) {
		if d := now.Sub(last); !last.IsZero() && d > 0 {
			passed += d
		} else if d < 0 {
			passed += denycache.MaxAge
		}
		last = now
	})
	return func() time.Duration { return passed }
}
