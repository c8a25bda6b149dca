package ratelimit_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/memstore"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// passUpTo makes calls of alice until one is denied, at most so many, and returns how many pass.
func passUpTo(t *testing.T, g *ratelimit.Guard, most int) (n int) {
	t.Helper()
	for ; n < most; n++ {
		if _, err := g.Take(alice()); errors.Is(err, ratelimit.ErrExceeded) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	return n
}

// TestDebts holds that a store which has kept its keys, and could not decide for a while, does not let through again what the process has let through meanwhile: of every
// algorithm, by however many callers come at once, and however often it fails.
func TestDebts(t *testing.T) {
	for _, l := range []rules.Limit{
		{},
		{Algorithm: rules.CompactLog},
		{Algorithm: rules.SlidingWindow},
		{Algorithm: rules.FixedWindow},
		{Algorithm: rules.FixedWindow, Start: rules.StartFirst},
		{Algorithm: rules.TokenBucket},
		{Algorithm: rules.TokenBucket, Refill: rules.RefillInterval},
		{Algorithm: rules.LeakyBucket},
		{Algorithm: rules.GCRA},
	} {
		l.Kind, l.Rules = rules.User, []rules.Rule{{Count: 12, Window: time.Hour}, {Count: 30, Window: 24 * time.Hour}}
		t.Run(l.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := brokenBy(nil)
				g := limiter(t, s, silent).Guard(create(l))
				passed := passUpTo(t, g, 2)
				for range 2 {
					s.fail(errDown)
					passed += passUpTo(t, g, 3)
					s.fail(nil)
					passed += passUpTo(t, g, 1)
				}
				s.fail(errDown)
				passed += passUpTo(t, g, 1)
				if s.fail(nil); passed != 11 {
					t.Fatalf("%d calls passed, want 11", passed)
				}
				var more atomic.Int64
				var all sync.WaitGroup
				for range 50 {
					all.Go(func() {
						if _, err := g.Take(alice()); err == nil {
							more.Add(1)
						}
					})
				}
				if all.Wait(); more.Load() != 1 {
					t.Errorf("%d calls passed in the end, want 1", more.Load())
				}
			})
		})
	}
}

// TestDebtsLeaveTheirWindows holds that what was let through without the store leaves the windows when it would have, or an eighth of the longest window later, and is no more to a
// shorter rule than that sees of it.
func TestDebtsLeaveTheirWindows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := brokenBy(errDown)
		g := limiter(t, s, silent).Guard(create(rules.Limit{Kind: rules.User, Rules: []rules.Rule{{Count: 2, Window: time.Minute}, {Count: 16, Window: 8 * time.Hour}}}))
		for range 8 { // at 0:00, 0:31, …, 3:37
			if n := passUpTo(t, g, 2); n != 2 {
				t.Fatalf("%d calls passed, want 2", n)
			}
			time.Sleep(31 * time.Minute)
		}
		began := time.Now().Add(-8 * 31 * time.Minute)
		s.fail(nil) // at 4:08
		if n := passUpTo(t, g, 2); n != 0 {
			t.Errorf("%d calls passed of a limit that is used up, want 0", n)
		}
		standing := func(at time.Duration) []ratelimit.RuleStanding {
			time.Sleep(time.Until(began.Add(at)))
			all, err := g.Peek(t.Context(), ratelimit.ID{Kind: rules.User, Text: "alice"})
			if err != nil {
				t.Fatal(err)
			}
			return all[0].Rules
		}
		if got := standing(4*time.Hour + 8*time.Minute)[0].Remaining; got != 2 {
			t.Errorf("%d remain in the minute, want 2", got)
		}
		for pair := range 8 {
			gone := 8*time.Hour + time.Duration(pair)*31*time.Minute
			if got, most := standing(gone - time.Microsecond)[1].Remaining, int64(2*pair); got > most {
				t.Errorf("%d remain %v after the first call, want at most %d", got, gone, most)
			}
		}
		if got := standing(8*time.Hour + 7*31*time.Minute)[1].Remaining; got != 16 {
			t.Errorf("%d remain a window after the last call, want all", got)
		}
	})
}

// TestDebtsLeaveAnEighthLate holds how much later they leave at most.
func TestDebtsLeaveAnEighthLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := brokenBy(errDown)
		g := limiter(t, s, silent).Guard(create(rules.Limit{Kind: rules.User, Rules: per(16, 8*time.Hour)}))
		began := time.Now()
		for range 8 {
			passUpTo(t, g, 2)
			time.Sleep(31 * time.Minute)
		}
		s.fail(nil)
		passUpTo(t, g, 1)
		for pair := range 8 {
			time.Sleep(time.Until(began.Add(9*time.Hour + time.Duration(pair)*31*time.Minute)))
			all, err := g.Peek(t.Context(), ratelimit.ID{Kind: rules.User, Text: "alice"})
			if err != nil {
				t.Fatal(err)
			}
			if got, least := all[0].Rules[0].Remaining, int64(2*(pair+1)); got < least {
				t.Errorf("%d remain %v after the first call, want at least %d", got, time.Since(began), least)
			}
		}
	})
}

// teller is a store that fails as refuse says where it is told of what was let through before.
type teller struct {
	*brokenStore
	refuse atomic.Pointer[store.Error]
	told   atomic.Int64 // times
}

func (s *teller) Take(ctx context.Context, requests []store.Request, detail bool, out *store.Outcome) error {
	if s.err() == nil && requests[0].Ahead < 0 {
		s.told.Add(1)
		if err := s.refuse.Load(); err != nil {
			return err
		}
	}
	return s.brokenStore.Take(ctx, requests, detail, out)
}

// TestDebtsThatCannotBeSettled holds that what the store has not said it knows of is told again, and that a call goes on meanwhile as any other which the store could
// not decide.
func TestDebtsThatCannotBeSettled(t *testing.T) {
	for _, test := range []struct {
		class store.Class
		after int   // calls that pass once the store is back
		told  int64 // times
	}{
		{store.Unavailable, 12 - 5 - 1, 2},
		{store.Indeterminate, 12 - 5 - 1, 2}, // which may have been charged, and is not here
	} {
		t.Run(test.class.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &teller{brokenStore: brokenBy(errDown)}
				g := limiter(t, s, silent).Guard(create(rules.Limit{Kind: rules.User, Rules: per(12, time.Hour)}))
				passUpTo(t, g, 5)
				time.Sleep(700 * time.Millisecond)
				refusal := &store.Error{Class: test.class, Err: errors.New("not now")}
				s.refuse.Store(refusal)
				s.fail(nil)
				if d, _, err := g.Decide(alice()); err != nil || !d.Allowed || d.Limits[0].Source != ratelimit.SourceLocal || !errors.Is(d.Degraded, refusal) {
					t.Errorf("Decide = %+v, %v, want it decided by the process alone", d, err)
				}
				s.refuse.Store(nil)
				time.Sleep(100 * time.Millisecond)
				if n := passUpTo(t, g, 20); n != test.after || s.told.Load() != test.told {
					t.Errorf("%d calls passed once the store was back, which was told %d times, want %d and %d", n, s.told.Load(), test.after, test.told)
				}
			})
		})
	}
}

// hesitant is a store that waits until it is told of what was let through before.
type hesitant struct {
	*brokenStore
	wait chan struct{}
}

func (s *hesitant) Take(ctx context.Context, requests []store.Request, detail bool, out *store.Outcome) error {
	if s.err() == nil && requests[0].Ahead < 0 {
		<-s.wait
	}
	return s.brokenStore.Take(ctx, requests, detail, out)
}

func (*hesitant) Budget() time.Duration { return 3 * time.Second }

// TestCallsThatSettleEndInTime holds that a call waits half the store's budget for debts to be settled, and no longer than its caller does; and that a store which takes
// longer is told of what was let through meanwhile beside the calls that it decides.
func TestCallsThatSettleEndInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &hesitant{brokenBy(errDown), make(chan struct{})}
		g := limiter(t, s, silent).Guard(create(rules.Limit{Kind: rules.User, Rules: per(12, time.Hour)}))
		passUpTo(t, g, 5)
		time.Sleep(700 * time.Millisecond)
		s.fail(nil)
		began := time.Now()
		d, _, err := g.Decide(alice())
		if err != nil || d.Limits[0].Source != ratelimit.SourceLocal || time.Since(began) != 1500*time.Millisecond {
			t.Errorf("Decide = %+v, %v after %v, want it decided by the process alone after 1.5s", d, err, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(alice(), time.Second)
		defer cancel()
		began = time.Now()
		if _, err := g.Take(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("Take = %v after %v, want the context's error after 1s", err, time.Since(began))
		}
		close(s.wait)
		synctest.Wait()
		if n := passUpTo(t, g, 1); n != 1 {
			t.Error("the first call is denied once the store has been told, want it to pass")
		}
		synctest.Wait()
		if n := passUpTo(t, g, 20); n != 12-7 {
			t.Errorf("%d calls passed once all is settled, want 5", n)
		}
	})
}

// fleetOf are guards of as many instances of one limit over one store, which fails for all of them while its err is not nil.
func fleetOf(t *testing.T, s store.Store, instances int, of rules.Limit) (all []*ratelimit.Guard) {
	for range instances {
		all = append(all, limiter(t, s, silent, ratelimit.WithInstances(instances)).Guard(create(of)))
	}
	return all
}

// TestLongOutage holds that nobody is denied, while a store is away for ten windows or when it is back, whose calls are spread evenly and ask for two fifths of what the
// limit allows: what has left the windows meanwhile is not owed.
func TestLongOutage(t *testing.T) {
	for _, l := range []rules.Limit{
		{},
		{Algorithm: rules.CompactLog},
		{Algorithm: rules.SlidingWindow},
		{Algorithm: rules.FixedWindow},
		{Algorithm: rules.TokenBucket},
		{Algorithm: rules.TokenBucket, Refill: rules.RefillInterval},
		{Algorithm: rules.LeakyBucket},
		{Algorithm: rules.GCRA},
	} {
		l.Kind, l.Rules = rules.User, per(60, 10*time.Second)
		t.Run(l.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := brokenBy(nil)
				guards := fleetOf(t, s, 3, l)
				for _, err := range []error{nil, errDown, errDown, errDown, errDown, errDown, errDown, errDown, errDown, errDown, errDown, nil, nil} {
					s.fail(err)
					for i := range 24 {
						if _, err := guards[i%3].Take(alice()); err != nil {
							t.Fatalf("a call is denied, with the store's error %v: %v", s.err(), err)
						}
						time.Sleep(10 * time.Second / 24)
					}
				}
			})
		})
	}
}

// TestOwedOfHeavyCalls holds that a call which costs more than a share, and passes as the only one, is owed whole.
func TestOwedOfHeavyCalls(t *testing.T) {
	for _, algorithm := range []rules.Algorithm{rules.SlidingLog, rules.CompactLog, rules.SlidingWindow, rules.FixedWindow, rules.TokenBucket, rules.GCRA} {
		t.Run(algorithm.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := brokenBy(errDown)
				g := fleetOf(t, s, 3, rules.Limit{Kind: rules.User, Algorithm: algorithm, Cost: "n", Rules: per(12, time.Hour)})[0]
				if _, err := g.Take(alice(), costing(10)); err != nil {
					t.Fatal(err)
				}
				if _, err := g.Take(alice(), costing(1)); !errors.Is(err, ratelimit.ErrExceeded) {
					t.Fatalf("another call beside one of more than the share = %v, want it denied", err)
				}
				s.fail(nil)
				for i, want := range []error{nil, nil, ratelimit.ErrExceeded} {
					if _, err := g.Take(alice(), costing(1)); !errors.Is(err, want) {
						t.Errorf("call %d once the store is back = %v, want %v", i, err, want)
					}
				}
			})
		})
	}
}

// lossy is a store far away, which loses one answer of ten.
type lossy struct {
	store.Store
	class store.Class
	calls atomic.Int64
	sound atomic.Bool // it loses none any more
}

func (s *lossy) Take(ctx context.Context, requests []store.Request, detail bool, out *store.Outcome) error {
	if s.calls.Add(1)%10 == 0 && !s.sound.Load() {
		time.Sleep(100 * time.Millisecond)
		return &store.Error{Class: s.class, Err: errors.New("no answer")}
	}
	select {
	case <-time.After(60 * time.Millisecond):
	case <-ctx.Done():
		return store.Ended(ctx)
	}
	return s.Store.Take(ctx, requests, detail, out)
}

func (*lossy) Budget() time.Duration { return 100 * time.Millisecond }

// TestLossyStoreIsAsked holds that a store which fails now and then goes on deciding nearly all calls of an id, however far away it is, and that none of them
// lasts longer than its budget.
func TestLossyStoreIsAsked(t *testing.T) {
	for _, class := range []store.Class{store.Unavailable, store.Indeterminate} {
		t.Run(class.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &lossy{Store: memstore.New(), class: class}
				g := fleetOf(t, s, 1, rules.Limit{Kind: rules.User, Rules: per(10_000, time.Hour)})[0]
				byStore := 0
				for range 1000 {
					began := time.Now()
					d, _, err := g.Decide(alice())
					if err != nil {
						t.Fatal(err)
					}
					if d.Limits[0].Source == ratelimit.SourceStore {
						byStore++
					}
					if took := time.Since(began); took > 100*time.Millisecond {
						t.Fatalf("a call lasted %v, want 100ms at most", took)
					}
					time.Sleep(10 * time.Millisecond)
				}
				s.sound.Store(true)
				time.Sleep(5 * time.Second) // until all is told
				if byStore < 850 {
					t.Errorf("the store decided %d calls of 1000, of which it fails 100, want 850 or more", byStore)
				}
			})
		})
	}
}

// TestOneCallWaitsForASilentStore holds that while a store does not answer, one call of an id waits to tell it at a time, and the others are decided at once; and that once it
// answers, they wait, so that no more pass than there is room for.
func TestOneCallWaitsForASilentStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &silentStore{Store: memstore.New()}
		s.silent.Store(true)
		g := limiter(t, s, silent).Guard(create(rules.Limit{Kind: rules.User, Rules: per(12, time.Hour)}))
		passUpTo(t, g, 1)
		crowd := func() (passed int64, waited int64) {
			var all sync.WaitGroup
			var n, late atomic.Int64
			for range 50 {
				all.Go(func() {
					began := time.Now()
					if _, err := g.Take(alice()); err == nil {
						n.Add(1)
					}
					if time.Since(began) > 0 {
						late.Add(1)
					}
				})
				synctest.Wait()
			}
			all.Wait()
			return n.Load(), late.Load()
		}
		passed, waited := crowd()
		if passed != 11 || waited != 1 {
			t.Errorf("%d calls passed of 50 that ask a silent store, and %d waited, want the 11 that are left, and one", passed, waited)
		}
		time.Sleep(24 * time.Hour)
		passUpTo(t, g, 5)
		s.silent.Store(false)
		if passed, _ := crowd(); passed != 7 {
			t.Errorf("%d calls passed once the store answered, want the 7 that are left", passed)
		}
		time.Sleep(5 * time.Second) // until all is told
	})
}

// silentStore answers nobody within its budget while it is silent, and takes a millisecond else.
type silentStore struct {
	store.Store
	silent atomic.Bool
}

func (s *silentStore) Take(ctx context.Context, requests []store.Request, detail bool, out *store.Outcome) error {
	if s.silent.Load() {
		time.Sleep(100 * time.Millisecond)
		return &store.Error{Class: store.Indeterminate, Err: errors.New("no answer")}
	}
	time.Sleep(time.Millisecond)
	return s.Store.Take(ctx, requests, detail, out)
}

func (*silentStore) Budget() time.Duration { return 100 * time.Millisecond }
