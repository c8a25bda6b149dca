package redisstore_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
	"github.com/rlgen/rlgen/rules"
)

// waiters returns n guards over one limit, each of a limiter and a client of its own, as n processes have them.
func waiters(t *testing.T, n int, client func() redis.UniversalClient, l rules.Limit) []*ratelimit.Guard {
	t.Helper()
	l.Kind, l.Bucket = rules.Global, bucketName(t)
	var guards []*ratelimit.Guard
	for range n {
		limiter, err := ratelimit.New(newStore(t, client()))
		if err != nil {
			t.Fatal(err)
		}
		guards = append(guards, limiter.Guard(&rules.Policy{
			Package: "example.com/m", Type: "m.T", Method: "Do", Limits: []rules.Limit{l}}))
	}
	return guards
}

// bucketName returns a name that no other test has.
func bucketName(t *testing.T) string {
	name := strings.Map(func(r rune) rune {
		if r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r)) {
			return r
		}
		return -1
	}, redistest.Prefix(t))
	return name[max(0, len(name)-64):]
}

// TestWaitersOfSeveralProcesses lets callers of three limiters wait for one limit: all of them pass, and by the server's clock
// none before the law lets as many go.
func TestWaitersOfSeveralProcesses(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	const calls = 45
	for _, test := range []struct {
		limit  rules.Limit
		behind func(n int) time.Duration // the first call, the n-th one goes on at the earliest
	}{
		{rules.Limit{Rules: []rules.Rule{{Count: 15, Window: 300 * time.Millisecond}}},
			func(n int) time.Duration { return time.Duration(n/15) * 300 * time.Millisecond }},
		{rules.Limit{Algorithm: rules.GCRA, Burst: 5, Rules: []rules.Rule{{Count: 100, Window: time.Second}}},
			func(n int) time.Duration { return time.Duration(max(0, n-4)) * 10 * time.Millisecond }},
		{rules.Limit{Algorithm: rules.LeakyBucket, Rules: []rules.Rule{{Count: 100, Window: time.Second}}},
			func(n int) time.Duration { return time.Duration(n) * 10 * time.Millisecond }},
	} {
		l := test.limit
		l.Wait = time.Hour
		t.Run(l.Algorithm.String(), func(t *testing.T) {
			guards := waiters(t, 3, func() redis.UniversalClient { return server.Client(t) }, l)
			clock := server.Client(t)
			began := clock.Time(context.Background()).Val()
			var mu sync.Mutex
			var passed []time.Duration
			var wg sync.WaitGroup
			for i := range calls {
				wg.Go(func() {
					if _, err := guards[i%len(guards)].Take(context.Background()); err != nil {
						t.Errorf("call %d: %v", i, err)
						return
					}
					at := clock.Time(context.Background()).Val().Sub(began)
					mu.Lock()
					defer mu.Unlock()
					passed = append(passed, at)
				})
			}
			wg.Wait()
			slices.Sort(passed)
			for n, at := range passed {
				if want := test.behind(n); at < want {
					t.Errorf("call %d of %v goes on after %v, want %v or more", n, l.Rules, at, want)
				}
			}
			if len(passed) != calls {
				t.Errorf("%d of %d calls pass, want all", len(passed), calls)
			}
		})
	}
}

// telling tells when it has answered a Take.
type telling struct {
	store.Store
	answered chan<- struct{}
}

func (s *telling) Take(ctx context.Context, requests []store.Request, detail bool, out *store.Outcome) error {
	defer func() { s.answered <- struct{}{} }()
	return s.Store.Take(ctx, requests, detail, out)
}

// TestContextEndsInQueue gives back the place of a call whose context ends while it waits: whole where it is the last.
func TestContextEndsInQueue(t *testing.T) {
	client := redistest.Standalone(t).Client(t)
	s := newStore(t, client)
	answered := make(chan struct{}, 1)
	limiter, err := ratelimit.New(&telling{s, answered})
	if err != nil {
		t.Fatal(err)
	}
	limit := rules.Limit{Kind: rules.Global, Algorithm: rules.LeakyBucket, Bucket: bucketName(t), Wait: 24 * time.Hour,
		Rules: []rules.Rule{{Count: 1, Window: time.Hour}}}
	policy := &rules.Policy{Package: "example.com/m", Type: "m.T", Method: "Do", Limits: []rules.Limit{limit}}
	guard := limiter.Guard(policy)
	if _, err := guard.Take(context.Background()); err != nil {
		t.Fatal(err)
	}
	<-answered
	req := store.NewRequest(&limit, policy.KeyTemplate(0), 0)
	for range 3 {
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error)
		go func() {
			_, err := guard.Take(ctx)
			ended <- err
		}()
		<-answered // the call knows its place, and waits
		if reset := take(t, s, req).Rules[0].ResetAfter; reset <= time.Hour {
			t.Errorf("the queue is free in %v while a call waits, want more than an hour", reset)
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Take = %v, want %v", err, context.Canceled)
		}
		if reset := take(t, s, req).Rules[0].ResetAfter; reset > time.Hour || reset < 59*time.Minute {
			t.Errorf("the queue is free in %v after the call has given up, want the hour of the first", reset)
		}
	}
}

// TestQueueKeys holds what a queue keeps in Redis: nothing of a denial, and nothing once it has drained or all is given back.
func TestQueueKeys(t *testing.T) {
	client := redistest.Standalone(t).Client(t)
	s, p := newStore(t, client), redistest.Prefix(t)
	ctx := context.Background()
	queue := func(wait time.Duration, cost int64) store.Request {
		return store.Request{Key: p, Algorithm: rules.LeakyBucket, Queue: true, Wait: wait, Cost: cost, Rules: []rules.Rule{{Count: 4, Window: time.Hour}}}
	}
	first := take(t, s, queue(0, 3))
	if ttl := client.PTTL(ctx, p).Val(); ttl > 45*time.Minute+2*time.Second || ttl < 45*time.Minute {
		t.Errorf("the key expires in %v, want a second after the 45m in which the queue drains", ttl)
	}
	before := state(t, client, p)
	if take(t, s, queue(time.Minute, 1)).Allowed {
		t.Error("a call that would wait 45m is allowed to wait 1m, want denied")
	}
	take(t, s, queue(time.Minute, 0))
	if after := state(t, client, p); after != before {
		t.Errorf("state after a denial and a call of cost 0 = %s, want that before, %s", after, before)
	}
	second := take(t, s, queue(time.Hour, 1))
	for _, out := range []store.Outcome{second, first} {
		if err := s.GiveBack(ctx, out.Receipt); err != nil {
			t.Fatal(err)
		}
	}
	if n := client.Exists(ctx, p).Val(); n != 0 {
		t.Error("the key is there after all is given back, want it gone")
	}
	meter := store.Request{Key: p, Algorithm: rules.LeakyBucket, Cost: 4, Rules: queue(0, 0).Rules}
	if !take(t, s, meter).Allowed || !take(t, s, queue(0, 1)).Allowed {
		t.Error("a meter and a queue under one key count together, want each alone")
	}
}

// TestQueueRefuses holds what no limit asks for.
func TestQueueRefuses(t *testing.T) {
	s := newStore(t, redistest.Standalone(t).Client(t))
	hourly := []rules.Rule{{Count: 1, Window: time.Hour}}
	for name, req := range map[string]store.Request{
		"another algorithm":  {Rules: hourly, Algorithm: rules.GCRA, Queue: true},
		"two rules":          {Rules: []rules.Rule{{Count: 1, Window: time.Hour}, {Count: 1, Window: time.Minute}}, Algorithm: rules.LeakyBucket, Queue: true},
		"a negative wait":    {Rules: hourly, Algorithm: rules.LeakyBucket, Queue: true, Wait: -1},
		"a wait of two days": {Rules: hourly, Algorithm: rules.LeakyBucket, Queue: true, Wait: 48 * time.Hour},
		"less than 1µs":      {Rules: []rules.Rule{{Count: 1001, Window: time.Millisecond}}, Algorithm: rules.LeakyBucket, Queue: true},
	} {
		req.Key, req.Cost = redistest.Prefix(t), 1
		if _, err := store.Take(context.Background(), s, []store.Request{req}, false); classOf(err) != store.Misconfigured {
			t.Errorf("%s: Take = %v, want an error of class %v", name, err, store.Misconfigured)
		}
	}
}
