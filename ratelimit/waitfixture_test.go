package ratelimit_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing/synctest"
	"time"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/store"
)

// arrival is how a call ended, by the time that has passed since the test began.
type arrival struct {
	Call int
	At   time.Duration
	Err  string // of a call that is denied: denied and its retry-after
}

// arrivals are calls that end, in the order in which they do.
type arrivals struct {
	mu    sync.Mutex
	began time.Time
	all   []arrival
}

func (a *arrivals) add(call int, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	text := ""
	var exceeded *ratelimit.ExceededError
	if errors.As(err, &exceeded) {
		text = "denied " + exceeded.RetryAfter.String()
	} else if err != nil {
		text = err.Error()
	}
	a.all = append(a.all, arrival{call, time.Since(a.began), text})
}

// callAll makes n calls of guard as alice, that come in order and all at once, and returns how they end: in the order in which
// they do, and of one instant in that in which they came.
func callAll(guard *ratelimit.Guard, n int) []arrival {
	a := arrivals{began: time.Now()}
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			_, err := guard.Take(alice())
			a.add(i, err)
		})
		synctest.Wait() // until it has its place
	}
	wg.Wait()
	slices.SortFunc(a.all, func(a, b arrival) int { return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Call, b.Call)) })
	return a.all
}

type lockedRecorder struct {
	mu sync.Mutex
	recorder
}

func (r *lockedRecorder) Observe(ctx context.Context, d *ratelimit.Decision, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.recorder.Observe(ctx, d, err)
}

// counted is a store that counts what it is asked.
type counted struct {
	store.Store
	mu   sync.Mutex
	asks int
}

func (s *counted) Take(ctx context.Context, requests []store.Request, detail bool, out *store.Outcome) error {
	s.mu.Lock()
	s.asks++
	s.mu.Unlock()
	return s.Store.Take(ctx, requests, detail, out)
}

// flaky fails the asks whose number it is told, from 1.
type flaky struct {
	store.Store
	mu    sync.Mutex
	asks  int
	fails []int
}

func (s *flaky) Take(ctx context.Context, requests []store.Request, detail bool, out *store.Outcome) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asks++
	if slices.Contains(s.fails, s.asks) {
		return &store.Error{Class: store.Unavailable, Err: fmt.Errorf("ask %d fails", s.asks)}
	}
	return s.Store.Take(ctx, requests, detail, out)
}
