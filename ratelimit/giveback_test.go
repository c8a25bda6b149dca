package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/lock"
	"github.com/rlgen/rlgen/ratelimit/memstore"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// Calls that use the memory of others give back what they were charged themselves, of each limit its cost and by the rules that it had for them: of each user, whatever the others do
// meanwhile, exactly the count is left.
func TestGivesBackItsOwn(t *testing.T) {
	const users, count, rounds = 8, 5, 50
	contract := ratelimit.WithRules(func(_ context.Context, _ *rules.Policy, i int) ([]rules.Rule, error) {
		return []rules.Rule{{Count: int64(count * (i + 1)), Window: time.Duration(24+i) * time.Hour}}, nil
	})
	for n := 1; n <= 5; n++ {
		for name, opts := range map[string][]ratelimit.Option{"as written": nil, "by contract": {contract}} {
			for _, algorithm := range []rules.Algorithm{rules.SlidingLog, rules.FixedWindow} {
				t.Run(fmt.Sprintf("%d limits %s, %v", n, name, algorithm), func(t *testing.T) {
					of := make([]rules.Limit, n)
					for i := range of {
						of[i] = rules.Limit{Kind: rules.User, Name: fmt.Sprint("n", i), Algorithm: algorithm, Cost: "n", Rules: per(int64(count*(i+1)), time.Duration(1+i)*time.Hour)}
						if opts != nil {
							of[i].Rules = per(1000, time.Minute)
						}
					}
					g := limiter(t, memstore.New(), opts...).Guard(create(of...))
					var all sync.WaitGroup
					for user := range users {
						all.Go(func() { takeAndGiveBack(t, g, strconv.Itoa(user), n, count, rounds) })
					}
					all.Wait()
				})
			}
		}
	}
}

// takeAndGiveBack takes the whole count of a user, by calls that take one permit of the first limit, two of the second and so on, and gives it back, again and again.
func takeAndGiveBack(t *testing.T, g *ratelimit.Guard, user string, limits, count, rounds int) {
	ctx := ratelimit.WithUser(context.Background(), user)
	in := make([]ratelimit.Input, limits)
	for i := range in {
		in[i].Cost(int64(i + 1))
	}
	for range rounds {
		var permits []ratelimit.Permit
		for {
			permit, err := g.Take(ctx, in...)
			if err != nil {
				break
			}
			permits = append(permits, permit)
		}
		if len(permits) != count {
			t.Errorf("%d calls of user %s pass, want %d", len(permits), user, count)
			return
		}
		for _, p := range append(permits, permits...) { // the second time, nothing is given back
			if err := p.GiveBack(ctx); err != nil {
				t.Error(err)
			}
		}
	}
}

// What a store asks of another one in place of what it was asked is what comes back to it.
func TestGivesBackWhatTheStoreHasAsked(t *testing.T) {
	g := limiter(t, daily{memstore.New()}).Guard(create(rules.Limit{Kind: rules.User, Algorithm: rules.FixedWindow, Cost: "n", Rules: per(5, time.Minute)}))
	takeAndGiveBack(t, g, "alice", 1, 5, 3)
}

// daily is a store that makes days of all windows.
type daily struct{ store.Store }

func (s daily) Take(ctx context.Context, requests []store.Request, detail bool, out *store.Outcome) error {
	own := slices.Clone(requests)
	for i := range own {
		own[i].Rules = per(own[i].Rules[0].Count, 24*time.Hour)
	}
	return s.Store.Take(ctx, own, detail, out)
}

// A store that takes back by a receipt of its own finds the requests in it as they were, whoever calls meanwhile.
func TestReceiptsOfOthersKeepTheirRequests(t *testing.T) {
	s := &owner{Store: memstore.New()}
	g := limiter(t, s).Guard(create(rules.Limit{Kind: rules.User, Rules: per(5, time.Minute)}))
	for _, user := range []string{"alice", "bob"} {
		if _, err := g.Take(as(user)); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range []string{"rl:user=alice:shop.Orders-Create", "rl:user=bob:shop.Orders-Create"} {
		if got := s.charged[i].Requests[0].Key; got != want {
			t.Errorf("the receipt of call %d is for %s, want %s", i, got, want)
		}
	}
}

// owner is a store that keeps the receipts which are its own.
type owner struct {
	store.Store
	charged []store.Receipt
}

func (s *owner) Take(ctx context.Context, requests []store.Request, detail bool, out *store.Outcome) error {
	err := s.Store.Take(ctx, requests, detail, out)
	out.Receipt = store.Receipt{Requests: requests, From: s}
	s.charged = append(s.charged, out.Receipt)
	return err
}

// A call that is not decided leaves its requests to the store, which may still read them.
func TestUndecidedCallsLeaveTheirRequests(t *testing.T) {
	s := &unanswering{Store: memstore.New()}
	g := limiter(t, s, ratelimit.WithInstances(1)).Guard(create(limits(t, "user 5,1m onfail=open", "global 50,1m onfail=open")...))
	for _, user := range []string{"alice", "bob"} {
		if _, err := g.Take(as(user)); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range []string{"rl:user=alice:shop.Orders-Create", "rl:user=bob:shop.Orders-Create"} {
		if got := s.read[i][0].Key; got != want {
			t.Errorf("call %d asks for %s, want %s", i, got, want)
		}
	}
}

// unanswering is a store that answers nobody, and goes on reading what it was asked.
type unanswering struct {
	store.Store
	read [][]store.Request
}

func (s *unanswering) Take(_ context.Context, requests []store.Request, _ bool, _ *store.Outcome) error {
	s.read = append(s.read, requests)
	return &store.Error{Class: store.Indeterminate, Err: errors.New("no answer")}
}

// Where all calls ask the same, one that asks something beside it writes to no memory that others have: the race detector says so.
func TestStoreMayAppend(t *testing.T) {
	of := make([]rules.Limit, 12)
	for i := range of {
		of[i] = rules.Limit{Kind: rules.Global, Name: fmt.Sprint("n", i), Rules: per(100, time.Hour)}
	}
	s := beside{memstore.New()}
	g := limiter(t, s).Guard(create(of...))
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 10 {
				if _, err := g.Take(context.Background()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

// beside is a store that asks one limit more.
type beside struct{ store.Store }

func (s beside) Take(ctx context.Context, requests []store.Request, detail bool, out *store.Outcome) error {
	more := store.Request{Key: "all", Algorithm: rules.FixedWindow, Rules: per(1000, time.Hour), Cost: 1}
	err := s.Store.Take(ctx, append(requests, more), detail, out)
	if n := len(out.Rules); n > 0 {
		out.Rules = out.Rules[:n-1]
	}
	return err
}

// A call that fails has no permit, whatever it was granted on its way.
func TestFailedCallsHaveNoPermit(t *testing.T) {
	over, cancel := context.WithTimeout(as("alice"), 10*time.Second)
	defer cancel()
	for _, test := range []struct {
		name   string
		limits []string
	}{
		{"exceeded", []string{"user 1,1h"}},
		{"a lock is held", []string{"user 9,1h", "lock by=n"}},
		{"as many are in flight", []string{"user 9,1h", "concurrency 1"}},
		{"a queue is too long", []string{"user 1,1h algo=leaky-bucket wait=1h"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := limiter(t, memstore.New(), ratelimit.WithLocks(lock.NewMemory())).Guard(create(limits(t, test.limits...)...))
			in := make([]ratelimit.Input, len(test.limits))
			for i := range in {
				in[i].By("alice")
			}
			_, first, err := g.Hold(over, in...)
			if err != nil {
				t.Fatal(err)
			}
			defer first.Done(&err)
			_, permit, err := g.Hold(over, in...)
			if err == nil || !reflect.ValueOf(permit).IsZero() {
				t.Errorf("the second call has %+v and %v, want no permit and an error", permit, err)
			}
		})
	}
}

// Who goes away while a queue delays him has no permit either: his place is given back.
func TestDelayedCallsThatEndHaveNoPermit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := limiter(t, memstore.New()).Guard(create(limits(t, "user 1,1s algo=leaky-bucket wait=1h")...))
		ctx, cancel := context.WithCancel(as("alice"))
		if _, err := g.Take(ctx); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(100*time.Millisecond, cancel)
		if permit, err := g.Take(ctx); !errors.Is(err, context.Canceled) || !reflect.ValueOf(permit).IsZero() {
			t.Errorf("Take = %+v, %v, want no permit and context.Canceled", permit, err)
		}
	})
}
