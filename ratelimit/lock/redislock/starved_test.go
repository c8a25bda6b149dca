package redislock_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/lock"
	"github.com/rlgen/rlgen/ratelimit/lock/redislock"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
)

// gated is a hook that keeps the next commands, as many as it is told, from the client until it is opened.
type gated struct {
	mu      sync.Mutex
	next    int
	arrived chan context.Context // of each that is kept
	open    chan struct{}
}

func newGated() *gated {
	return &gated{arrived: make(chan context.Context, 100), open: make(chan struct{})}
}

func (g *gated) keep(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.next = n
}

func (g *gated) keeps() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.next--
	return g.next >= 0
}

func (*gated) DialHook(redis.DialHook) redis.DialHook { return nil }

func (*gated) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook { return nil }

func (g *gated) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if g.keeps() {
			g.arrived <- ctx
			<-g.open
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		return next(ctx, cmd)
	}
}

// TestStarvedOfAConnection holds that a claim which never got a connection while the server answered others fails because too much is asked for at once, and that one fails
// because the server did not answer where it answered nobody.
func TestStarvedOfAConnection(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		answers bool
	}{{"the server answers others", true}, {"the server answers nobody", false}} {
		t.Run(test.name, func(t *testing.T) {
			client, g := redistest.Standalone(t).Client(t), newGated()
			client.AddHook(g)
			s := newStore(t, client, redislock.WithBudget(100*time.Millisecond))
			g.keep(1)
			failed := make(chan error)
			go func() {
				_, err := s.Acquire(context.Background(), lock.Claim{Name: redistest.Prefix(t), ID: "a:0", Lease: time.Minute})
				failed <- err
			}()
			kept := <-g.arrived
			if test.answers {
				until(t, func() bool { // where the machine stands still for a budget, anew
					a, err := s.Acquire(context.Background(), lock.Claim{Name: redistest.Prefix(t) + "other", ID: "b:0", Lease: time.Minute})
					return err == nil && a.Held
				})
			}
			<-kept.Done()
			close(g.open)
			if err := <-failed; errors.Is(err, lock.ErrCrowded) != test.answers {
				t.Errorf("Acquire = %v, want that too much is asked for at once: %v", err, test.answers)
			}
		})
	}
}

// other is a client of which a store knows no more than that it is one: its calls are sent from behind.
type other struct{ redis.UniversalClient }

// TestPlaceOfACallThatIsUnderWay holds that a call whose caller has gone away takes its place among those of its process until the client returns it, and no longer.
func TestPlaceOfACallThatIsUnderWay(t *testing.T) {
	client, g := redistest.Standalone(t).Client(t), newGated()
	client.AddHook(g)
	const places = 12 // of 16 connections
	s := newStore(t, other{client}, redislock.WithBudget(time.Hour))
	c := lock.Claim{Name: redistest.Prefix(t), ID: "a:0", Lease: time.Minute, Patience: 20 * time.Millisecond}
	g.keep(places)
	ctx, leave := context.WithCancel(context.Background())
	var gone sync.WaitGroup
	for range places {
		gone.Go(func() {
			patient := c
			patient.Patience = 0
			if _, err := s.Acquire(ctx, patient); !errors.Is(err, context.Canceled) {
				t.Errorf("Acquire of who goes away = %v, want %v", err, context.Canceled)
			}
		})
	}
	for range places {
		<-g.arrived
	}
	leave()
	gone.Wait()
	if _, err := s.Acquire(context.Background(), c); !errors.Is(err, lock.ErrCrowded) {
		t.Errorf("Acquire while %d calls are under way = %v, want %v", places, err, lock.ErrCrowded)
	}
	close(g.open)
	g.keep(0)
	until(t, func() bool {
		a, err := s.Acquire(context.Background(), c)
		return err == nil && a.Held
	})
}

// TestFreeLockWakesTheFirst holds that whoever asks for a lock that is free, and which another is to have before him, wakes that one: what told of the end of the hold before is lost, or nothing
// did because its lease ended.
func TestFreeLockWakesTheFirst(t *testing.T) {
	client := redistest.Standalone(t).Client(t)
	s := newStore(t, client)
	held := lock.Claim{Name: redistest.Prefix(t), ID: "a:0", Lease: time.Minute}
	if a, err := s.Acquire(t.Context(), held); err != nil || !a.Held {
		t.Fatalf("Acquire = %+v, %v, want it held", a, err)
	}
	var waits []lock.Claim
	var waiters []lock.Waiter
	for _, id := range []string{"b:0", "c:0"} {
		w, err := s.Join(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		c := lock.Claim{Name: held.Name, ID: id, Lease: time.Minute, Waiter: w.ID}
		defer w.Close(c, false)
		if a, err := s.Acquire(t.Context(), c); err != nil || a.Held {
			t.Fatalf("Acquire = %+v, %v, want it not held", a, err)
		}
		waits, waiters = append(waits, c), append(waiters, w)
	}
	for name, ask := range map[string]lock.Claim{
		"who does not wait":   {Name: held.Name, ID: "d:0", Lease: time.Minute},
		"who waits behind it": waits[1],
	} {
		if err := client.Del(t.Context(), "rl:lock:{"+held.Name+"}").Err(); err != nil {
			t.Fatal(err)
		}
		if a, err := s.Acquire(t.Context(), ask); err != nil || a.Held {
			t.Errorf("Acquire by %s = %+v, %v, want it not held", name, a, err)
		}
		late := time.NewTimer(50 * time.Second)
		select {
		case <-waiters[0].Woken:
		case <-late.C:
			t.Errorf("the first is not woken by %s", name)
		}
		late.Stop()
	}
	if n := len(waiters[1].Woken); n != 0 {
		t.Error("the second is woken, want the first alone")
	}
}
