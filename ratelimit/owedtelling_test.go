package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/memstore"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// scripted is a store that does first what its hook says, of each call. It is safe for concurrent use.
type scripted struct {
	*brokenStore
	hook atomic.Pointer[func(ctx context.Context, req *store.Request) error]
}

func newScripted() *scripted { return &scripted{brokenStore: brokenBy(errDown)} }

// returns has the store decide again, after hook.
func (s *scripted) returns(hook func(ctx context.Context, req *store.Request) error) {
	s.hook.Store(&hook)
	s.fail(nil)
}

func (s *scripted) Take(ctx context.Context, requests []store.Request, detail bool, out *store.Outcome) error {
	if hook := s.hook.Load(); hook != nil && s.err() == nil {
		if err := (*hook)(ctx, &requests[0]); err != nil {
			return err
		}
	}
	return s.brokenStore.Take(ctx, requests, detail, out)
}

// TestPartOfALogIsTold holds that of a log, of which the store could be told a part, the rest is told as of when it was let through, and no other part again.
func TestPartOfALogIsTold(t *testing.T) {
	for _, algorithm := range []rules.Algorithm{rules.SlidingLog, rules.CompactLog} {
		for name, fails := range map[string]func(age time.Duration) bool{
			"the newest": func(age time.Duration) bool { return age < time.Minute },
			"the oldest": func(age time.Duration) bool { return age > 44*time.Minute },
			"the middle": func(age time.Duration) bool { return age > time.Minute && age < 44*time.Minute },
		} {
			t.Run(algorithm.String()+" but for "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newScripted()
					g := limiter(t, s, silent).Guard(create(rules.Limit{Kind: rules.User, Algorithm: algorithm, Rules: per(12, time.Hour)}))
					for _, next := range []time.Duration{25 * time.Minute, 25 * time.Minute, time.Second} { // at 0:00, 0:25 and 0:50
						passUpTo(t, g, 4)
						time.Sleep(next)
					}
					var failed atomic.Bool
					s.returns(func(_ context.Context, req *store.Request) error {
						if req.Cost > 0 && req.Ahead < 0 && fails(-req.Ahead) && !failed.Swap(true) {
							return &store.Error{Class: store.Unavailable, Err: errors.New("the connection is gone")}
						}
						return nil
					})
					time.Sleep(5 * time.Second)
					if !failed.Load() {
						t.Fatal("no telling has failed, want one")
					}
					for i, want := range []int{0, 4, 4, 4} { // at 0:50, 1:08, 1:33 and 1:58: an hour since each, and an eighth of it
						if n := passUpTo(t, g, 20); n != want {
							t.Errorf("%d calls pass at the %d. time, want %d", n, i+1, want)
						}
						time.Sleep([]time.Duration{18, 25, 25, 0}[i] * time.Minute)
					}
				})
			})
		}
	}
}

// TestOwedWhileItIsTold holds that what is let through alone while the store is being told of what was before is told as of then.
func TestOwedWhileItIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScripted()
		g := limiter(t, s, silent).Guard(create(rules.Limit{Kind: rules.User, Rules: per(12, time.Hour)}))
		passUpTo(t, g, 6)
		time.Sleep(50 * time.Minute)
		s.returns(func(context.Context, *store.Request) error {
			time.Sleep(90 * time.Millisecond)
			return nil
		})
		passUpTo(t, g, 3) // which cannot wait so long
		s.returns(func(context.Context, *store.Request) error { return nil })
		time.Sleep(5 * time.Second)
		if n := passUpTo(t, g, 20); n != 3 {
			t.Errorf("%d calls pass by the store, want the 3 that are left", n)
		}
		time.Sleep(18 * time.Minute) // the first 6 have left
		if n := passUpTo(t, g, 20); n != 6 {
			t.Errorf("%d calls pass an hour after the first 6, want 6", n)
		}
	})
}

// TestSetRightWhileOwed holds that a grant and a reset do what they say where the store has not been told of all, or is being told.
func TestSetRightWhileOwed(t *testing.T) {
	id := ratelimit.ID{Kind: rules.User, Text: "alice"}
	for name, test := range map[string]struct {
		do   func(g *ratelimit.Guard) error
		want int // calls that pass then
	}{
		"grant": {func(g *ratelimit.Guard) error { return g.Grant(context.Background(), id, 3) }, 2 + 3},
		"reset": {func(g *ratelimit.Guard) error { return g.Reset(context.Background(), id) }, 12},
	} {
		for _, taking := range []time.Duration{0, 20 * time.Millisecond} {
			t.Run(name+" with a telling that takes "+taking.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newScripted()
					g := limiter(t, s, silent).Guard(create(rules.Limit{Kind: rules.User, Rules: per(12, 24*time.Hour)}))
					passUpTo(t, g, 10)
					s.returns(func(context.Context, *store.Request) error {
						time.Sleep(taking)
						return nil
					})
					if taking > 0 {
						time.Sleep(time.Second + 30*time.Millisecond) // a charge is under way
					}
					if err := test.do(g); err != nil {
						t.Fatal(err)
					}
					time.Sleep(5 * time.Second)
					if n := passUpTo(t, g, 20); n != test.want {
						t.Errorf("%d calls pass, want %d", n, test.want)
					}
				})
			})
		}
	}
}

// TestKeysAwayKeepNoneFromBeingTold holds that of a store which is back in part, the other part keeps nobody's permits from being told for long.
func TestKeysAwayKeepNoneFromBeingTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScripted()
		l := limiter(t, s, silent)
		g := l.Guard(create(rules.Limit{Kind: rules.User, Rules: per(12, 24*time.Hour)}))
		const away, back = 2000, 500
		for i := range away + back {
			if _, err := g.Take(ratelimit.WithUser(t.Context(), fmt.Sprint(i))); err != nil {
				t.Fatal(err)
			}
		}
		var told atomic.Int64
		s.returns(func(_ context.Context, req *store.Request) error {
			var user int
			if _, err := fmt.Sscanf(req.Key, "rl:user=%d:", &user); err != nil {
				return err
			}
			if user < away {
				return &store.Error{Class: store.Unavailable, Err: errors.New("its server is away")}
			}
			told.Add(min(1, req.Cost))
			return nil
		})
		time.Sleep(10 * time.Second)
		if n := told.Load(); n != back {
			t.Errorf("the store was told %d times in ten seconds, want each of %d ids once", n, back)
		}
		s.returns(func(context.Context, *store.Request) error { return nil })
		l.Close(t.Context())
	})
}

// TestStoreThatEndsWithItsContext holds that a store which has ended no call for a while is asked again once it does.
func TestStoreThatEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScripted()
		g := limiter(t, s, silent).Guard(create(rules.Limit{Kind: rules.User, Rules: per(12, time.Hour)}))
		passUpTo(t, g, 5)
		s.returns(func(ctx context.Context, _ *store.Request) error {
			<-ctx.Done()
			return store.Ended(ctx)
		})
		time.Sleep(3 * time.Second)
		s.returns(func(context.Context, *store.Request) error { return nil })
		time.Sleep(5 * time.Second)
		if d, _, err := g.Decide(alice()); err != nil || d.Limits[0].Source != ratelimit.SourceStore {
			t.Errorf("Decide = %+v, %v, want the store's decision", d, err)
		}
		if n := passUpTo(t, g, 20); n != 6 {
			t.Errorf("%d calls pass, want the 6 that are left", n)
		}
	})
}

// TestFixedWindowIsToldOfItself holds that what was let through in one window of the clock is not charged to the next, be it that the telling takes its time or that the
// store's clock is ahead.
func TestFixedWindowIsToldOfItself(t *testing.T) {
	for _, test := range []struct {
		name         string
		ahead, takes time.Duration
		before       time.Duration // the end of the window, when the store is back
	}{
		{"a telling over midnight", 0, 20 * time.Millisecond, 30 * time.Millisecond},
		{"a clock that is ahead", 5 * time.Second, 0, 2500 * time.Millisecond},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScripted()
				s.Store = memstore.New(memstore.WithClock(func() time.Time { return time.Now().Add(test.ahead) }))
				g := limiter(t, s, silent).Guard(create(rules.Limit{Kind: rules.User, Algorithm: rules.FixedWindow, Rules: per(12, 24*time.Hour)}))
				midnight := time.Now().Truncate(24 * time.Hour).Add(24 * time.Hour)
				time.Sleep(time.Until(midnight) - time.Minute)
				passUpTo(t, g, 12)
				time.Sleep(time.Until(midnight) - test.before)
				s.returns(func(context.Context, *store.Request) error {
					time.Sleep(test.takes)
					return nil
				})
				if test.takes > 0 {
					passUpTo(t, g, 1)
				}
				time.Sleep(time.Hour)
				if n := passUpTo(t, g, 20); n < 11 {
					t.Errorf("%d calls pass on the next day, want its 12, or 11 where one was made at midnight", n)
				}
			})
		})
	}
}

// TestStoreThatSaysLittle holds that a store which denies what it is told, and says no more, ends no program.
func TestStoreThatSaysLittle(t *testing.T) {
	s := &laconic{brokenBy(errDown)}
	g := limiter(t, s, silent).Guard(create(rules.Limit{Kind: rules.User, Rules: per(12, time.Hour)}))
	passUpTo(t, g, 1)
	s.fail(nil)
	if _, err := g.Take(alice()); !errors.Is(err, ratelimit.ErrMisconfigured) {
		t.Errorf("Take = %v, want ErrMisconfigured", err)
	}
}

// laconic denies without a word.
type laconic struct{ *brokenStore }

func (s *laconic) Take(_ context.Context, requests []store.Request, _ bool, out *store.Outcome) error {
	*out = store.Outcome{Allowed: requests[0].Cost == 0}
	return s.err()
}

// TestBansOutlastTellings holds that who is banned by this process alone still is when the store has been told, and is away again.
func TestBansOutlastTellings(t *testing.T) {
	for _, algorithm := range []rules.Algorithm{rules.SlidingLog, rules.CompactLog, rules.SlidingWindow, rules.GCRA} {
		t.Run(algorithm.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScripted()
				g := limiter(t, s, silent).Guard(create(rules.Limit{Kind: rules.User, Algorithm: algorithm, Rules: per(5, time.Minute), Ban: 10 * time.Hour, After: 3}))
				passUpTo(t, g, 5)
				for range 3 {
					passUpTo(t, g, 1)
				}
				s.fail(nil)
				time.Sleep(3 * time.Second)
				s.fail(errDown)
				time.Sleep(2 * time.Minute)
				if n := passUpTo(t, g, 1); n != 0 {
					t.Error("a call passes, want it banned")
				}
			})
		})
	}
}

// TestGivenBackWhileItIsTold holds that what is let through and given back alone while the store is being told of what was before counts no more.
func TestGivenBackWhileItIsTold(t *testing.T) {
	for _, algorithm := range []rules.Algorithm{rules.SlidingLog, rules.CompactLog, rules.SlidingWindow, rules.FixedWindow, rules.GCRA} {
		t.Run(algorithm.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScripted()
				g := limiter(t, s, silent).Guard(create(rules.Limit{Kind: rules.User, Algorithm: algorithm, Rules: per(12, time.Hour)}))
				passUpTo(t, g, 4)
				s.returns(func(context.Context, *store.Request) error {
					time.Sleep(200 * time.Millisecond)
					return nil
				})
				passUpTo(t, g, 1) // which cannot wait so long
				for range 2 {
					permit, err := g.Take(alice())
					if err != nil {
						t.Fatal(err)
					}
					if err := permit.GiveBack(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				s.returns(func(context.Context, *store.Request) error { return nil })
				time.Sleep(5 * time.Second)
				if n := passUpTo(t, g, 20); n != 7 {
					t.Errorf("%d calls pass, want 7 of 12, where 5 have and 2 were given back", n)
				}
			})
		})
	}
}
