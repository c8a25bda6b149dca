package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/redisstore"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
	"github.com/rlgen/rlgen/rules"
)

// hasty is the deadline of callers who wait for less than the budget of their store.
const hasty = 40 * time.Millisecond

// askHasty makes a call whose deadline is sooner than the budget.
func askHasty(s store.Store, within time.Duration, keys ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	var requests []store.Request
	for _, key := range keys {
		requests = append(requests, request(key, 10_000, 1))
	}
	_, err := store.Take(ctx, s, requests, false)
	return err
}

// TestDeadlinesOfAFrozenServer holds that calls whose deadlines are sooner than the budget find out, too, that a server does not answer: after five of them it is given a rest, and
// calls with such deadlines are decided as onfail says.
func TestDeadlinesOfAFrozenServer(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(*testing.T) (*redisstore.Store, *redistest.Server){
		"calls that share scripts": func(t *testing.T) (*redisstore.Store, *redistest.Server) {
			server := redistest.Start(t)
			return newStore(t, server.Client(t), redisstore.WithBudget(short)), server
		},
		"calls that share scripts, of a client that heeds contexts": func(t *testing.T) (*redisstore.Store, *redistest.Server) {
			server := redistest.Start(t)
			return newStore(t, server.Client(t, func(o *redis.Options) { o.ContextTimeoutEnabled = true }), redisstore.WithBudget(short)), server
		},
		"each alone": func(t *testing.T) (*redisstore.Store, *redistest.Server) {
			server := redistest.Start(t)
			return newStore(t, server.Client(t), redisstore.WithBatching(1), redisstore.WithBudget(short)), server
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, server := start(t)
			l, err := ratelimit.New(s, ratelimit.WithLogger(slog.New(slog.DiscardHandler)), ratelimit.WithInstances(1))
			if err != nil {
				t.Fatal(err)
			}
			g := l.Guard(&rules.Policy{Package: "example.com/shop", Type: "shop.Orders", Method: "Search", Limits: []rules.Limit{
				{Kind: rules.Global, Rules: []rules.Rule{{Count: 10_000, Window: time.Hour}}, OnFail: rules.FailLocal},
			}})
			decidesAgain(t, s, redistest.Prefix(t))
			server.Freeze(t)
			for i := range 5 {
				if got := s.Resting(); len(got) > 0 {
					t.Fatalf("after %d calls the server rests, want that five have to fail", i)
				}
				if err := askHasty(s, hasty, redistest.Prefix(t)); !errors.Is(err, context.DeadlineExceeded) || errors.As(err, new(*store.Error)) {
					t.Fatalf("call %d = %v, want %v and no class", i, err, context.DeadlineExceeded)
				}
			}
			if err := redistest.Poll(func() error {
				if got := s.Resting(); len(got) != 1 {
					return fmt.Errorf("Resting() = %q after five calls past their deadlines, want the server", got)
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			if err := redistest.Poll(func() error { // one call at a time may ask after a rest
				ctx, cancel := context.WithTimeout(context.Background(), hasty)
				defer cancel()
				d, _, err := g.Decide(ctx)
				if err == nil && d.Limits[0].Source != ratelimit.SourceLocal {
					t.Errorf("Decide = %+v, want it decided by the process alone", d)
				}
				return err
			}); err != nil {
				t.Error(err)
			}
			server.Resume(t)
			decidesAgain(t, s, redistest.Prefix(t))
		})
	}
}

// hastyCalls counts what becomes of n calls one after the other with a deadline: how many end with it, and how many are not sent because the server rests.
func hastyCalls(t *testing.T, s *redisstore.Store, n int, within time.Duration, keys ...string) (ended, rests int) {
	t.Helper()
	for range n {
		switch err := askHasty(s, within, keys...); {
		case errors.Is(err, context.DeadlineExceeded):
			ended++
		case classOf(err) == store.Unavailable:
			rests++
		default:
			t.Fatalf("Take = %v, want %v, or that the server rests", err, context.DeadlineExceeded)
		}
	}
	return ended, rests
}

// hastyBubbles are what calls with deadlines meet, by the clock of a bubble.
func hastyBubbles() map[string]func(t *testing.T, p *puppet) {
	all := map[string]func(t *testing.T, p *puppet){}
	for name, start := range map[string]func(*testing.T, *puppet) *redisstore.Store{
		"a lane": func(t *testing.T, p *puppet) *redisstore.Store { return bubbleStore(t, p.plain(t)) },
		"a lane, by a client that heeds contexts": func(t *testing.T, p *puppet) *redisstore.Store {
			return bubbleStore(t, p.plain(t, func(o *redis.Options) { o.ContextTimeoutEnabled = true }))
		},
		"flights": func(t *testing.T, p *puppet) *redisstore.Store {
			return bubbleStore(t, p.plain(t), redisstore.WithBatching(1))
		},
		"flights, by a client that heeds contexts": func(t *testing.T, p *puppet) *redisstore.Store {
			return bubbleStore(t, p.plain(t, func(o *redis.Options) { o.ContextTimeoutEnabled = true }), redisstore.WithBatching(1))
		},
		"a Cluster": func(t *testing.T, p *puppet) *redisstore.Store { return bubbleStore(t, p.cluster(t)) },
		"a lane of a Cluster": func(t *testing.T, p *puppet) *redisstore.Store {
			s := bubbleStore(t, p.cluster(t))
			p.set(func(p *puppet) { p.says = allows })
			if err := askHasty(s, time.Minute, oneHalf); err != nil {
				t.Fatal(err)
			}
			p.set(func(p *puppet) { p.says = nobody })
			return s
		},
	} {
		all["deadlines before a silent server, in "+name] = func(t *testing.T, p *puppet) { hastyInSilence(t, p, start(t, p)) }
		all["deadlines before a server that is further away, in "+name] = func(t *testing.T, p *puppet) { hastyFromAfar(t, p, start(t, p)) }
	}
	for name, opts := range map[string][]redisstore.Option{"a lane": nil, "flights": {redisstore.WithBatching(1)}} {
		all["deadlines before a new connection is ready, in "+name] = func(t *testing.T, p *puppet) { hastyAndUnconnected(t, p, opts...) }
	}
	all["deadlines after an outage, before a new connection is there"] = hastyAfterAnOutage
	all["deadlines before the server is asked"] = hastyBeforeAsking
	all["deadlines while slots move"] = hastyAmongMovingSlots
	all["deadlines while the server cannot be dialled"] = func(t *testing.T, p *puppet) {
		p.set(func(p *puppet) { p.dials = true })
		hastyInSilence(t, p, bubbleStore(t, p.plain(t)))
	}
	all["deadlines while others of the program have the connections"] = hastyAndCrowded
	return all
}

// hastyInSilence asks a server that is silent: it is judged by the budget, which the callers' deadlines do not shorten.
func hastyInSilence(t *testing.T, p *puppet, s *redisstore.Store) {
	// The fifth call begins after 160 ms, and its budget ends after 260: the seventh begins before that, and the eighth after it.
	if ended, rests := hastyCalls(t, s, 30, hasty, oneHalf); ended != 7 || rests != 23 {
		t.Errorf("%d of 30 calls have ended with their deadlines and %d at once, want 7 and 23", ended, rests)
	}
	for range 3 {
		time.Sleep(time.Second)
		// One asks after the rest, and while it is judged the others do not wait.
		if ended, rests := hastyCalls(t, s, 30, hasty, oneHalf); ended != 1 || rests != 29 {
			t.Errorf("after a rest %d of 30 calls have ended with their deadlines and %d at once, want 1 and 29", ended, rests)
		}
	}
	time.Sleep(time.Second)
	for range 10 {
		ctx, cancel := context.WithCancel(context.Background())
		time.AfterFunc(hasty, cancel)
		if _, err := store.Take(ctx, s, []store.Request{request(oneHalf, 10, 1)}, false); !errors.Is(err, context.Canceled) {
			t.Errorf("Take of a caller who goes away = %v, want %v: it says nothing of the server", err, context.Canceled)
		}
	}
}

// hastyFromAfar asks a server that takes longer than the deadlines, and answers.
func hastyFromAfar(t *testing.T, p *puppet, s *redisstore.Store) {
	p.set(func(p *puppet) { p.says = allows })
	if err := askHasty(s, time.Minute, oneHalf); err != nil { // who has a connection
		t.Fatal(err)
	}
	p.set(func(p *puppet) { p.after = 2 * time.Millisecond })
	for range 3 {
		if ended, rests := hastyCalls(t, s, 300, time.Millisecond, oneHalf); ended != 300 || rests != 0 {
			t.Fatalf("%d of 300 calls have ended with their deadlines and %d at once, want all with their deadlines", ended, rests)
		}
		if err := askHasty(s, time.Minute, oneHalf); err != nil {
			t.Errorf("Take of a caller with time = %v, want a decision", err)
		}
	}
	if got := s.Resting(); len(got) > 0 {
		t.Errorf("Resting() = %q, want none", got)
	}
}

// hastyAndCrowded asks by a client whose only connection is another's, for less than the budget.
func hastyAndCrowded(t *testing.T, p *puppet) {
	p.set(func(p *puppet) { p.says = allows })
	client := p.plain(t, func(o *redis.Options) { o.PoolSize = 1 })
	s := bubbleStore(t, client)
	for range 20 {
		p.set(func(p *puppet) { p.after = bubbleBudget / 2 })
		go client.Eval(context.Background(), "return {1, 1}", nil)
		synctest.Wait()
		if ended, rests := hastyCalls(t, s, 1, bubbleBudget/4, oneHalf); ended != 1 || rests != 0 {
			t.Fatal("a call is not sent because the server rests, want that it waits for the connection")
		}
		p.set(func(p *puppet) { p.after = 0 })
		if err := askHasty(s, time.Minute, oneHalf); err != nil {
			t.Errorf("Take of a caller with time = %v, want a decision", err)
		}
	}
}

// hastyAndUnconnected asks by connections that take longer than the deadlines to be ready, each of which is closed before the next call: the server answers on all of them, within the
// budget.
func hastyAndUnconnected(t *testing.T, p *puppet, opts ...redisstore.Option) {
	p.set(func(p *puppet) { p.says = allows })
	idle := time.Minute
	s := bubbleStore(t, p.plain(t, func(o *redis.Options) {
		o.ConnMaxIdleTime = idle
		o.OnConnect = func(context.Context, *redis.Conn) error {
			time.Sleep(2 * hasty)
			return nil
		}
	}), opts...)
	for range 20 {
		if ended, rests := hastyCalls(t, s, 1, hasty, oneHalf); ended != 1 || rests != 0 {
			t.Fatal("a call is not sent because the server rests, want that it answers")
		}
		time.Sleep(2 * bubbleBudget)
		if got := s.Resting(); len(got) > 0 {
			t.Fatalf("Resting() = %q, want none", got)
		}
		time.Sleep(2 * idle)
	}
}

// hastyAmongMovingSlots asks for keys of a slot of which the server has a part: it is the slot that cannot be decided on, and the server is well.
func hastyAmongMovingSlots(t *testing.T, p *puppet) {
	p.set(func(p *puppet) { p.says = func(string, []string) string { return "-TRYAGAIN slots move\r\n" } })
	s := bubbleStore(t, p.cluster(t))
	for range 20 {
		if err := askHasty(s, hasty, oneHalf); err == nil {
			t.Error("Take succeeds, want an error")
		}
		time.Sleep(bubbleBudget)
		if got := s.Resting(); len(got) > 0 {
			t.Fatalf("Resting() = %q, want none", got)
		}
	}
}

// hastyAfterAnOutage asks a server that is back, by new connections that take longer than the deadline to be there: the one call that finds that out takes no longer than they do.
func hastyAfterAnOutage(t *testing.T, p *puppet) {
	const long = 100 * bubbleBudget
	client := p.plain(t, func(o *redis.Options) {
		o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			time.Sleep(2 * hasty)
			return p.dial(ctx, network, addr)
		}
	})
	s, err := redisstore.New(client, redisstore.WithBudget(long))
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if err := askHasty(s, bubbleBudget, oneHalf); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("Take = %v, want %v", err, context.DeadlineExceeded)
		}
	}
	time.Sleep(long)
	if got := s.Resting(); len(got) != 1 {
		t.Fatalf("Resting() = %q after five calls that nobody has answered, want the server", got)
	}
	p.set(func(p *puppet) { p.says = allows })
	time.Sleep(time.Second)
	if err := askHasty(s, hasty, oneHalf); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Take = %v, want %v", err, context.DeadlineExceeded)
	}
	time.Sleep(2 * hasty)
	if err := askHasty(s, time.Minute, oneHalf); err != nil {
		t.Errorf("Take of a caller with time = %v, want a decision", err)
	}
}

// hastyBeforeAsking asks for callers who have gone by then: whose deadlines are too short for anything to be said of the server.
func hastyBeforeAsking(t *testing.T, p *puppet) {
	asked := 0
	p.set(func(p *puppet) {
		p.says = func(addr string, words []string) string {
			asked++
			return allows(addr, words)
		}
	})
	s := bubbleStore(t, p.plain(t))
	for range 20 {
		ctx, cancel := context.WithTimeout(context.Background(), 0)
		redisstore.LeaveBeforeAsking(ctx, s, []store.Request{request(oneHalf, 10, 1)})
		cancel()
	}
	time.Sleep(2 * bubbleBudget)
	if got := s.Resting(); len(got) > 0 || asked > 0 {
		t.Errorf("Resting() = %q, and the server was asked %d times, want none and never", got, asked)
	}
}
