package httplimit_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dunglas/httpsfv"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/httplimit"
	"github.com/rlgen/rlgen/ratelimit/memstore"
	"github.com/rlgen/rlgen/ratelimit/ratelimittest"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

func policy(typ, method string, limits ...rules.Limit) *rules.Policy {
	return &rules.Policy{Package: "example.com/shop", Type: typ, Method: method, Limits: limits}
}

func user(all ...rules.Rule) rules.Limit { return rules.Limit{Kind: rules.User, Rules: all} }

func per(count int64, window time.Duration) rules.Rule {
	return rules.Rule{Count: count, Window: window}
}

// site is a handler that calls methods, and answers with the error of the first that is denied, else with 200.
type site struct {
	http.Handler
	calls []func(ctx context.Context) error
}

// newSite returns a site, as a program would put it together, that Alice calls.
func newSite(opts ...httplimit.HeadersOption) *site {
	s := new(site)
	identify := httplimit.Identify(httplimit.WithUserFunc(func(*http.Request) string { return userID }))
	s.Handler = identify(httplimit.Headers(opts...)(http.HandlerFunc(s.serve)))
	return s
}

func (s *site) serve(w http.ResponseWriter, r *http.Request) {
	for _, call := range s.calls {
		if err := call(r.Context()); httplimit.WriteError(w, r, err) {
			return
		}
	}
	fmt.Fprint(w, "ok")
}

// call adds calls of a method, each of in.
func (s *site) call(l *ratelimit.Limiter, p *rules.Policy, in ...ratelimit.Input) {
	guard := l.Guard(p)
	s.calls = append(s.calls, func(ctx context.Context) error {
		_, permit, err := guard.Hold(ctx, in...)
		defer permit.Done(nil)
		return err
	})
}

// get returns what the site answers.
func (s *site) get() *http.Response {
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	return w.Result()
}

// list is a field as a client reads it: a List of Strings with parameters, and nothing but what the writer of one would write.
func list(t *testing.T, header http.Header, name string) httpsfv.List {
	t.Helper()
	lines := header.Values(name)
	if len(lines) == 0 {
		return nil
	}
	parsed, err := httpsfv.UnmarshalList(lines)
	if err != nil {
		t.Fatalf("%s: %q is no List: %v", name, lines, err)
	}
	canonical, err := httpsfv.Marshal(parsed)
	if err != nil || canonical != strings.Join(lines, ", ") {
		t.Errorf("%s: %q, want it as it is serialised: %q, %v", name, lines, canonical, err)
	}
	seen := make(map[string]bool)
	for _, member := range parsed {
		name, ok := member.(httpsfv.Item).Value.(string)
		if !ok || seen[name] {
			t.Errorf("%s has an item %v, want Strings that differ", name, member)
		}
		seen[name] = true
	}
	return parsed
}

// number returns a parameter of the item of a name, -1 if it has none.
func number(fields httpsfv.List, name, parameter string) int64 {
	for _, member := range fields {
		item := member.(httpsfv.Item)
		if item.Value == name {
			if n, ok := item.Params.Get(parameter); ok {
				return n.(int64)
			}
		}
	}
	return -1
}

func TestHeaders(t *testing.T) {
	const minute, hour = time.Minute, time.Hour
	input := func(set func(*ratelimit.Input)) ratelimit.Input {
		var in ratelimit.Input
		set(&in)
		return in
	}
	id := func(id string) ratelimit.Input { return input(func(in *ratelimit.Input) { in.By(id) }) }
	type call struct {
		policy *rules.Policy
		in     []ratelimit.Input
	}
	one := func(limits ...rules.Limit) []call {
		return []call{{policy: policy("shop.Orders", "Create", limits...)}}
	}
	byItem := policy("shop.Orders", "Create", rules.Limit{Kind: rules.Key, By: "item", Rules: []rules.Rule{per(5, minute)}})
	twenty := func() (calls []call) {
		for i := range 20 {
			calls = append(calls, call{policy: policy("shop.Orders", fmt.Sprint("M", i), user(per(int64(100-i), hour)))})
		}
		return calls
	}
	for _, test := range []struct {
		name          string
		calls         []call
		times         int
		status        int
		policy, limit string
	}{
		{"one rule", one(user(per(3, 10*time.Second))), 1, 200, `"Create";q=3;w=10`, `"Create";r=2;t=10`},
		{"the last that passes", one(user(per(3, 10*time.Second))), 3, 200, `"Create";q=3;w=10`, `"Create";r=0;t=10`},
		{"denied", one(user(per(3, 10*time.Second))), 4, 429, `"Create";q=3;w=10`, `"Create";r=0;t=10`},
		{"rules are told apart by their windows", one(user(per(1, 10*time.Second), per(100, hour))), 1, 200,
			`"Create 10s";q=1;w=10, "Create 1h";q=100;w=3600`, `"Create 10s";r=0;t=10, "Create 1h";r=99;t=3600`},
		{"denied, a rule that has room says no time", one(user(per(1, 10*time.Second), per(100, hour))), 2, 429,
			`"Create 10s";q=1;w=10, "Create 1h";q=100;w=3600`, `"Create 10s";r=0;t=10, "Create 1h";r=99`},
		{"limits are told apart by their kinds", one(user(per(3, minute)), rules.Limit{Kind: rules.Global, Rules: []rules.Rule{per(9, minute)}}), 1, 200,
			`"Create/user";q=3;w=60, "Create/global";q=9;w=60`, `"Create/user";r=2;t=60, "Create/global";r=8;t=60`},
		{"a window of less than a second", one(user(per(3, 100*time.Millisecond))), 1, 200, `"Create";q=3`, `"Create";r=2;t=1`},
		{"a window of a second and a half", one(user(per(3, 1500*time.Millisecond))), 1, 200, `"Create";q=3;w=2`, `"Create";r=2;t=2`},
		{"a bucket's depth", one(rules.Limit{Kind: rules.User, Algorithm: rules.TokenBucket, Burst: 30, Rules: []rules.Rule{per(10, time.Second)}}), 1, 200,
			`"Create";q=30;w=3`, `"Create";r=29;t=1`},
		{"a shallow bucket", one(rules.Limit{Kind: rules.User, Algorithm: rules.GCRA, Burst: 1, Rules: []rules.Rule{per(10, time.Second)}}), 2, 429,
			`"Create";q=1`, `"Create";r=0;t=1`},
		{"cost", []call{{policy("shop.Orders", "Create", rules.Limit{Kind: rules.User, Cost: "n", Rules: []rules.Rule{per(5, minute)}}),
			[]ratelimit.Input{input(func(in *ratelimit.Input) { in.Cost(3) })}}}, 2, 429, `"Create";q=5;w=60`, `"Create";r=2;t=60`},
		{"a name with blanks, quotes and what is not ASCII", []call{{policy: policy("shop.Orders", "a \"b\\ 100%\nü", user(per(3, minute)))}}, 1, 200,
			`"a \"b\\ 100%25%0A%C3%BC";q=3;w=60`, `"a \"b\\ 100%25%0A%C3%BC";r=2;t=60`},
		{"the largest count", one(rules.Limit{Kind: rules.User, Algorithm: rules.FixedWindow, Rules: []rules.Rule{per(1e9, 366*24*hour)}}), 1, 200,
			`"Create";q=1000000000;w=31622400`, `"Create";r=999999999;t=3628800`},
		{"two methods", []call{{policy: policy("shop.Orders", "Create", user(per(3, minute)))}, {policy: policy("shop.Orders", "Cancel", user(per(5, hour)))}}, 1, 200,
			`"Create";q=3;w=60, "Cancel";q=5;w=3600`, `"Create";r=2;t=60, "Cancel";r=4;t=3600`},
		{"two types' methods of one name", []call{{policy: policy("shop.Orders", "Create", user(per(3, minute)))}, {policy: policy("shop.Carts", "Create", user(per(5, hour)))}}, 1, 200,
			`"Create";q=3;w=60, "shop.Carts Create";q=5;w=3600`, `"Create";r=2;t=60, "shop.Carts Create";r=4;t=3600`},
		{"a method that is denied after one that passed", []call{{policy: policy("shop.Orders", "Create", user(per(3, minute)))}, {policy: policy("shop.Orders", "Cancel", user(per(1, hour)))}}, 2, 429,
			`"Create";q=3;w=60, "Cancel";q=1;w=3600`, `"Create";r=1;t=60, "Cancel";r=0;t=3600`},
		{"a method called twice", append(one(user(per(5, minute))), one(user(per(5, minute)))...), 1, 200, `"Create";q=5;w=60`, `"Create";r=3;t=60`},
		{"several ids: the one that has least", []call{{byItem, []ratelimit.Input{id("a")}}, {byItem, []ratelimit.Input{id("a")}}, {byItem, []ratelimit.Input{id("b")}}}, 1, 200,
			`"Create";q=5;w=60`, `"Create";r=3;t=60`},
		{"more than sixteen: those that have least", twenty(), 1, 200,
			twentyItems(func(i int) string { return fmt.Sprintf(";q=%d;w=3600", 100-i) }),
			twentyItems(func(i int) string { return fmt.Sprintf(";r=%d;t=3600", 99-i) })},
		{"a concurrency", one(rules.Limit{Kind: rules.Concurrency, Count: 7}, user(per(3, minute))), 1, 200,
			`"Create/concurrency";q=7;qu="concurrent-requests", "Create/user";q=3;w=60`, `"Create/user";r=2;t=60`},
		{"a lock says nothing", one(rules.Limit{Kind: rules.Lock}), 1, 200, "", ""},
		{"a limit that does not apply", []call{{policy("shop.Orders", "Create", rules.Limit{Kind: rules.User, When: "ok", Rules: []rules.Rule{per(3, minute)}}),
			[]ratelimit.Input{input(func(in *ratelimit.Input) { in.When(false) })}}}, 1, 200, "", ""},
		{"a cost that can never be met", []call{{policy("shop.Orders", "Create", rules.Limit{Kind: rules.User, Cost: "n", Rules: []rules.Rule{per(3, minute)}}),
			[]ratelimit.Input{input(func(in *ratelimit.Input) { in.Cost(4) })}}}, 1, 422, "", ""},
		{"no identity", one(rules.Limit{Kind: rules.Key, By: "id", Rules: []rules.Rule{per(3, minute)}}), 1, 401, "", ""},
		{"no method", nil, 1, 200, "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			limiter, _ := ratelimittest.New()
			s := newSite()
			for _, c := range test.calls {
				if len(c.in) == 0 && len(c.policy.Limits) > 0 && c.policy.Limits[0].By != "" {
					c.in = make([]ratelimit.Input, 1)
				}
				s.call(limiter, c.policy, c.in...)
			}
			var answer *http.Response
			for range test.times {
				answer = s.get()
			}
			if answer.StatusCode != test.status {
				t.Errorf("status = %d, want %d", answer.StatusCode, test.status)
			}
			list(t, answer.Header, "RateLimit-Policy")
			list(t, answer.Header, "RateLimit")
			if got := answer.Header.Get("RateLimit-Policy"); got != test.policy {
				t.Errorf("RateLimit-Policy:\n got %s\nwant %s", got, test.policy)
			}
			if got := answer.Header.Get("RateLimit"); got != test.limit {
				t.Errorf("RateLimit:\n got %s\nwant %s", got, test.limit)
			}
			for name, values := range answer.Header {
				if strings.HasPrefix(name, "X-Ratelimit") || strings.Contains(strings.Join(values, " "), "alice") {
					t.Errorf("%s: %q, want no id, and no such field unless it is asked for", name, values)
				}
			}
		})
	}
}

// twentyItems are those of M4 to M19, which have least.
func twentyItems(parameters func(i int) string) string {
	var items []string
	for i := 4; i < 20; i++ {
		items = append(items, fmt.Sprintf(`"M%d"%s`, i, parameters(i)))
	}
	return strings.Join(items, ", ")
}

// Where all limits of a program are shadows (ratelimit.WithMode), who is over them gets the answers of a program without limits.
func TestHeadersWhereAllAreShadows(t *testing.T) {
	limiter, _ := ratelimittest.New(ratelimit.WithMode(rules.Shadow))
	limited, free := newSite(httplimit.WithXRateLimit()), newSite(httplimit.WithXRateLimit())
	limited.call(limiter, policy("shop.Orders", "Create", user(per(1, time.Hour)), rules.Limit{Kind: rules.Concurrency, Count: 1}))
	for n := range 3 {
		got, want := limited.get(), free.get()
		if got.StatusCode != 200 || !cmp.Equal(got.Header, want.Header) {
			t.Errorf("answer %d is %d with %v, want 200 with %v", n+1, got.StatusCode, got.Header, want.Header)
		}
	}
}

// Where a limit in flight denies, the answer says so, and for how long.
func TestHeadersOfAConcurrencyThatIsFull(t *testing.T) {
	limiter, _ := ratelimittest.New()
	p := policy("shop.Orders", "Create", rules.Limit{Kind: rules.Concurrency, Count: 1})
	_, permit, err := limiter.Guard(p).Hold(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer permit.Done(nil)
	s := newSite(httplimit.WithXRateLimit())
	s.call(limiter, p)
	answer := s.get()
	if got, want := answer.Header.Get("RateLimit"), `"Create";r=0;t=1`; got != want || answer.StatusCode != 429 {
		t.Errorf("%d with RateLimit %s, want 429 with %s", answer.StatusCode, got, want)
	}
	if got, want := answer.Header.Get("RateLimit-Policy"), `"Create";q=1;qu="concurrent-requests"`; got != want {
		t.Errorf("RateLimit-Policy = %s, want %s", got, want)
	}
}

// Nothing tells a client of a shadow, whether it would deny the call or not.
func TestHeadersOfAShadow(t *testing.T) {
	limiter, _ := ratelimittest.New()
	shadow := user(per(1, time.Hour))
	shadow.Mode = rules.Shadow
	s := newSite(httplimit.WithXRateLimit())
	s.call(limiter, policy("shop.Orders", "Create", user(per(3, time.Minute)), shadow))
	s.get()
	answer := s.get()
	if got, want := answer.Header.Get("RateLimit"), `"Create";r=1;t=60`; got != want || answer.StatusCode != 200 {
		t.Errorf("%d with RateLimit %s, want 200 with %s", answer.StatusCode, got, want)
	}
	if got, want := answer.Header.Get("RateLimit-Policy"), `"Create";q=3;w=60`; got != want {
		t.Errorf("RateLimit-Policy = %s, want %s", got, want)
	}
}

// What this process decides alone is told of, under the policy that is the fleet's; what nobody decides is not, and what is not
// decided is a 503 without quotas.
func TestHeadersWithoutAStore(t *testing.T) {
	for _, test := range []struct {
		onFail        rules.OnFail
		status        int
		policy, limit string
	}{
		{rules.FailLocal, 200, `"Create";q=8;w=60`, `"Create";r=1;t=60`},
		{rules.FailOpen, 200, "", ""},
		{rules.FailClosed, 503, "", ""},
	} {
		t.Run(test.onFail.String(), func(t *testing.T) {
			clock := new(ratelimittest.Clock)
			local := ratelimit.WithLocal(memstore.New(memstore.WithClock(clock.Now)))
			limiter := ratelimittest.Failing(store.Unavailable, local, ratelimit.WithInstances(4))
			s := newSite()
			s.call(limiter, policy("shop.Orders", "Create", rules.Limit{Kind: rules.User, OnFail: test.onFail, Rules: []rules.Rule{per(8, time.Minute)}}))
			answer := s.get()
			if answer.StatusCode != test.status || answer.Header.Get("RateLimit-Policy") != test.policy || answer.Header.Get("RateLimit") != test.limit {
				t.Errorf("%d %v, want %d with RateLimit-Policy %s and RateLimit %s", answer.StatusCode, answer.Header, test.status, test.policy, test.limit)
			}
			if answer.Header.Get("Retry-After") != "" {
				t.Errorf("Retry-After = %q, want none: nobody knows when the store is back", answer.Header.Get("Retry-After"))
			}
		})
	}
}

// Who has a contract of its own is told of that one, whoever decides, be it that it has more rules than the policy.
func TestHeadersOfAContractWithoutAStore(t *testing.T) {
	clock := new(ratelimittest.Clock)
	local := ratelimit.WithLocal(memstore.New(memstore.WithClock(clock.Now)))
	contract := ratelimit.WithRules(func(context.Context, *rules.Policy, int) ([]rules.Rule, error) {
		return []rules.Rule{per(4, time.Minute), per(12, time.Hour)}, nil
	})
	s := newSite()
	s.call(ratelimittest.Failing(store.Unavailable, local, contract, ratelimit.WithInstances(2)), policy("shop.Orders", "Create", user(per(8, time.Minute))))
	answer := s.get()
	if got, want := answer.Header.Get("RateLimit-Policy"), `"Create 1m";q=4;w=60, "Create 1h";q=12;w=3600`; got != want || answer.StatusCode != 200 {
		t.Errorf("%d with RateLimit-Policy %s, want 200 with %s", answer.StatusCode, got, want)
	}
	if got, want := answer.Header.Get("RateLimit"), `"Create 1m";r=1;t=60, "Create 1h";r=5;t=3600`; got != want {
		t.Errorf("RateLimit = %s, want %s", got, want)
	}
}

// An answer of 401, 403 or 503 tells nobody of quotas, whoever gives it.
func TestStatusesWithoutQuotas(t *testing.T) {
	limiter := ratelimittest.AllowAll()
	guard := limiter.Guard(policy("shop.Orders", "Create", user(per(3, time.Minute))))
	for status, want := range map[int]bool{200: true, 204: true, 302: true, 304: true, 404: true, 429: true, 500: true, 401: false, 403: false, 503: false} {
		h := httplimit.Headers(httplimit.WithXRateLimit())(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if _, err := guard.Take(ratelimit.WithUser(r.Context(), userID)); err != nil {
				t.Error(err)
			}
			w.WriteHeader(status)
		}))
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		for _, name := range []string{"RateLimit", "RateLimit-Policy", "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"} {
			if got := w.Result().Header.Get(name); (got != "") != want {
				t.Errorf("%d with %s %q, want one: %t", status, name, got, want)
			}
		}
	}
}

// Whoever is denied and waits for Retry-After passes, and nobody is made to wait for a second more than that takes. No t of the
// answer is later than Retry-After, and waiting for the t of all passes, too.
func TestWaitingForRetryAfter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := rules.Limit{
			Kind: rules.User, Cost: "n",
			Algorithm: rapid.SampledFrom([]rules.Algorithm{
				rules.SlidingLog, rules.CompactLog, rules.SlidingWindow, rules.FixedWindow, rules.TokenBucket, rules.LeakyBucket, rules.GCRA,
			}).Draw(t, "algorithm"),
			Rules: []rules.Rule{per(rapid.Int64Range(1, 5).Draw(t, "count"), rapid.SampledFrom([]time.Duration{
				300 * time.Millisecond, time.Second, 1500 * time.Millisecond, 7 * time.Second, time.Minute,
			}).Draw(t, "window"))},
		}
		if rapid.Bool().Draw(t, "long") {
			l.Rules = append(l.Rules, per(l.Rules[0].Count+rapid.Int64Range(1, 5).Draw(t, "more"), time.Hour))
		}
		p := policy("shop.Orders", "Create", l)
		if p.Validate() != nil {
			t.Skip("a rule that cannot bind")
		}
		limiter, clock := ratelimittest.New()
		guard := limiter.Guard(p)
		var cost ratelimit.Input
		s := newSite()
		s.calls = append(s.calls, func(ctx context.Context) error {
			_, err := guard.Take(ctx, cost)
			return err
		})
		for range 30 {
			cost.Cost(rapid.Int64Range(1, l.Rules[0].Count).Draw(t, "cost"))
			clock.Advance(time.Duration(rapid.Int64Range(0, 2_000_000).Draw(t, "pause")) * time.Microsecond)
			answer := s.get()
			if answer.StatusCode == http.StatusOK {
				continue
			}
			wait, err := strconv.ParseInt(answer.Header.Get("Retry-After"), 10, 64)
			if err != nil || wait < 1 {
				t.Fatalf("Retry-After = %q, want a whole number of 1 or more", answer.Header.Get("Retry-After"))
			}
			parsed, err := httpsfv.UnmarshalList(answer.Header.Values("RateLimit"))
			if err != nil {
				t.Fatal(err)
			}
			latest := int64(-1)
			for _, member := range parsed {
				latest = max(latest, number(parsed, member.(httpsfv.Item).Value.(string), "t"))
			}
			if latest != wait {
				t.Fatalf("Retry-After is %d and the latest t is %d in %q, want the same", wait, latest, answer.Header.Values("RateLimit"))
			}
			clock.Advance(time.Duration(wait) * time.Second)
			if answer := s.get(); answer.StatusCode != http.StatusOK {
				t.Fatalf("after a wait of %d s: %d, Retry-After %s, want 200", wait, answer.StatusCode, answer.Header.Get("Retry-After"))
			}
		}
	})
}

// The problem names the rules that deny as the fields do, and no others; without the middleware it names the limit.
func TestViolatedPolicies(t *testing.T) {
	limiter, _ := ratelimittest.New()
	s := newSite()
	s.call(limiter, policy("shop.Carts", "Create", user(per(9, time.Hour))))
	s.call(limiter, policy("shop.Orders", "Create", user(per(1, time.Second), per(2, time.Minute), per(9, time.Hour))))
	s.get()
	answer := s.get()
	var p httplimit.Problem
	if err := json.NewDecoder(answer.Body).Decode(&p); err != nil {
		t.Fatal(err)
	}
	want := []string{"Create 1s"}
	if diff := cmp.Diff(want, p.ViolatedPolicies); diff != "" {
		t.Errorf("violated-policies (-want +got):\n%s", diff)
	}
	for _, name := range p.ViolatedPolicies {
		if number(list(t, answer.Header, "RateLimit"), name, "r") != 0 || number(list(t, answer.Header, "RateLimit-Policy"), name, "q") != 1 {
			t.Errorf("the fields %v do not have %q with nothing left", answer.Header, name)
		}
	}
}

// Names that differ have Strings that differ, and a client reads the String that was meant.
func TestNamesAreStrings(t *testing.T) {
	text := func(name string) string {
		s := newSite()
		s.call(ratelimittest.AllowAll(), policy("shop.Orders", name, user(per(1, time.Second))))
		parsed, err := httpsfv.UnmarshalList(s.get().Header.Values("RateLimit"))
		if err != nil || len(parsed) != 1 {
			return fmt.Sprintf("%v, %v", parsed, err)
		}
		return parsed[0].(httpsfv.Item).Value.(string)
	}
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.OneOf(rapid.StringN(1, 20, 60), rapid.StringMatching(`[%"\\ 0-9A-Fü]{1,8}`)).Filter(func(name string) bool {
			return !strings.Contains(name, "@") // which no method has
		})
		a, b := names.Draw(t, "a"), names.Draw(t, "b")
		if (text(a) == text(b)) != (a == b) {
			t.Fatalf("%q and %q are called %q and %q", a, b, text(a), text(b))
		}
		if plain := !strings.ContainsFunc(a, func(r rune) bool { return r < ' ' || r > '~' || r == '%' }); plain && text(a) != a {
			t.Fatalf("%q is called %q, want it as it is", a, text(a))
		}
	})
}

func TestXRateLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter, err := ratelimit.New(memstore.New())
		if err != nil {
			t.Fatal(err)
		}
		s := newSite(httplimit.WithXRateLimit())
		s.call(limiter, policy("shop.Orders", "Create", user(per(2, 10*time.Second), per(3, time.Hour))))
		time.Sleep(300 * time.Millisecond) // the time in seconds is rounded up
		began := time.Now().Unix()
		for i, want := range []map[string]string{
			{"Limit": "2", "Remaining": "1", "Reset": fmt.Sprint(began + 11)},
			{"Limit": "2", "Remaining": "0", "Reset": fmt.Sprint(began + 11)},
			{"Limit": "2", "Remaining": "0", "Reset": fmt.Sprint(began + 11)},
		} {
			header := s.get().Header
			got := make(map[string]string)
			for name := range maps.Keys(want) {
				got[name] = header.Get("X-RateLimit-" + name)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("call %d (-want +got):\n%s", i+1, diff)
			}
		}
		time.Sleep(time.Until(time.Unix(began+11, 0)))
		if answer := s.get(); answer.StatusCode != 200 || answer.Header.Get("X-RateLimit-Limit") != "3" {
			t.Errorf("after the reset: %d, X-RateLimit-Limit %s, want 200 and the rule of which least remains", answer.StatusCode, answer.Header.Get("X-RateLimit-Limit"))
		}
	})
}

// Fields that a handler passes on from a service behind it stay, and a second Headers adds none.
func TestHeadersOfOthersStay(t *testing.T) {
	guard := ratelimittest.AllowAll().Guard(policy("shop.Orders", "Create", user(per(3, time.Minute))))
	h := httplimit.Headers()(httplimit.Headers()(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Add("RateLimit-Policy", `"theirs";q=1`)
		w.Header().Add("RateLimit", `"theirs";r=0`)
		if _, err := guard.Take(ratelimit.WithUser(r.Context(), userID)); err != nil {
			t.Error(err)
		}
	})))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	got := list(t, w.Result().Header, "RateLimit")
	if number(got, "theirs", "r") != 0 || number(got, "Create", "r") != 3 || len(got) != 2 {
		t.Errorf("RateLimit = %q, want theirs and ours", w.Result().Header.Values("RateLimit"))
	}
}
