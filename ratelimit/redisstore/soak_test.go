package redisstore_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/internal/denycache"
	"github.com/rlgen/rlgen/ratelimit/redisstore"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
	"github.com/rlgen/rlgen/rules"
	"github.com/rlgen/rlgen/testdata/suite"
)

// The soak lasts as long as it is told, one round of faults at least, and draws their order anew each time:
//
//	go test ./ratelimit/redisstore -run '^TestSoak$' -v -soak 10m
//	go test ./ratelimit/redisstore -run '^TestSoak$' -v -soak 10m -soak.on cluster
var (
	soakTime = flag.Duration("soak", 0, "TestSoak: how long the faults go on, which happen once each at least")
	soakOn   = flag.String("soak.on", "sentinel", "TestSoak: what the calls go to, a sentinel's servers or a cluster")
	soakSeed = flag.Uint64("soak.seed", 0, "TestSoak: draws the faults and calls of an earlier run; 0 draws anew")
)

const (
	soakCallers = 50
	soakPace    = 20 * time.Millisecond // of each caller
	soakActs    = 500                   // of so many calls, one is none, but resets or bans
)

// soakLimits are limits by several algorithms. Each counts two ids, which are 20 keys together.
var soakLimits = []string{
	"40,500ms 150,3s algo=sliding-log", "40,500ms 150,3s algo=compact-log",
	"100,2s algo=sliding-window onfail=open", "100,2s algo=sliding-window segments=3 ban=200ms after=10",
	"60,1s algo=fixed-window onfail=closed ban=100ms after=20", "60,1s algo=fixed-window start=first",
	"100,2s algo=token-bucket onfail=open", "100,2s algo=token-bucket refill=interval",
	"100,2s algo=leaky-bucket onfail=closed", "100,2s algo=gcra burst=40",
}

var soakIDs = []string{"a", "b"}

// soakWindow is the longest of them.
const soakWindow = 3 * time.Second

// soakSite is what the calls of a soak go to, and what happens to it.
type soakSite struct {
	*turmoil
	apart   bool                         // the keys of a call may lie on several servers
	client  func() redis.UniversalClient // of the callers
	masters func() []*redistest.Server
}

var soakSites = map[string]func(*testing.T, *rand.Rand) soakSite{"sentinel": newChaos, "cluster": newClusterChaos}

// TestSoak has 50 callers ask limits of several algorithms, alone and three at a time, through a Sentinel's client or a Cluster's, while
// servers are killed, restarted, frozen, paused, flushed and replaced. What every call was answered is recorded, and the
// record checked against the laws of [history] afterwards. In the end no goroutine, connection or key is left.
func TestSoak(t *testing.T) {
	suite.NeedLong(t, "it lets many faults happen one after the other")
	seed := *soakSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-soak.seed=%d", seed)
	start, ok := soakSites[*soakOn]
	if !ok {
		t.Fatalf("-soak.on %q, want sentinel or cluster", *soakOn)
	}
	c := start(t, rand.New(rand.NewPCG(seed, 0)))
	earlier := goleak.IgnoreCurrent()
	client := c.client()
	s, err := redisstore.New(client, redisstore.Mutated(t))
	if err != nil {
		t.Fatal(err)
	}
	all := newSoakers(t, s, c.begin)
	calls, acts := all.during(func() {
		for c.round(); time.Since(c.begin) < *soakTime; {
			c.round()
		}
	}, seed)
	h := history{limits: all.requests, calls: calls, acts: acts, losses: c.losses, apart: c.apart}
	violations := h.violations()
	for _, v := range violations {
		t.Error(v)
	}
	t.Log("\n" + c.String() + h.String() + fmt.Sprintf("%d violations", len(violations)))
	h.wantAll(t)
	c.settle()
	c.wantNothingLeft(client, c.masters()...)
	dialling := goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial")
	if err := goleak.Find(earlier, dialling); err != nil {
		t.Error(err)
	}
}

// TestSoakFails has the callers of [TestSoak] ask stores whose scripts have a flaw: the record of their calls breaks the law
// that the flaw does. That of calls to a sound store breaks none.
func TestSoakFails(t *testing.T) {
	suite.NeedLong(t, "it calls a store with each flaw for seconds")
	server := redistest.Start(t)
	t.Run("no flaw", func(t *testing.T) {
		if found := shifts(t, newStore(t, server.Client(t)), 1); len(found) > 0 {
			t.Errorf("violations %q, want none", found)
		}
	})
	for name, law := range map[string]string{
		"the oldest part of a window weighed by how much of it is left": "admissions: ",
		"tokens rounded down, and the time of the last call forgotten":  "denials: ",
		"a denied call that is charged":                                 "denials: ",
		"a window that every call puts off":                             "denials: ",
		"a reset that leaves the counts":                                "denials: ",
		"a ban that ends early":                                         "bans: ",
	} {
		t.Run(name, func(t *testing.T) {
			server.Client(t).FlushAll(t.Context())
			found := shifts(t, newStore(t, server.Client(t), redisstore.WithScript(flawNamed(t, name).broken(t))), 20)
			if !slices.ContainsFunc(found, func(v string) bool { return strings.HasPrefix(v, law) }) {
				t.Errorf("violations %q, want one of %s", found, law)
			}
		})
	}
}

// shifts has callers ask a store for a second at a time, until their record breaks a law or they have so often.
func shifts(t *testing.T, s store.Store, most int) (found []string) {
	t.Helper()
	callers := newSoakers(t, s, time.Now())
	var calls []call
	var acts []act
	for i := 0; i < most && len(found) == 0; i++ {
		more, done := callers.during(func() { <-time.After(time.Second) }, uint64(i))
		calls, acts = append(calls, more...), append(acts, done...)
		h := history{limits: callers.requests, calls: calls, acts: acts}
		found = h.violations()
	}
	return found
}

// soakers are callers of limited methods, whose calls are recorded. What a store denies is remembered, as it is for a limiter that
// asks it directly: denials from memory are recorded, too.
type soakers struct {
	*recorder
	limiter *ratelimit.Limiter
	methods []soakMethod
}

func newSoakers(t *testing.T, s store.Store, begin time.Time) *soakers {
	t.Helper()
	r := &recorder{store: denycache.New(s, nil), begin: begin, limits: map[string]int{}}
	limiter, err := ratelimit.New(r, ratelimit.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	return &soakers{r, limiter, soakMethods(t, limiter)}
}

// during has all of them call while f runs, and returns what came of it.
func (c *soakers) during(f func(), seed uint64) ([]call, []act) {
	var over atomic.Bool
	var callers sync.WaitGroup
	recorded, done := make([][]call, soakCallers), make([][]act, soakCallers)
	for i := range recorded {
		draw := rand.New(rand.NewPCG(seed, 1+uint64(i)))
		callers.Go(func() { recorded[i], done[i] = soakCaller(c, draw, &over) })
	}
	f()
	over.Store(true)
	callers.Wait()
	c.limiter.Close(context.Background())
	c.mu.Lock()
	defer c.mu.Unlock()
	calls := append(slices.Concat(recorded...), c.told...)
	c.told = nil
	return calls, slices.Concat(done...)
}

// soakMethod is a limited method.
type soakMethod struct {
	guard  *ratelimit.Guard
	limits int
	bans   bool // some limit of it
}

// soakMethods have one limit each, or three.
func soakMethods(t *testing.T, limiter *ratelimit.Limiter) []soakMethod {
	var limits []rules.Limit
	for i, text := range soakLimits {
		d, err := rules.Parse(fmt.Sprintf("//ratelimit:key %s by=id bucket=soak-%d", text, i))
		if err != nil {
			t.Fatal(err)
		}
		limits = append(limits, d.Limit)
	}
	var methods []soakMethod
	method := func(limits ...rules.Limit) {
		p := &rules.Policy{Package: "example.com/soak", Type: "soak.Service", Method: fmt.Sprint("Call", len(methods)), Limits: limits}
		g, err := limiter.Prepare(p)
		if err != nil {
			t.Fatal(err)
		}
		bans := slices.ContainsFunc(limits, func(l rules.Limit) bool { return l.Ban > 0 })
		methods = append(methods, soakMethod{g, len(limits), bans})
	}
	n := len(limits)
	for i := range limits {
		method(limits[i])
		method(limits[i], limits[(i+3)%n], limits[(i+6)%n])
	}
	return methods
}

// soakCaller calls until it is over, and resets or bans once in a while, and returns what came of it.
func soakCaller(c *soakers, draw *rand.Rand, over *atomic.Bool) (calls []call, acts []act) {
	pace := time.NewTicker(soakPace)
	defer pace.Stop()
	for !over.Load() {
		method := c.methods[draw.IntN(len(c.methods))]
		if draw.IntN(soakActs) == 0 {
			acts = append(acts, soakAct(method, draw)...)
		} else {
			calls = append(calls, c.call(method, draw))
		}
		<-pace.C
	}
	return calls, acts
}

// soakAct resets an id, or bans it where a limit of the method can, or lifts its ban.
func soakAct(method soakMethod, draw *rand.Rand) (acts []act) {
	id := ratelimit.ID{Kind: rules.Key, Text: soakIDs[draw.IntN(len(soakIDs))]}
	ctx := context.WithValue(context.Background(), recording{}, &acts)
	if method.bans && draw.IntN(2) > 0 {
		method.guard.Ban(ctx, id, time.Duration(draw.IntN(3))*150*time.Millisecond) // 0 lifts
	} else {
		method.guard.Reset(ctx, id)
	}
	return acts
}

// call makes one call, and gives back what one in twenty was granted.
func (of *soakers) call(method soakMethod, draw *rand.Rand) call {
	var c call
	var in ratelimit.Input
	in.By(soakIDs[draw.IntN(len(soakIDs))])
	in.Cost(draw.Int64N(4)) // 0 looks
	ins := []ratelimit.Input{in, in, in}
	ctx := context.WithValue(context.Background(), recording{}, &c)
	var d ratelimit.Decision
	var permit ratelimit.Permit
	var err error
	c.duration = timed(func() { d, permit, err = method.guard.Decide(ctx, ins[:method.limits]...) })
	c.source = sourceOf(&d, err)
	if err != nil || !d.Allowed {
		return c
	}
	c.alone = solo{requests: takenAlone(&d), end: time.Since(of.begin)}
	if draw.IntN(20) == 0 {
		c.alone.back = time.Since(of.begin)
		permit.GiveBack(ctx)
	}
	return c
}

// takenAlone is what the process has let through by itself.
func takenAlone(d *ratelimit.Decision) (all []store.Request) {
	for _, l := range d.Limits {
		if l.Source == ratelimit.SourceLocal {
			all = append(all, store.Request{Key: l.Key, Cost: l.Cost})
		}
	}
	return all
}

// sourceOf says who decided a call.
func sourceOf(d *ratelimit.Decision, err error) string {
	verdict := "denied"
	if d.Allowed {
		verdict = "allowed"
	}
	switch {
	case errors.Is(err, ratelimit.ErrMisconfigured):
		return "refused: misconfigured"
	case err != nil:
		return "refused: onfail=closed"
	case d.Degraded != nil:
		return "degraded: " + verdict
	}
	if len(d.Limits) > 0 && d.Limits[0].Source == ratelimit.SourceCache {
		return "remembered: " + verdict
	}
	return "store: " + verdict
}

// recording is the key of the context's *call or *[]act that a [recorder] writes to.
type recording struct{}

// recorder is a store that records what is asked of another. It is safe for concurrent use.
type recorder struct {
	store store.Store
	begin time.Time

	mu       sync.Mutex
	limits   map[string]int // by key
	requests []store.Request
	told     []call // of what was let through without the store
}

// limit is the number of a request's limit.
func (r *recorder) limit(req *store.Request) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	i, ok := r.limits[req.Key]
	if !ok {
		i = len(r.requests)
		r.limits[req.Key] = i
		r.requests = append(r.requests, *req)
	}
	return i
}

func (r *recorder) Take(ctx context.Context, requests []store.Request, detail bool, out *store.Outcome) error {
	c, ok := ctx.Value(recording{}).(*call)
	if !ok {
		return r.tell(ctx, requests, detail, out)
	}
	for i := range requests {
		c.charges = append(c.charges, charge{limit: r.limit(&requests[i]), cost: requests[i].Cost})
	}
	c.start = time.Since(r.begin)
	err := r.store.Take(ctx, requests, detail, out)
	c.end = time.Since(r.begin)
	c.answered(requests, out, err)
	if c.result != allowed {
		return err
	}
	for i := range out.Receipt.Charges {
		if requests[i].Cost > 0 {
			c.at = append(c.at, time.UnixMicro(out.Receipt.Charges[i].At).Sub(r.begin.Round(0)))
		}
	}
	return err
}

// tell records what the store is told of that was let through without it: it may be charged with that, or it would have told so, and admits nobody by it.
func (r *recorder) tell(ctx context.Context, requests []store.Request, detail bool, out *store.Outcome) error {
	c := call{start: time.Since(r.begin), result: indeterminate, source: "told"}
	for i := range requests {
		c.charges = append(c.charges, charge{limit: r.limit(&requests[i]), cost: requests[i].Cost})
		c.start = min(c.start, c.start+requests[i].Ahead)
	}
	err := r.store.Take(ctx, requests, detail, out)
	c.end = time.Since(r.begin)
	if requests[0].Cost > 0 && (err == nil && out.Allowed || failureOf(err) == indeterminate) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.told = append(r.told, c)
	}
	return err
}

// answered records the store's answer.
func (c *call) answered(requests []store.Request, out *store.Outcome, err error) {
	if err != nil {
		c.result, c.why = failureOf(err), err.Error()
		return
	}
	c.result = allowed
	if out.Allowed {
		return
	}
	c.result = denied
	answers := out.Rules
	for i := range requests {
		n := len(requests[i].Rules)
		c.charges[i].denies = slices.ContainsFunc(answers[:n], func(r store.RuleOutcome) bool { return r.RetryAfter > 0 })
		c.charges[i].banned = answers[0].Banned
		answers = answers[n:]
	}
}

func failureOf(err error) result {
	var failed *store.Error
	if !errors.As(err, &failed) {
		return cancelled
	}
	return map[store.Class]result{
		store.Unavailable: unavailable, store.Indeterminate: indeterminate, store.Misconfigured: misconfigured,
	}[failed.Class]
}

func (r *recorder) GiveBack(ctx context.Context, receipt store.Receipt) error {
	c := ctx.Value(recording{}).(*call)
	c.backStart = time.Since(r.begin)
	err := r.store.GiveBack(ctx, receipt)
	c.backEnd, c.backFailed = time.Since(r.begin), err != nil
	return err
}

// acts records what is done to each of requests.
func (r *recorder) acts(ctx context.Context, requests []store.Request, a act, do func() error) error {
	a.start = time.Since(r.begin)
	err := do()
	a.end, a.failed = time.Since(r.begin), err != nil
	acts := ctx.Value(recording{}).(*[]act)
	for i := range requests {
		a.limit = r.limit(&requests[i])
		*acts = append(*acts, a)
	}
	return err
}

func (r *recorder) Reset(ctx context.Context, requests []store.Request) error {
	return r.acts(ctx, requests, act{reset: true}, func() error { return r.store.Reset(ctx, requests) })
}

func (r *recorder) Grant(ctx context.Context, requests []store.Request) error {
	return r.store.Grant(ctx, requests)
}

func (r *recorder) Peek(ctx context.Context, requests []store.Request, out *store.Outcome) error {
	return r.store.Peek(ctx, requests, out)
}

func (r *recorder) Ban(ctx context.Context, requests []store.Request, d time.Duration) error {
	return r.acts(ctx, requests, act{ban: d}, func() error { return r.store.Ban(ctx, requests, d) })
}

// String is what came of the calls, in a table.
func (h *history) String() string {
	counts, errs, took := map[string]int{}, map[string]int{}, make([]time.Duration, 0, len(h.calls))
	returned, banned, resets := 0, 0, 0
	for i := range h.acts {
		if h.acts[i].reset {
			resets++
		}
	}
	for i := range h.calls {
		c := &h.calls[i]
		if c.isBanned() {
			banned++
		}
		counts[c.source]++
		if c.why != "" {
			errs[c.result.String()]++
		}
		if c.backEnd > 0 {
			returned++
		}
		took = append(took, c.took)
	}
	slices.Sort(took)
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "calls\t%d\n", len(h.calls))
	printCounts(w, counts)
	fmt.Fprintf(w, "denied by a ban\t%d\n", banned)
	fmt.Fprintf(w, "given back\t%d\n", returned)
	fmt.Fprintf(w, "keys reset, banned\t%d, %d\n", resets, len(h.acts)-resets)
	printCounts(w, errs)
	fmt.Fprintf(w, "p50, p99, slowest\t%v, %v, %v\n", took[len(took)/2], took[len(took)*99/100], took[len(took)-1])
	w.Flush()
	return text.String()
}

func printCounts(w *tabwriter.Writer, counts map[string]int) {
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(w, "%s\t%d\n", name, counts[name])
	}
}

// wantAll fails the test unless calls of every kind were among those recorded.
func (h *history) wantAll(t *testing.T) {
	t.Helper()
	if want := len(soakLimits) * len(soakIDs); len(h.limits) != want {
		t.Errorf("%d keys were asked for, want %d", len(h.limits), want)
	}
	var seen [results]int
	for i := range h.calls {
		seen[h.calls[i].result]++
	}
	if !slices.ContainsFunc(h.calls, func(c call) bool { return c.source == "remembered: denied" }) {
		t.Error("no call was denied from memory, want some")
	}
	if !slices.ContainsFunc(h.calls, func(c call) bool { return len(c.alone.requests) > 0 }) {
		t.Error("no call was let through by the process alone, want some")
	}
	if !slices.ContainsFunc(h.calls, func(c call) bool { return c.isBanned() }) {
		t.Error("no call was denied by a ban, want some")
	}
	if !slices.ContainsFunc(h.acts, func(a act) bool { return a.reset && !a.failed }) {
		t.Error("no key was reset, want some")
	}
	for _, r := range []result{allowed, denied, unavailable} {
		if seen[r] == 0 {
			t.Errorf("no call was %v, want some: the soak tests nothing", r)
		}
	}
}
