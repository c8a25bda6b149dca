package otellimit_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.uber.org/goleak"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/memstore"
	"github.com/rlgen/rlgen/ratelimit/otellimit"
	"github.com/rlgen/rlgen/ratelimit/ratelimittest"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const userID, addr = "alice@example.com", "203.0.113.7"

func alice() context.Context {
	return ratelimit.WithUser(ratelimit.WithIP(context.Background(), netip.MustParseAddr(addr)), userID)
}

func per(kind rules.Kind, count int64, window time.Duration) rules.Limit {
	return rules.Limit{Kind: kind, Rules: []rules.Rule{{Count: count, Window: window}}}
}

func failing(l rules.Limit, f rules.OnFail) rules.Limit {
	l.OnFail = f
	return l
}

// banning is l with a ban for the second denial.
func banning(l rules.Limit) rules.Limit {
	l.Ban, l.After = time.Hour, 2
	return l
}

func shadow(l rules.Limit) rules.Limit {
	l.Mode = rules.Shadow
	return l
}

func onPlan(l rules.Limit, plan string) rules.Limit {
	l.Plan = plan
	return l
}

func policy(limits ...rules.Limit) *rules.Policy {
	return &rules.Policy{Package: "example.com/shop", Type: "shop.Orders", Method: "Create", Limits: limits}
}

// call makes a call, which ends at once where it is allowed.
func call(ctx context.Context, g *ratelimit.Guard, in ...ratelimit.Input) {
	_, permit, err := g.Hold(ctx, in...)
	if err == nil {
		permit.Done(nil)
	}
}

func TestMetrics(t *testing.T) {
	user, ip := per(rules.User, 2, time.Minute), per(rules.IP, 3, time.Minute)
	working := func(opts ...ratelimit.Option) *ratelimit.Limiter {
		l, _ := ratelimittest.New(opts...)
		return l
	}
	broken := func(class store.Class) func(...ratelimit.Option) *ratelimit.Limiter {
		return func(opts ...ratelimit.Option) *ratelimit.Limiter { return ratelimittest.Failing(class, opts...) }
	}
	ended, cancel := context.WithCancelCause(alice())
	cancel(errors.New("the client has gone"))
	tooMuch := make([]ratelimit.Input, 2)
	tooMuch[0].Cost(9)
	for _, test := range []struct {
		name    string
		limiter func(...ratelimit.Option) *ratelimit.Limiter
		limits  []rules.Limit
		calls   int
		ctx     context.Context
		in      []ratelimit.Input
		want    string
	}{
		{
			"one limit of two denies", working, []rules.Limit{user, ip}, 5, alice(), nil, `
			requests mode=enforce policy=Create/user result=acquired source=store = 2
			requests mode=enforce policy=Create/ip result=acquired source=store = 2
			requests mode=enforce policy=Create/user result=rejected source=store = 3
			check.duration result=acquired = 2 times
			check.duration result=rejected = 3 times`,
		},
		{
			"no identity", working, []rules.Limit{user, ip}, 2, context.Background(), nil, `
			requests error.type=no_identity policy=Create/user result=error = 2
			requests error.type=no_identity policy=Create/ip result=error = 2
			check.duration result=error = 2 times`,
		},
		{
			"no identity of one plan", working, []rules.Limit{onPlan(user, "free"), onPlan(user, "pro")}, 1, ratelimit.WithPlan(context.Background(), "free"), nil, `
			requests error.type=no_identity policy=Create/user/free result=error = 1
			check.duration result=error = 1 times`,
		},
		{
			"a shadow of calls that another limit denies", working, []rules.Limit{user, shadow(ip)}, 4, alice(), nil, `
			requests mode=enforce policy=Create result=acquired source=store = 2
			requests mode=enforce policy=Create result=rejected source=store = 2
			requests mode=shadow policy=Create/ip/shadow result=acquired source=store = 3
			requests mode=shadow policy=Create/ip/shadow result=rejected source=store = 1
			check.duration result=acquired = 2 times
			check.duration result=rejected = 2 times`,
		},
		{
			"a cost that cannot be met", working, []rules.Limit{user, ip}, 1, alice(), tooMuch, `
			requests error.type=cost policy=Create/user result=error = 1
			requests error.type=cost policy=Create/ip result=error = 1
			check.duration result=error = 1 times`,
		},
		{
			"a context that has ended", working, []rules.Limit{user}, 1, ended, nil, `
			requests policy=Create result=canceled = 1
			check.duration result=canceled = 1 times`,
		},
		{
			"the store is down, and this process decides", broken(store.Unavailable), []rules.Limit{user}, 3, alice(), nil, `
			requests mode=enforce policy=Create result=acquired source=local = 2
			requests mode=enforce policy=Create result=rejected source=local = 1
			check.duration result=acquired = 2 times
			check.duration result=rejected = 1 times
			fallbacks mode=enforce policy=Create source=local = 3
			store.errors error.type=unavailable = 3`,
		},
		{
			"the store's answer is lost, and nobody decides", broken(store.Indeterminate), []rules.Limit{failing(user, rules.FailOpen)}, 3, alice(), nil, `
			requests mode=enforce policy=Create result=acquired source=fallback = 3
			check.duration result=acquired = 3 times
			fallbacks mode=enforce policy=Create source=fallback = 3
			store.errors error.type=indeterminate = 3`,
		},
		{
			"the store is down, and calls fail", broken(store.Unavailable), []rules.Limit{failing(user, rules.FailClosed)}, 3, alice(), nil, `
			requests error.type=unavailable policy=Create result=error = 3
			check.duration result=error = 3 times
			store.errors error.type=unavailable = 3`,
		},
		{
			"the store is misconfigured", broken(store.Misconfigured), []rules.Limit{failing(user, rules.FailOpen)}, 3, alice(), nil, `
			requests error.type=misconfigured policy=Create result=error = 3
			check.duration result=error = 3 times
			store.errors error.type=misconfigured = 3`,
		},
		{
			"a place in flight", working, []rules.Limit{{Kind: rules.Concurrency, Count: 1}, user}, 3, alice(), nil, `
			requests mode=enforce policy=Create/concurrency result=acquired source=store = 2
			requests mode=enforce policy=Create/user result=acquired source=store = 2
			requests mode=enforce policy=Create/user result=rejected source=store = 1
			check.duration result=acquired = 2 times
			check.duration result=rejected = 1 times
			active_request_leases policy=Create/concurrency = 0`,
		},
		{
			"a shadow beside the limit", working, []rules.Limit{ip, shadow(user)}, 5, alice(), nil, `
			requests mode=enforce policy=Create result=acquired source=store = 3
			requests mode=enforce policy=Create result=rejected source=store = 2
			requests mode=shadow policy=Create/user/shadow result=acquired source=store = 2
			requests mode=shadow policy=Create/user/shadow result=rejected source=store = 3
			check.duration result=acquired = 3 times
			check.duration result=rejected = 2 times`,
		},
		{
			"a ban after two denials", working, []rules.Limit{banning(user)}, 5, alice(), nil, `
			requests mode=enforce policy=Create result=acquired source=store = 2
			requests mode=enforce policy=Create result=rejected source=store = 1
			requests banned=true mode=enforce policy=Create result=rejected source=store = 2
			check.duration result=acquired = 2 times
			check.duration result=rejected = 3 times`,
		},
		{
			"a place that nobody keeps", broken(store.Unavailable), []rules.Limit{{Kind: rules.Concurrency, Count: 1, OnFail: rules.FailOpen}}, 1, alice(), nil, `
			requests mode=enforce policy=Create result=acquired source=fallback = 1
			check.duration result=acquired = 1 times
			fallbacks mode=enforce policy=Create source=fallback = 1
			store.errors error.type=unavailable = 1`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := newMeter(t)
			g := test.limiter(ratelimit.WithObserver(m)).Guard(policy(test.limits...))
			for range test.calls {
				call(test.ctx, g, test.in...)
			}
			if diff := cmp.Diff(lines(test.want), m.page(t)); diff != "" {
				t.Errorf("metrics (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSources(t *testing.T) {
	for source, want := range map[ratelimit.Source]string{
		ratelimit.SourceStore: `
			requests mode=enforce policy=Create result=acquired source=store = 1`,
		ratelimit.SourceCache: `
			requests mode=enforce policy=Create result=acquired source=cache = 1`,
		ratelimit.SourceLocal: `
			requests mode=enforce policy=Create result=acquired source=local = 1
			fallbacks mode=enforce policy=Create source=local = 1`,
		ratelimit.SourceOpen: `
			requests mode=enforce policy=Create result=acquired source=fallback = 1
			fallbacks mode=enforce policy=Create source=fallback = 1`,
	} {
		t.Run(source.String(), func(t *testing.T) {
			m := newMeter(t)
			m.Observe(alice(), &ratelimit.Decision{
				Policy: policy(per(rules.User, 1, time.Minute)), Allowed: true, Limits: []ratelimit.LimitDecision{{Source: source, Allowed: true}},
			}, nil)
			if diff := cmp.Diff(lines(want+"\ncheck.duration result=acquired = 1 times"), m.page(t)); diff != "" {
				t.Errorf("metrics (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLeasesAreThoseOfCallsThatRun(t *testing.T) {
	m := newMeter(t)
	limiter, _ := ratelimittest.New(ratelimit.WithObserver(m))
	g := limiter.Guard(policy(rules.Limit{Kind: rules.Concurrency, Count: 2}, rules.Limit{Kind: rules.Lock}))
	_, permit, err := g.Hold(alice())
	if err != nil {
		t.Fatal(err)
	}
	call(alice(), g) // is let in flight, and denied the lock
	wantLeases(t, m, 1)
	permit.Done(nil)
	wantLeases(t, m, 0)
}

func wantLeases(t *testing.T, m meter, n int) {
	t.Helper()
	for _, limit := range []string{"concurrency", "lock"} {
		if want := fmt.Sprintf("active_request_leases policy=Create/%s = %d\n", limit, n); !strings.Contains(m.page(t)+"\n", want) {
			t.Errorf("metrics are\n%s\nwant %s", m.page(t), want)
		}
	}
}

func TestTimeInQueueIsApartFromTheCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMeter(t)
		limiter, err := ratelimit.New(memstore.New(), ratelimit.WithObserver(m))
		if err != nil {
			t.Fatal(err)
		}
		l := per(rules.User, 1, time.Second)
		l.Wait = time.Minute
		g := limiter.Guard(policy(l))
		for range 3 {
			call(alice(), g)
		}
		want := lines(`
			requests mode=enforce policy=Create result=acquired source=store = 3
			check.duration result=acquired = 3 times
			request.time_in_queue result=acquired = 2 times`)
		if diff := cmp.Diff(want, m.page(t)); diff != "" {
			t.Errorf("metrics (-want +got):\n%s", diff)
		}
		for name, want := range map[string]float64{"rate_limiting.request.time_in_queue": 2, "rate_limiting.check.duration": 0} {
			// Time in the bubble passes only while calls wait.
			if got := sum(t, m, name); got != want {
				t.Errorf("%s = %v s, want %v s", name, got, want)
			}
		}
	})
}

func sum(t *testing.T, m meter, name string) float64 {
	for _, s := range m.collect(t).ScopeMetrics[0].Metrics {
		if h, ok := s.Data.(metricdata.Histogram[float64]); ok && s.Name == name {
			return h.DataPoints[0].Sum
		}
	}
	t.Fatalf("no histogram %s", name)
	return 0
}

// A limit that an override has switched off has no part in what becomes of calls: of one that nobody decides, it is not counted either.
func TestLimitsThatAreOff(t *testing.T) {
	user, ip := failing(per(rules.User, 3, time.Minute), rules.FailClosed), failing(per(rules.IP, 3, time.Minute), rules.FailClosed)
	for name, ctx := range map[string]context.Context{"unavailable": alice(), "no_identity": context.Background()} {
		m := newMeter(t)
		limiter := ratelimittest.Failing(store.Unavailable, ratelimit.WithObserver(m))
		g := limiter.Guard(policy(user, ip))
		if err := limiter.Override(t.Context(), []rules.Override{{Name: "Create/ip", Text: "off"}}); err != nil {
			t.Fatal(err)
		}
		call(ctx, g)
		want := fmt.Sprintf("requests error.type=%s policy=Create/user result=error = 1", name)
		if page := m.page(t); !strings.Contains(page, want) || strings.Contains(page, "Create/ip") {
			t.Errorf("metrics are\n%s\nwant %s, and nothing of the limit that is off", page, want)
		}
	}
}

// What the overrides of a limiter come to is counted, whether they are in force or not, and its calls go on by the last that were good.
func TestReloaded(t *testing.T) {
	m := newMeter(t)
	limiter, _ := ratelimittest.New(ratelimit.WithObserver(m))
	g := limiter.Guard(policy(per(rules.User, 3, time.Minute)))
	at := rules.Place{Source: "limits.yaml", Line: 2, Column: 3}
	for text, good := range map[string]bool{"1,1m": true, "0,1m": false} {
		if err := limiter.Override(t.Context(), []rules.Override{{Name: "Create", Text: text, At: at}}); (err == nil) != good {
			t.Errorf("Override with %q = %v", text, err)
		}
	}
	call(alice(), g)
	call(alice(), g)
	want := lines(`
		policy.reloads = 1
		policy.reloads error.type=_OTHER = 1
		requests mode=enforce policy=Create result=acquired source=store = 1
		requests mode=enforce policy=Create result=rejected source=store = 1
		check.duration result=acquired = 1 times
		check.duration result=rejected = 1 times`)
	if diff := cmp.Diff(want, m.page(t)); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}

func TestInstruments(t *testing.T) {
	m := newMeter(t)
	exercise(t, m, "alice", alice())
	got := map[string]string{}
	for _, s := range m.collect(t).ScopeMetrics[0].Metrics {
		got[s.Name] = s.Unit
		if s.Description == "" {
			t.Errorf("%s has no description", s.Name)
		}
	}
	want := map[string]string{
		"rate_limiting.requests":              "{request}",
		"rate_limiting.check.duration":        "s",
		"rate_limiting.request.time_in_queue": "s",
		"rate_limiting.active_request_leases": "{request}",
		"rate_limiting.store.errors":          "{error}",
		"rate_limiting.fallbacks":             "{request}",
		"rate_limiting.policy.reloads":        "{reload}",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("units (-want +got):\n%s", diff)
	}
}

func TestMethodsAreToldApart(t *testing.T) {
	m := newMeter(t)
	limiter, _ := ratelimittest.New(ratelimit.WithObserver(m))
	for _, typ := range []string{"shop.Orders", "shop.Carts"} {
		p := policy(per(rules.User, 2, time.Minute))
		p.Type = typ
		call(alice(), limiter.Guard(p))
	}
	text, err := json.Marshal(m.collect(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"shop.Orders.Create", "shop.Carts.Create"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no series of %s in %s", want, text)
		}
	}
}

// exercise makes calls of every kind, which waits in real time for a millisecond.
func exercise(t *testing.T, m meter, id string, ctx context.Context) {
	t.Helper()
	waits := per(rules.Key, 1, time.Millisecond)
	waits.Wait = time.Minute
	waits.By = "id"
	limits := []rules.Limit{
		{Kind: rules.Concurrency, Count: 1, Per: rules.PerUser}, per(rules.User, 3, time.Minute), per(rules.IP, 100, time.Minute), waits,
	}
	in := make([]ratelimit.Input, len(limits))
	in[3].By(id)
	memory, err := ratelimit.New(memstore.New(), ratelimit.WithObserver(m))
	if err != nil {
		t.Fatal(err)
	}
	rates := memory.Guard(policy(limits[1:]...))
	for range 5 {
		call(ctx, rates, in[1:]...)
	}
	limiter, _ := ratelimittest.New(ratelimit.WithObserver(m))
	for _, l := range []*ratelimit.Limiter{
		limiter,
		ratelimittest.DenyAll(time.Second, ratelimit.WithObserver(m)),
		ratelimittest.Failing(store.Unavailable, ratelimit.WithObserver(m)),
		ratelimittest.Failing(store.Misconfigured, ratelimit.WithObserver(m)),
	} {
		g := l.Guard(policy(limits...))
		for range 5 {
			call(ctx, g, in...)
			call(context.Background(), g, in...)
		}
	}
	m.Reloaded(ctx, fmt.Errorf("limit of %s", id))
}

// hostile are ids that look like something else, too.
var hostile = []string{
	userID, "bob", "42-17-99", "rl:user=mallory", "O'Brien; DROP", "line\nbreak_id", "{tagged}", `quote"d`, strings.Repeat("longid", 40), "ünïcödé-名前",
}

func TestNoIDIsExported(t *testing.T) {
	m := newMeter(t)
	spans := tracetest.NewSpanRecorder()
	provider := trace.NewTracerProvider(trace.WithSpanProcessor(spans))
	for i, id := range hostile {
		ctx, span := provider.Tracer("").Start(context.Background(), "call")
		ctx = ratelimit.WithUser(ratelimit.WithIP(ctx, netip.AddrFrom4([4]byte{203, 0, 113, byte(i + 100)})), id)
		exercise(t, m, id, ctx)
		span.End()
	}
	metrics, err := json.Marshal(m.collect(t))
	if err != nil {
		t.Fatal(err)
	}
	traces, err := json.Marshal(tracetest.SpanStubsFromReadOnlySpans(spans.Ended()))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(traces), "rate_limiting.rejected") || !strings.Contains(string(metrics), "rejected") {
		t.Fatalf("nothing was rejected in %s and %s", metrics, traces)
	}
	for _, exported := range []string{string(metrics), string(traces)} {
		for _, id := range append(hostile, "203.0.113.", "rl:", "longid") {
			quoted, _ := json.Marshal(id)
			if strings.Contains(exported, strings.Trim(string(quoted), `"`)) {
				t.Errorf("%q is in %s", id, exported)
			}
		}
	}
}

func TestADeniedCallIsAnEventOfItsCallersSpan(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	tracer := trace.NewTracerProvider(trace.WithSpanProcessor(spans)).Tracer("")
	observer, err := otellimit.New()
	if err != nil {
		t.Fatal(err)
	}
	limiter, _ := ratelimittest.New(ratelimit.WithObserver(observer))
	g := limiter.Guard(policy(per(rules.User, 1, time.Minute), banning(per(rules.IP, 1, time.Hour)), per(rules.Global, 100, time.Hour)))
	for range 3 {
		ctx, span := tracer.Start(alice(), "call")
		call(ctx, g)
		span.End()
	}
	call(alice(), g) // without a span

	if got := spans.Ended()[0].Events(); len(got) != 0 {
		t.Errorf("an allowed call has the events %v, want none", got)
	}
	denied := spans.Ended()[1]
	if got := denied.Status().Code; got != codes.Unset {
		t.Errorf("status of the span = %v, want none: a rejection is not an error", got)
	}
	if len(denied.Events()) != 1 || denied.Events()[0].Name != "rate_limiting.rejected" {
		t.Fatalf("events = %v, want one rate_limiting.rejected", denied.Events())
	}
	want := map[string]string{
		"rate_limiting.policy": "Create/ip", "rate_limiting.mode": "enforce", "rate_limiting.source": "store",
		"code.function.name": "shop.Orders.Create",
	}
	if diff := cmp.Diff(want, attributes(denied)); diff != "" {
		t.Errorf("attributes (-want +got):\n%s", diff)
	}
	want["rate_limiting.banned"] = "true"
	if diff := cmp.Diff(want, attributes(spans.Ended()[2])); diff != "" {
		t.Errorf("attributes of a ban (-want +got):\n%s", diff)
	}
}

// attributes are those of a span's first event.
func attributes(span trace.ReadOnlySpan) map[string]string {
	got := map[string]string{}
	for _, kv := range span.Events()[0].Attributes {
		got[string(kv.Key)] = kv.Value.String()
	}
	return got
}

func TestNewRefusesANilProvider(t *testing.T) {
	_, err := otellimit.New(otellimit.WithMeterProvider(nil))
	if want := "otellimit: a nil MeterProvider, want one, or no WithMeterProvider"; err == nil || err.Error() != want {
		t.Errorf("New = %v, want %s", err, want)
	}
}

func TestObserveDoesNotAllocate(t *testing.T) {
	m := newMeter(t)
	seen := new(ratelimittest.Recorder)
	limiter, _ := ratelimittest.New(ratelimit.WithObserver(seen))
	g := limiter.Guard(policy(per(rules.User, 1, time.Minute), per(rules.IP, 10, time.Minute)))
	call(alice(), g)
	call(alice(), g)
	for _, d := range seen.Decisions() {
		ctx := alice()
		if n := testing.AllocsPerRun(100, func() { m.Observe(ctx, &d.Decision, d.Err) }); n != 0 {
			t.Errorf("Observe of a call that ended with %v: %v allocations, want 0", d.Err, n)
		}
	}
}
