package ratelimit_test

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/memstore"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// clock is a time that stands still until the test moves it.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// recorder is an observer that remembers.
type recorder struct {
	decisions []ratelimit.Decision
	errs      []error
}

func (r *recorder) Observe(_ context.Context, d *ratelimit.Decision, err error) {
	r.decisions = append(r.decisions, *d)
	r.errs = append(r.errs, err)
}

func create(limits ...rules.Limit) *rules.Policy {
	return &rules.Policy{Package: "example.com/shop", Type: "shop.Orders", Method: "Create", Limits: limits}
}

func per(count int64, window time.Duration) []rules.Rule {
	return []rules.Rule{{Count: count, Window: window}}
}

func limiter(t *testing.T, s store.Store, opts ...ratelimit.Option) *ratelimit.Limiter {
	t.Helper()
	l, err := ratelimit.New(s, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func alice() context.Context {
	ctx := ratelimit.WithUser(context.Background(), "alice")
	return ratelimit.WithIP(ctx, netip.MustParseAddr("203.0.113.7"))
}

func TestDeniedCallChargesNoLimit(t *testing.T) {
	clock := newClock()
	guard := limiter(t, memstore.New(memstore.WithClock(clock.Now))).Guard(create(
		rules.Limit{Kind: rules.User, Rules: per(2, time.Second)},
		rules.Limit{Kind: rules.IP, Rules: per(10, time.Minute)},
		rules.Limit{Kind: rules.Global, Rules: per(100, time.Minute)},
	))
	want := [][]int64{{1, 9, 99}, {0, 8, 98}, {0, 8, 98}, {0, 8, 98}}
	for i, want := range want {
		d, _, err := guard.Decide(alice())
		if err != nil {
			t.Fatal(err)
		}
		if d.Allowed != (i < 2) {
			t.Errorf("call %d: allowed = %t, want %t", i, d.Allowed, i < 2)
		}
		var got []int64
		for _, l := range d.Limits {
			got = append(got, l.Rules[0].Remaining)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("call %d: remaining of user, ip, global (-want +got):\n%s", i, diff)
		}
	}
}

func TestSeveralDenialsReportTheLongestWait(t *testing.T) {
	clock := newClock()
	guard := limiter(t, memstore.New(memstore.WithClock(clock.Now))).Guard(create(
		rules.Limit{Kind: rules.User, Rules: []rules.Rule{{Count: 1, Window: time.Second}, {Count: 2, Window: time.Hour}}},
		rules.Limit{Kind: rules.IP, Rules: per(1, time.Minute)},
	))
	if _, err := guard.Take(alice()); err != nil {
		t.Fatal(err)
	}
	clock.Advance(250 * time.Millisecond)
	_, err := guard.Take(alice())
	var exceeded *ratelimit.ExceededError
	if !errors.As(err, &exceeded) {
		t.Fatalf("Take = %v, want an *ExceededError", err)
	}
	if got, want := exceeded.RetryAfter, 59750*time.Millisecond; got != want {
		t.Errorf("RetryAfter = %v, want %v", got, want)
	}
	if got, want := exceeded.Limit, "Create/ip"; got != want {
		t.Errorf("Limit = %q, want %q", got, want)
	}
	if !errors.Is(err, ratelimit.ErrExceeded) {
		t.Error("errors.Is(err, ErrExceeded) = false, want true")
	}
}

func TestKeys(t *testing.T) {
	type ids struct{ ip, user, key string }
	for _, test := range []struct {
		name  string
		limit rules.Limit
		ids   ids
		want  string
	}{
		{"user", rules.Limit{Kind: rules.User}, ids{user: "42"}, "rl:user=42:shop.Orders-Create"},
		{"user that looks like an address", rules.Limit{Kind: rules.User}, ids{user: "10.0.0.1"}, "rl:user=10.0.0.1:shop.Orders-Create"},
		{"user called global", rules.Limit{Kind: rules.User}, ids{user: "global"}, "rl:user=global:shop.Orders-Create"},
		{"user that injects", rules.Limit{Kind: rules.User}, ids{user: "a:b{c}\x00\r\n"}, "rl:user=a%3Ab%7Bc%7D%00%0D%0A:shop.Orders-Create"},
		{"user of invalid UTF-8", rules.Limit{Kind: rules.User}, ids{user: "\xff"}, "rl:user=%FF:shop.Orders-Create"},
		{"user with blanks", rules.Limit{Kind: rules.User}, ids{user: " a "}, "rl:user=%20a%20:shop.Orders-Create"},
		{"user that looks like a hash", rules.Limit{Kind: rules.User}, ids{user: "~00"}, "rl:user=%7E00:shop.Orders-Create"},
		{"email", rules.Limit{Kind: rules.User}, ids{user: "a@b.example"}, "rl:user=a@b.example:shop.Orders-Create"},
		{"v4", rules.Limit{Kind: rules.IP}, ids{ip: "203.0.113.7"}, "rl:ip=203.0.113.7:shop.Orders-Create"},
		{"v4 in v6", rules.Limit{Kind: rules.IP}, ids{ip: "::ffff:203.0.113.7"}, "rl:ip=203.0.113.7:shop.Orders-Create"},
		{"v4 behind NAT64", rules.Limit{Kind: rules.IP}, ids{ip: "64:ff9b::203.0.113.7"}, "rl:ip=203.0.113.7:shop.Orders-Create"},
		{"v6 beside NAT64", rules.Limit{Kind: rules.IP}, ids{ip: "64:ff9b::1:203.0.113.7"}, "rl:ip=64%3Aff9b%3A%3A:shop.Orders-Create"},
		{"v6 by its /64", rules.Limit{Kind: rules.IP}, ids{ip: "2001:db8:1:2:3:4:5:6"}, "rl:ip=2001%3Adb8%3A1%3A2%3A%3A:shop.Orders-Create"},
		{"v6 with bit 65 set", rules.Limit{Kind: rules.IP}, ids{ip: "2001:db8:1:2:8000::"}, "rl:ip=2001%3Adb8%3A1%3A2%3A%3A:shop.Orders-Create"},
		{"v6 with bit 64 set", rules.Limit{Kind: rules.IP}, ids{ip: "2001:db8:1:3::"}, "rl:ip=2001%3Adb8%3A1%3A3%3A%3A:shop.Orders-Create"},
		{"v6 in brackets by an expression", rules.Limit{Kind: rules.IP, By: "addr"}, ids{key: "[2001:db8::1]"}, "rl:ip=2001%3Adb8%3A%3A:shop.Orders-Create"},
		{"v6 with a zone", rules.Limit{Kind: rules.IP}, ids{ip: "fe80::1%eth0:{x}"}, "rl:ip=fe80%3A%3A:shop.Orders-Create"},
		{"global", rules.Limit{Kind: rules.Global}, ids{}, "rl:global:shop.Orders-Create"},
		{"key", rules.Limit{Kind: rules.Key, By: "id"}, ids{key: "A-1"}, "rl:key=A-1:shop.Orders-Create"},
		{"ip by an expression", rules.Limit{Kind: rules.IP, By: "addr"}, ids{key: "[2001:db8::1]:443"}, "rl:ip=2001%3Adb8%3A%3A:shop.Orders-Create"},
		{"prefix", rules.Limit{Kind: rules.Global, Prefix: "eu"}, ids{}, "eu:global:shop.Orders-Create"},
		{"bucket", rules.Limit{Kind: rules.User, Bucket: "writes"}, ids{user: "42"}, "rl:user=42:writes"},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.limit.Rules = per(10, time.Second)
			guard := limiter(t, memstore.New()).Guard(create(test.limit))
			ctx := ratelimit.WithUser(context.Background(), test.ids.user)
			if test.ids.ip != "" {
				ctx = ratelimit.WithIP(ctx, netip.MustParseAddr(test.ids.ip))
			}
			var in [1]ratelimit.Input
			if test.limit.By != "" {
				in[0].By(test.ids.key)
			}
			d, _, err := guard.Decide(ctx, in[:]...)
			if err != nil {
				t.Fatal(err)
			}
			if got := d.Limits[0].Key; got != test.want {
				t.Errorf("key = %q, want %q", got, test.want)
			}
		})
	}
}

func TestInputs(t *testing.T) {
	policy := create(
		rules.Limit{Kind: rules.User, Rules: per(10, time.Minute)},
		rules.Limit{Kind: rules.Key, By: "order", Cost: "n", When: "ok", Rules: per(10, time.Minute)},
	)
	for _, test := range []struct {
		name string
		ctx  context.Context
		in   func(in []ratelimit.Input)
		want []int64 // remaining of the limits that applied
		err  error
	}{
		{"defaults", alice(), func(in []ratelimit.Input) { in[1].By("A") }, []int64{9, 9}, nil},
		{"cost", alice(), func(in []ratelimit.Input) { in[1].By("A"); in[1].Cost(4) }, []int64{9, 6}, nil},
		{"cost of the whole count", alice(), func(in []ratelimit.Input) { in[1].By("A"); in[1].Cost(10) }, []int64{9, 0}, nil},
		{"cost 0 counts as 1", alice(), func(in []ratelimit.Input) { in[1].By("A"); in[1].Cost(0) }, []int64{9, 9}, nil},
		{"negative cost counts as 1", alice(), func(in []ratelimit.Input) { in[1].By("A"); in[1].Cost(-1) }, []int64{9, 9}, nil},
		{"cost beyond the count", alice(), func(in []ratelimit.Input) { in[1].By("A"); in[1].Cost(11) }, nil, ratelimit.ErrCost},
		{"does not apply", alice(), func(in []ratelimit.Input) { in[1].When(false) }, []int64{9}, nil},
		{"applies", alice(), func(in []ratelimit.Input) { in[1].When(true); in[1].By("A") }, []int64{9, 9}, nil},
		{"by overrides the context", alice(), func(in []ratelimit.Input) { in[0].By("bob"); in[1].By("A") }, []int64{9, 9}, nil},
		{"empty id", alice(), func(in []ratelimit.Input) { in[1].By("") }, nil, ratelimit.ErrNoIdentity},
		{"no user", context.Background(), func(in []ratelimit.Input) { in[1].By("A") }, nil, ratelimit.ErrNoIdentity},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := memstore.New()
			guard := limiter(t, s).Guard(policy)
			in := make([]ratelimit.Input, 2)
			test.in(in)
			d, _, err := guard.Decide(test.ctx, in...)
			if !errors.Is(err, test.err) {
				t.Fatalf("error = %v, want %v", err, test.err)
			}
			var got []int64
			for _, l := range d.Limits {
				got = append(got, l.Rules[0].Remaining)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("remaining (-want +got):\n%s", diff)
			}
			if err != nil && s.Len() != 0 {
				t.Errorf("a call that failed left %d keys, want 0", s.Len())
			}
		})
	}
}

// TestFree tests what costs below 1 are where the limit allows free calls, and where it has no
// Cost.
func TestFree(t *testing.T) {
	for name, l := range map[string]rules.Limit{
		"free=allow": {Kind: rules.Global, Cost: "n", Free: rules.FreeAllow, Rules: per(10, time.Minute)},
		"by hand":    {Kind: rules.Global, Rules: per(10, time.Minute)},
	} {
		t.Run(name, func(t *testing.T) {
			guard := limiter(t, memstore.New()).Guard(create(l))
			cost := func(n int64) (remaining int64, err error) {
				var in ratelimit.Input
				in.Cost(n)
				d, _, err := guard.Decide(t.Context(), in)
				if err != nil {
					return 0, err
				}
				return d.Limits[0].Rules[0].Remaining, nil
			}
			if n, err := cost(0); n != 10 || err != nil {
				t.Errorf("a cost of 0 leaves %d, %v; want 10 and no error", n, err)
			}
			if _, err := cost(-1); !errors.Is(err, ratelimit.ErrCost) {
				t.Errorf("a cost of -1: %v, want %v", err, ratelimit.ErrCost)
			}
		})
	}
}

func TestMissingAllowLeavesTheLimitOut(t *testing.T) {
	rec := &recorder{}
	guard := limiter(t, memstore.New(), ratelimit.WithObserver(rec)).Guard(create(
		rules.Limit{Kind: rules.User, Rules: per(1, time.Minute), Missing: rules.MissingAllow},
	))
	for range 3 {
		if _, err := guard.Take(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	if got := len(rec.decisions[2].Limits); got != 0 {
		t.Errorf("limits that applied = %d, want 0", got)
	}
}

func TestInputsThatDoNotFitThePolicyAreAnError(t *testing.T) {
	guard := limiter(t, memstore.New()).Guard(create(rules.Limit{Kind: rules.User, Rules: per(1, time.Minute)}))
	if _, err := guard.Take(alice(), ratelimit.Input{}, ratelimit.Input{}); !errors.Is(err, ratelimit.ErrMisconfigured) {
		t.Errorf("Take with two inputs for one limit = %v, want ErrMisconfigured", err)
	}
	guard = limiter(t, memstore.New()).Guard(create(rules.Limit{Kind: rules.Key, By: "id", Missing: rules.MissingAllow, Rules: per(1, time.Minute)}))
	if _, err := guard.Take(alice()); !errors.Is(err, ratelimit.ErrMisconfigured) {
		t.Errorf("Take without the input of a limit with by = %v, want ErrMisconfigured", err)
	}
}

func TestDoneContextAsksNobody(t *testing.T) {
	cause := errors.New("the client hung up")
	ctx, cancel := context.WithCancelCause(alice())
	cancel(cause)
	s := memstore.New()
	guard := limiter(t, s).Guard(create(rules.Limit{Kind: rules.User, Rules: per(1, time.Minute)}))
	_, err := guard.Take(ctx)
	if want := "shop.Orders Create: context canceled: the client hung up"; err == nil || err.Error() != want {
		t.Errorf("Take = %v, want %s", err, want)
	}
	if !errors.Is(err, context.Canceled) || !errors.Is(err, cause) {
		t.Errorf("Take = %v, want context.Canceled and its cause", err)
	}
	if s.Len() != 0 {
		t.Errorf("the store has %d keys, want 0", s.Len())
	}
}

func TestGiveBack(t *testing.T) {
	guard := limiter(t, memstore.New()).Guard(create(rules.Limit{Kind: rules.User, Rules: per(1, time.Hour)}))
	first, err := guard.Take(alice())
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // giving back twice is giving back once
		if err := first.GiveBack(alice()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := guard.Take(alice()); err != nil {
		t.Errorf("Take after the give-back = %v, want nil", err)
	}
	denied, err := guard.Take(alice())
	if !errors.Is(err, ratelimit.ErrExceeded) {
		t.Fatalf("Take = %v, want ErrExceeded", err)
	}
	if err := denied.GiveBack(alice()); err != nil {
		t.Fatal(err)
	}
	if _, err := guard.Take(alice()); !errors.Is(err, ratelimit.ErrExceeded) {
		t.Errorf("Take after giving back a denied call = %v, want ErrExceeded", err)
	}
}

func TestObserverSeesWhatTheCallerGets(t *testing.T) {
	rec := &recorder{}
	guard := limiter(t, memstore.New(), ratelimit.WithObserver(rec)).Guard(create(rules.Limit{Kind: rules.User, Rules: per(1, time.Hour)}))
	calls := []context.Context{alice(), alice(), context.Background()}
	var errs []error
	for _, ctx := range calls {
		_, err := guard.Take(ctx)
		errs = append(errs, err)
	}
	want := []error{nil, ratelimit.ErrExceeded, ratelimit.ErrNoIdentity}
	if diff := cmp.Diff(want, errs, cmpopts.EquateErrors()); diff != "" {
		t.Errorf("caller's errors (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, rec.errs, cmpopts.EquateErrors()); diff != "" {
		t.Errorf("observer's errors (-want +got):\n%s", diff)
	}
	if d := rec.decisions[1]; d.Allowed || d.RetryAfter <= 0 || d.Limits[0].Rules[0].Allowed {
		t.Errorf("the observer's second decision = %+v, want a denial with its wait", d)
	}
}

func TestGuardPanicsOnWiringMistakes(t *testing.T) {
	l := limiter(t, memstore.New())
	l.Guard(create(rules.Limit{Kind: rules.User, Bucket: "writes", Rules: per(1, time.Second)}))
	l.Guard(&rules.Policy{Package: "example.com/shop", Type: "shop.Orders", Method: "List", Limits: []rules.Limit{{Kind: rules.IP, Rules: per(1, time.Second)}}})
	for _, test := range []struct {
		name    string
		limiter *ratelimit.Limiter
		policy  *rules.Policy
		want    string
	}{
		{"nil limiter", nil, create(rules.Limit{Kind: rules.User, Rules: per(1, time.Second)}),
			"ratelimit: shop.Orders Create is given a nil *Limiter: make one with ratelimit.New"},
		{"two types of one name", l,
			&rules.Policy{Package: "example.com/other/shop", Type: "shop.Orders", Method: "Get", Limits: []rules.Limit{{Kind: rules.User, Rules: per(1, time.Second)}}},
			"ratelimit: two types are called shop.Orders, in example.com/shop and in example.com/other/shop, and would share their counts: rename one of them or its package"},
		{"a bucket under two rules", l,
			&rules.Policy{Package: "example.com/shop", Type: "shop.Orders", Method: "Get", Limits: []rules.Limit{{Kind: rules.User, Bucket: "writes", Rules: per(2, time.Second)}}},
			"ratelimit: shop.Orders Get has the rules [2,1s] under the key rl:user=<id>:writes, where another limit has [1,1s]: give both the same rules, or other buckets"},
		{"a bucket that is another method's own", l,
			&rules.Policy{Package: "example.com/shop", Type: "shop.Users", Method: "Get", Limits: []rules.Limit{{Kind: rules.IP, Bucket: "shop.Orders-List", Rules: per(5, time.Second)}}},
			"ratelimit: shop.Users Get has the rules [5,1s] under the key rl:ip=<addr>:shop.Orders-List, where another limit has [1,1s]: give both the same rules, or other buckets"},
		{"no policy", l, nil, "ratelimit: a nil *rules.Policy, want the one of a method"},
	} {
		t.Run(test.name, func(t *testing.T) {
			defer func() {
				if got := recover(); got != test.want {
					t.Errorf("panic:\n got %v\nwant %v", got, test.want)
				}
			}()
			test.limiter.Guard(test.policy)
		})
	}
}

func TestNewRefuses(t *testing.T) {
	for _, test := range []struct {
		name  string
		store store.Store
		opts  []ratelimit.Option
		want  string
	}{
		{"no store", nil, nil, "ratelimit: no store: want one of redisstore.New, memstore.New or your own"},
		{"a nil *Store", (*memstore.Store)(nil), nil, "ratelimit: no store: want one of redisstore.New, memstore.New or your own"},
		{"nil local store", memstore.New(), []ratelimit.Option{ratelimit.WithLocal(nil)},
			"ratelimit: a nil local store, want one, or no WithLocal for one in memory"},
		{"no instances", memstore.New(), []ratelimit.Option{ratelimit.WithInstances(0)}, "ratelimit: 0 instances, want 1 or more"},
		{"no logger", memstore.New(), []ratelimit.Option{ratelimit.WithLogger(nil)},
			"ratelimit: no logger: want WithLogger with one, or no WithLogger for slog.Default"},
		{"nil observer", memstore.New(), []ratelimit.Option{ratelimit.WithObserver(nil)}, "ratelimit: a nil Observer, want one, or no WithObserver"},
		{"short secret", memstore.New(), []ratelimit.Option{ratelimit.WithHashIDs([]byte("short"))}, "ratelimit: a secret of 5 bytes, want 16 or more"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if _, err := ratelimit.New(test.store, test.opts...); err == nil || err.Error() != test.want {
				t.Errorf("New = %v, want %s", err, test.want)
			}
		})
	}
}
