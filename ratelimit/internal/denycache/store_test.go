package denycache_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rlgen/rlgen/ratelimit/internal/denycache"
	"github.com/rlgen/rlgen/ratelimit/memstore"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/ratelimit/storetest"
	"github.com/rlgen/rlgen/rules"
)

// steady is the time that has passed while a clock was moved forward: what a monotonic clock says beside one that is set.
func steady(clock *storetest.Clock) func() time.Duration {
	var last time.Time
	var passed time.Duration
	clock.OnMove(func(now time.Time) {
		if !last.IsZero() && now.After(last) {
			passed += now.Sub(last)
		}
		last = now
	})
	return func() time.Duration { return passed }
}

func pair() (cache *denycache.Store, behind store.Store, clock *storetest.Clock) {
	clock = storetest.NewClock()
	behind = memstore.New(memstore.WithClock(clock.Now))
	return denycache.New(behind, steady(clock)), behind, clock
}

func take(t *testing.T, s store.Store, detail bool, requests ...store.Request) store.Outcome {
	t.Helper()
	out, err := store.Take(context.Background(), s, requests, detail)
	if err != nil {
		t.Fatalf("Take(%+v): %v", requests, err)
	}
	return out
}

func request(key string, cost int64, rs ...rules.Rule) store.Request {
	return store.Request{Key: key, Rules: rs, Cost: cost}
}

// The rest of what the store has said is what it would say now, for as long as nobody else asks.
func TestAnswersAreTheStores(t *testing.T) {
	cache, behind, clock := pair()
	second := rules.Rule{Count: 2, Window: 700 * time.Millisecond}
	for range 2 {
		take(t, cache, false, request("a", 1, second))
	}
	if out := take(t, cache, true, request("a", 1, second)); out.Allowed || out.Cached {
		t.Fatalf("the first denial is %+v, want the store's", out)
	}
	for range 6 {
		clock.Move(100 * time.Millisecond)
		got, want := take(t, cache, true, request("a", 1, second)), take(t, behind, true, request("a", 1, second))
		if !got.Cached || got.Allowed {
			t.Fatalf("%v: Take = %+v, want it denied from memory", clock.Now(), got)
		}
		if diff := cmp.Diff(want.Rules, got.Rules); diff != "" {
			t.Errorf("%v: (-the store's +from memory):\n%s", clock.Now(), diff)
		}
	}
	clock.Move(100 * time.Millisecond)
	if out := take(t, cache, true, request("a", 1, second)); !out.Allowed || out.Cached {
		t.Errorf("Take after the retry-after = %+v, want it allowed by the store", out)
	}
}

func TestWhatIsAnswered(t *testing.T) {
	hour := func(n int64) rules.Rule { return rules.Rule{Count: n, Window: time.Hour} }
	for _, test := range []struct {
		name   string
		taken  []store.Request // is allowed
		denied []store.Request
		asked  []store.Request
		plain  bool // the denied one is told without detail
		detail bool
		cached bool
	}{
		{name: "the same", taken: one(request("k", 5, hour(5))), denied: one(request("k", 1, hour(5))), asked: one(request("k", 1, hour(5))), cached: true},
		{name: "more", taken: one(request("k", 4, hour(5))), denied: one(request("k", 2, hour(5))), asked: one(request("k", 3, hour(5))), cached: true},
		{name: "less", taken: one(request("k", 4, hour(5))), denied: one(request("k", 2, hour(5))), asked: one(request("k", 1, hour(5)))},
		{name: "more than ever", taken: one(request("k", 5, hour(5))), denied: one(request("k", 2, hour(5))), asked: one(request("k", 6, hour(5)))},
		{name: "a peek", taken: one(request("k", 5, hour(5))), denied: one(request("k", 1, hour(5))), asked: one(request("k", 0, hour(5)))},
		{name: "denied for ever", denied: one(request("k", 6, hour(5))), asked: one(request("k", 6, hour(5)))},
		{name: "another key", taken: one(request("k", 5, hour(5))), denied: one(request("k", 1, hour(5))), asked: one(request("l", 1, hour(5)))},
		{name: "other rules", taken: one(request("k", 5, hour(5))), denied: one(request("k", 1, hour(5))), asked: one(request("k", 1, hour(6)))},
		{name: "with another limit", taken: one(request("k", 5, hour(5))), denied: one(request("k", 1, hour(5))),
			asked: []store.Request{request("l", 1, hour(5)), request("k", 1, hour(5))}, cached: true},
		{name: "denied with another limit", taken: one(request("k", 5, hour(5))), denied: []store.Request{request("l", 1, hour(5)), request("k", 1, hour(5))},
			asked: one(request("k", 1, hour(5))), cached: true},
		{name: "that other limit", taken: one(request("k", 5, hour(5))), denied: []store.Request{request("l", 1, hour(5)), request("k", 1, hour(5))},
			asked: one(request("l", 1, hour(5)))},
		{name: "detail", taken: one(request("k", 5, hour(5))), denied: one(request("k", 1, hour(5))), asked: one(request("k", 1, hour(5))), detail: true, cached: true},
		{name: "detail that was not asked for", taken: one(request("k", 5, hour(5))), denied: one(request("k", 1, hour(5))), asked: one(request("k", 1, hour(5))),
			plain: true, detail: true},
		{name: "detail of more", taken: one(request("k", 5, hour(5))), denied: one(request("k", 1, hour(5))), asked: one(request("k", 2, hour(5))), detail: true, cached: true},
		{name: "detail of a rule with room", taken: one(request("k", 5, hour(5), hour(9))), denied: one(request("k", 1, hour(5), hour(9))),
			asked: one(request("k", 1, hour(5), hour(9))), detail: true, cached: true},
		{name: "detail of another limit, with room", taken: one(request("k", 5, hour(5))), denied: []store.Request{request("l", 1, hour(5)), request("k", 1, hour(5))},
			asked: []store.Request{request("l", 1, hour(5)), request("k", 1, hour(5))}, detail: true, cached: true},
		{name: "detail of another limit, with room for less", taken: one(request("k", 5, hour(5))), denied: []store.Request{request("l", 1, hour(5)), request("k", 1, hour(5))},
			asked: []store.Request{request("l", 6, hour(5)), request("k", 1, hour(5))}, detail: true},
		{name: "detail of another limit, of which nothing is remembered", taken: one(request("k", 5, hour(5))), denied: one(request("k", 1, hour(5))),
			asked: []store.Request{request("l", 1, hour(5)), request("k", 1, hour(5))}, detail: true},
		{name: "detail of another limit, which may count a denial towards a ban", taken: one(request("k", 5, hour(5))),
			denied: []store.Request{banning("l", 1), request("k", 1, hour(5))}, asked: []store.Request{banning("l", 1), request("k", 1, hour(5))}, detail: true},
		{name: "a denial that counts towards a ban", taken: one(banning("k", 5)), denied: one(banning("k", 1)), asked: one(banning("k", 1))},
		{name: "a queue", taken: one(queue("k")), denied: one(queue("k")), asked: one(queue("k"))},
	} {
		t.Run(test.name, func(t *testing.T) {
			cache, behind, _ := pair()
			if test.taken != nil && !take(t, cache, false, test.taken...).Allowed {
				t.Fatal("the first call is denied")
			}
			if take(t, cache, test.detail && !test.plain, test.denied...).Allowed {
				t.Fatal("the second call is allowed")
			}
			want := take(t, behind, test.detail, test.asked...)
			got := take(t, cache, test.detail, test.asked...)
			if got.Cached != test.cached {
				t.Errorf("Take = %+v, want Cached=%t", got, test.cached)
			}
			if test.cached && want.Allowed {
				t.Errorf("Take = %+v, where the store says %+v", got, want)
			}
		})
	}
}

func one(req store.Request) []store.Request { return []store.Request{req} }

// banning is a request whose third denial bans.
func banning(key string, cost int64) store.Request {
	req := request(key, cost, rules.Rule{Count: 5, Window: time.Hour})
	req.Ban, req.After = time.Hour, 3
	return req
}

func queue(key string) store.Request {
	return store.Request{Key: key, Algorithm: rules.LeakyBucket, Queue: true, Cost: 1, Rules: []rules.Rule{{Count: 1, Window: time.Hour}}}
}

func TestForgets(t *testing.T) {
	limit := rules.Rule{Count: 1, Window: time.Hour}
	for _, test := range []struct {
		name string
		do   func(t *testing.T, cache, behind store.Store, clock *storetest.Clock, first store.Outcome)
	}{
		{"what is given back", func(t *testing.T, cache, _ store.Store, _ *storetest.Clock, first store.Outcome) {
			if err := cache.GiveBack(context.Background(), first.Receipt); err != nil {
				t.Fatal(err)
			}
		}},
		{"what is reset", func(t *testing.T, cache, _ store.Store, _ *storetest.Clock, _ store.Outcome) {
			if err := cache.Reset(context.Background(), one(request("k", 1, limit))); err != nil {
				t.Fatal(err)
			}
		}},
		{"what others give back, in time", func(t *testing.T, _, behind store.Store, clock *storetest.Clock, first store.Outcome) {
			if err := behind.GiveBack(context.Background(), first.Receipt); err != nil {
				t.Fatal(err)
			}
			clock.Move(denycache.MaxAge)
		}},
		{"other rules", func(t *testing.T, cache, behind store.Store, _ *storetest.Clock, first store.Outcome) {
			take(t, cache, false, request("k", 1, rules.Rule{Count: 2, Window: time.Second}))
			if err := behind.GiveBack(context.Background(), first.Receipt); err != nil { // so that the answer shows who gives it
				t.Fatal(err)
			}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			cache, behind, clock := pair()
			first := take(t, cache, false, request("k", 1, limit))
			take(t, cache, false, request("k", 1, limit))
			if out := take(t, cache, false, request("k", 1, limit)); !out.Cached {
				t.Fatalf("Take = %+v, want it denied from memory", out)
			}
			test.do(t, cache, behind, clock, first)
			if out := take(t, cache, false, request("k", 1, limit)); out.Cached {
				t.Errorf("Take = %+v, want the store's answer", out)
			}
		})
	}
}

// holding is a store whose next answer is under way until it is let go.
type holding struct {
	store.Store
	held chan func()
}

func (s *holding) Take(ctx context.Context, requests []store.Request, detail bool, out *store.Outcome) error {
	err := s.Store.Take(ctx, requests, detail, out)
	arrived := make(chan struct{})
	s.held <- func() { close(arrived) }
	<-arrived
	return err
}

// A denial that was on its way while its key was given back is true no more.
func TestDenialIsOvertakenByAGiveBack(t *testing.T) {
	ask := one(request("k", 1, rules.Rule{Count: 1, Window: time.Hour}))
	behind := memstore.New()
	first := take(t, behind, false, ask...)
	slow := &holding{behind, make(chan func(), 1)}
	cache := denycache.New(slow, nil)
	landed := launch(t, cache, ask)
	arrive := <-slow.held
	if err := cache.GiveBack(context.Background(), first.Receipt); err != nil {
		t.Fatal(err)
	}
	arrive()
	if out := <-landed; out.Allowed {
		t.Fatalf("Take = %+v, want it denied, as it was before the give-back", out)
	}
	landed = launch(t, cache, ask)
	(<-slow.held)()
	if out := <-landed; !out.Allowed {
		t.Errorf("Take after the give-back = %+v, want it allowed", out)
	}
}

// A store that keeps limits apart charges one of them for a moment where another one denies the call: what was denied for that is not remembered.
func TestDenialByAReservation(t *testing.T) {
	limit := rules.Rule{Count: 1, Window: time.Hour}
	ask, both := one(request("k", 1, limit)), []store.Request{request("k", 1, limit), request("full", 1, limit)}
	behind := memstore.New()
	take(t, behind, false, request("full", 1, limit))
	slow := &holding{behind, make(chan func(), 1)}
	cache := denycache.New(slow, nil)

	first := launch(t, cache, both) // is denied, and as a cluster would have it, has k for a moment
	arrive := <-slow.held
	reserved := take(t, behind, false, ask...)
	second := launch(t, cache, ask)
	(<-slow.held)()
	if out := <-second; out.Allowed {
		t.Fatalf("Take = %+v, want it denied by the reservation", out)
	}
	if err := behind.GiveBack(context.Background(), reserved.Receipt); err != nil {
		t.Fatal(err)
	}
	arrive()
	<-first
	third := launch(t, cache, ask)
	(<-slow.held)()
	if out := <-third; !out.Allowed {
		t.Errorf("Take after the reservation = %+v, want it allowed", out)
	}
}

func launch(t *testing.T, s store.Store, requests []store.Request) <-chan store.Outcome {
	return start(t, s, requests, false)
}

func start(t *testing.T, s store.Store, requests []store.Request, detail bool) <-chan store.Outcome {
	landed := make(chan store.Outcome, 1)
	go func() {
		out, err := store.Take(context.Background(), s, requests, detail)
		if err != nil {
			t.Error(err)
		}
		landed <- out
	}()
	return landed
}

// Many keys take the places of others, and none is answered for another.
func TestIsBounded(t *testing.T) {
	cache, _, _ := pair()
	limit := []rules.Rule{{Count: 1, Window: time.Hour}}
	key := func(i int) []store.Request { return one(store.Request{Key: strconv.Itoa(i), Rules: limit, Cost: 1}) }
	for i := range 2 * denycache.MaxKeys {
		take(t, cache, false, key(i)...)
		if out := take(t, cache, false, key(i)...); out.Allowed || out.Cached {
			t.Fatalf("the second call of key %d is %+v, want it denied by the store", i, out)
		}
	}
	cached := 0
	for i := range 2 * denycache.MaxKeys {
		if take(t, cache, false, key(i)...).Cached {
			cached++
		}
	}
	if cached > denycache.MaxKeys || cached < denycache.MaxKeys/4 {
		t.Errorf("%d of %d keys are remembered, want at most %d, and a good part of them", cached, 2*denycache.MaxKeys, denycache.MaxKeys)
	}
}

// Of another limit of a denied call, what remains is what did, less what this process has charged since; it is forgotten once that leaves no room.
func TestRemainsOfAnotherLimit(t *testing.T) {
	cache, behind, clock := pair()
	full, open := request("full", 1, rules.Rule{Count: 1, Window: time.Hour}), request("open", 1, rules.Rule{Count: 5, Window: time.Hour})
	take(t, cache, false, full)
	for _, test := range []struct {
		do        func()
		remaining int64
		cached    bool
	}{
		{func() {}, 5, false},
		{func() {}, 5, true},
		{func() { take(t, cache, false, open) }, 4, true},
		{func() { take(t, behind, false, open) }, 4, true}, // which it cannot know
		{func() { clock.Move(denycache.MaxAge) }, 3, false},
		{func() { take(t, cache, false, open, request("else", 1, open.Rules...)) }, 2, true},
		{func() { take(t, cache, false, request("open", 2, open.Rules...)) }, 0, false},
		{func() {}, 0, true},
	} {
		test.do()
		out := take(t, cache, true, open, full)
		if out.Allowed || out.Cached != test.cached || out.Rules[0].Remaining != test.remaining {
			t.Errorf("Take = %+v, want it denied, %d remaining, Cached=%t", out, test.remaining, test.cached)
		}
	}
}

// What others charge for a moment, where a store keeps limits apart, is no reason to forget what remains.
func TestRemainsWhereManyAsk(t *testing.T) {
	limit := rules.Rule{Count: 5, Window: time.Hour}
	both, behind := []store.Request{request("open", 1, limit), request("full", 1, limit)}, memstore.New()
	take(t, behind, false, request("full", 5, limit))
	slow := &holding{behind, make(chan func(), 2)}
	cache := denycache.New(slow, nil)
	landed := []<-chan store.Outcome{start(t, cache, both, true), start(t, cache, both, true)}
	for _, arrive := range []func(){<-slow.held, <-slow.held} {
		arrive()
	}
	for _, l := range landed {
		if out := <-l; out.Allowed {
			t.Fatalf("Take = %+v, want it denied", out)
		}
	}
	select {
	case out := <-start(t, cache, both, true):
		if out.Allowed || !out.Cached {
			t.Errorf("Take = %+v, want it denied from memory", out)
		}
	case arrive := <-slow.held:
		arrive()
		t.Error("Take asks the store, want it denied from memory")
	}
}

// TestDeniesOnlyWhatTheStoreDenies plays what a process does, and what others do, at random, and asks the store behind for each answer from
// memory: it denies the call too, with no shorter wait; and where what remains was asked, no more remains than the store says, but for what others have
// charged within the time for which a denial is remembered: and not even that of a limit that denies one permit, which nobody can charge.
func TestDeniesOnlyWhatTheStoreDenies(t *testing.T) {
	for _, option := range []store.Request{
		{Algorithm: rules.SlidingLog},
		{Algorithm: rules.SlidingWindow},
		{Algorithm: rules.FixedWindow},
		{Algorithm: rules.FixedWindow, Start: rules.StartFirst},
		{Algorithm: rules.TokenBucket},
		{Algorithm: rules.TokenBucket, Refill: rules.RefillInterval},
		{Algorithm: rules.GCRA, Burst: 3},
	} {
		t.Run(fmt.Sprint(option.Algorithm, option.Start, option.Refill), func(t *testing.T) {
			cached, settled := 0, 0
			for seed := range uint64(10) {
				g := newGame(t, seed, option)
				for range 800 {
					g.step()
				}
				cached += g.cached
				settled += g.settled
			}
			if cached < 100 || settled < 20 {
				t.Errorf("%d answers from memory, %d of them with what remains, want enough to tell", cached, settled)
			}
		})
	}
}

type game struct {
	t               *testing.T
	rand            *rand.Rand
	cache           *denycache.Store
	behind          store.Store
	clock           *storetest.Clock
	limits          []store.Request
	receipts        []store.Receipt
	charges         []charge // of others
	setBack         bool     // the store's clock is, at times, so that the store's waits are longer than those in memory
	cached, settled int
}

func newGame(t *testing.T, seed uint64, option store.Request) *game {
	g := &game{t: t, rand: rand.New(rand.NewPCG(seed, 1)), setBack: seed%2 == 1}
	g.cache, g.behind, g.clock = pair()
	for i := range 3 {
		limit := option
		limit.Key = strconv.Itoa(i)
		limit.Rules = []rules.Rule{{Count: 1 + g.rand.Int64N(4), Window: 80 * time.Millisecond}}
		if g.rand.IntN(2) == 0 {
			limit.Rules = append(limit.Rules, rules.Rule{Count: 4 + g.rand.Int64N(4), Window: 900 * time.Millisecond})
		}
		g.limits = append(g.limits, limit)
	}
	return g
}

func (g *game) step() {
	switch n := g.rand.IntN(100); {
	case n < 60:
		g.ask()
	case n < 70:
		g.others()
	case n < 75 && len(g.receipts) > 0:
		i := g.rand.IntN(len(g.receipts))
		if err := g.cache.GiveBack(context.Background(), g.receipts[i]); err != nil {
			g.t.Fatal(err)
		}
		g.receipts = slices.Delete(g.receipts, i, i+1)
	case n < 76:
		if err := g.cache.Reset(context.Background(), g.some()); err != nil {
			g.t.Fatal(err)
		}
	case n < 77:
		if g.setBack {
			g.clock.Move(-time.Duration(g.rand.Int64N(int64(50 * time.Millisecond)))) // of the store alone: see steady
		}
	case n < 79:
		i := g.rand.IntN(len(g.limits))
		g.limits[i].Rules = slices.Clone(g.limits[i].Rules)
		g.limits[i].Rules[0].Count = 1 + g.rand.Int64N(4)
		take(g.t, g.cache, false, g.requests(g.limits[i])...)
	default:
		g.clock.Move(time.Duration(g.rand.Int64N(int64(30 * time.Millisecond))).Truncate(time.Microsecond))
	}
}

// requests asks some limits for a few permits each.
func (g *game) requests(limits ...store.Request) []store.Request {
	for i := range limits {
		limits[i].Cost = []int64{0, 1, 1, 1, 1, 1, 2, 3}[g.rand.IntN(8)]
	}
	return limits
}

func (g *game) some() []store.Request {
	limits := slices.Clone(g.limits)
	g.rand.Shuffle(len(limits), func(i, j int) { limits[i], limits[j] = limits[j], limits[i] })
	return limits[:[]int{1, 1, 2, 3}[g.rand.IntN(4)]]
}

// others ask the store as another process does.
func (g *game) others() {
	requests := g.requests(g.some()...)
	if !take(g.t, g.behind, false, requests...).Allowed {
		return
	}
	for i := range requests {
		g.charges = append(g.charges, charge{requests[i].Key, g.clock.Now(), requests[i].Cost})
	}
}

func (g *game) ask() {
	requests, detail := g.requests(g.some()...), g.rand.IntN(2) == 0
	got := take(g.t, g.cache, detail, requests...)
	if got.Allowed {
		g.receipts = append(g.receipts, got.Receipt)
	}
	if !got.Cached {
		return
	}
	g.cached++
	want := take(g.t, g.behind, detail, requests...)
	if want.Allowed || got.Allowed {
		g.t.Fatalf("Take(%+v) from memory = %+v, where the store says %+v", requests, got, want)
	}
	for i := range want.Rules {
		if got.Rules[i].RetryAfter > want.Rules[i].RetryAfter {
			g.t.Fatalf("Take(%+v): rule %d says retry after %v, where the store says %v", requests, i, got.Rules[i].RetryAfter, want.Rules[i].RetryAfter)
		}
	}
	if !detail || g.setBack {
		return
	}
	g.settled++
	for i := range requests {
		n := len(requests[i].Rules)
		g.compare(&requests[i], want.Rules[:n], got.Rules[:n])
		want.Rules, got.Rules = want.Rules[n:], got.Rules[n:]
	}
}

// compare compares what is said of one limit.
func (g *game) compare(req *store.Request, want, got []store.RuleOutcome) {
	others := g.byOthers(req.Key)
	if req.Cost == 1 && slices.ContainsFunc(got, func(r store.RuleOutcome) bool { return r.RetryAfter > 0 }) {
		others = 0
	}
	for j := range got {
		if got[j].Remaining > want[j].Remaining+others || got[j].ResetAfter > want[j].ResetAfter {
			g.t.Fatalf("Take(%+v) rule %d: %+v from memory, where the store says %+v, and others have charged %d", req, j, got[j], want[j], others)
		}
	}
}

// byOthers is what others have lately charged to a key.
func (g *game) byOthers(key string) (cost int64) {
	for _, c := range g.charges {
		if c.key == key && g.clock.Now().Sub(c.at) <= denycache.MaxAge {
			cost += c.cost
		}
	}
	return cost
}

// charge is what others have charged.
type charge struct {
	key  string
	at   time.Time
	cost int64
}
