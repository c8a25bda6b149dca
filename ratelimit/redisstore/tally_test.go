package redisstore_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rlgen/rlgen/ratelimit/redisstore"
	"github.com/rlgen/rlgen/ratelimit/store"
)

// tally counts calls by what became of them. It is safe for concurrent use; the zero tally is empty.
type tally struct {
	allowed, denied                           atomic.Int64
	unavailable, indeterminate, misconfigured atomic.Int64

	mu   sync.Mutex
	err  error      // of the latest call that was sent and failed
	rest error      // of the latest call that was not, for its server is at rest
	took []duration // by each
}

// take makes one call.
func (c *tally) take(s store.Store, requests ...store.Request) error {
	var out store.Outcome
	var err error
	d := timed(func() { out, err = store.Take(context.Background(), s, requests, false) })
	if s, ok := s.(*redisstore.Store); ok {
		watched.Load().note(d, s.Budget())
	}
	c.mu.Lock()
	c.took = append(c.took, d)
	c.mu.Unlock()
	c.count(out.Allowed, err)
	return err
}

func (c *tally) count(allowed bool, err error) {
	if err != nil {
		c.mu.Lock()
		if strings.Contains(err.Error(), "not asked") {
			c.rest = err
		} else {
			c.err = err
		}
		c.mu.Unlock()
	}
	switch {
	case err == nil && allowed:
		c.allowed.Add(1)
	case err == nil:
		c.denied.Add(1)
	case classOf(err) == store.Indeterminate:
		c.indeterminate.Add(1)
	case classOf(err) == store.Misconfigured:
		c.misconfigured.Add(1)
	default:
		c.unavailable.Add(1)
	}
}

// load makes calls from 4 goroutines, each times of them.
func (c *tally) load(times int, s store.Store, requests ...store.Request) {
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			for range times {
				c.take(s, requests...)
			}
		})
	}
	callers.Wait()
}

// during makes calls from 4 goroutines while f runs, at most 1,000 a second of each.
func (c *tally) during(f func(), s store.Store, requests ...store.Request) {
	var over atomic.Bool
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			pace := time.NewTicker(time.Millisecond)
			defer pace.Stop()
			for !over.Load() {
				c.take(s, requests...)
				<-pace.C
			}
		})
	}
	f()
	over.Store(true)
	callers.Wait()
}

// failed is the number of calls that were not decided.
func (c *tally) failed() int64 {
	return c.unavailable.Load() + c.indeterminate.Load() + c.misconfigured.Load()
}

func (c *tally) String() string {
	text := fmt.Sprintf("%d admitted, %d denied", c.allowed.Load(), c.denied.Load())
	for _, of := range []struct {
		n    int64
		what string
	}{{c.unavailable.Load(), "unavailable"}, {c.indeterminate.Load(), "lost"}, {c.misconfigured.Load(), "misconfigured"}} {
		if of.n > 0 {
			text += fmt.Sprintf(", %d %s", of.n, of.what)
		}
	}
	return text
}

// wantInTime fails the test if a call has not ended with its budget.
func (c *tally) wantInTime(t *testing.T, budget time.Duration) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range c.took {
		wantPrompt(t, d.over(budget))
	}
}

// wantDecided fails the test if a call was not decided.
func (c *tally) wantDecided(t *testing.T) {
	t.Helper()
	if n := c.failed(); n > 0 {
		t.Errorf("%v: %d calls were not decided, want 0; the last of them: %v", c, n, c.err)
	}
}

// wantCharged fails the test unless what is charged is what was admitted, and at most what was lost beside it.
func (c *tally) wantCharged(t *testing.T, charged int64) {
	t.Helper()
	allowed, lost := c.allowed.Load(), c.indeterminate.Load()
	if charged < allowed || charged > allowed+lost {
		t.Errorf("%d charged, want %d admitted and at most %d lost more", charged, allowed, lost)
	}
}
