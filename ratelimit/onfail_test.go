package ratelimit_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/memstore"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// brokenStore fails as why says while it has an error. It is safe for concurrent use.
type brokenStore struct {
	store.Store
	why atomic.Pointer[error]
}

// brokenBy returns a store that fails by err, which may be nil.
func brokenBy(err error) *brokenStore {
	s := &brokenStore{Store: memstore.New()}
	s.fail(err)
	return s
}

func (s *brokenStore) fail(err error) { s.why.Store(&err) }

func (s *brokenStore) err() error {
	if why := s.why.Load(); why != nil {
		return *why
	}
	return nil
}

func (s *brokenStore) Take(ctx context.Context, requests []store.Request, detail bool, out *store.Outcome) error {
	if err := s.err(); err != nil {
		return err
	}
	return s.Store.Take(ctx, requests, detail, out)
}

func failing(class store.Class) *brokenStore {
	return brokenBy(&store.Error{Class: class, Err: errors.New("the store says no")})
}

func TestOnFail(t *testing.T) {
	local := rules.Limit{Kind: rules.User, Rules: per(1, time.Hour)}
	open := rules.Limit{Kind: rules.Global, Rules: per(1, time.Hour), OnFail: rules.FailOpen}
	closed := rules.Limit{Kind: rules.IP, Rules: per(1, time.Hour), OnFail: rules.FailClosed}
	type answers []error
	exceeded, unavailable, misconfigured := ratelimit.ErrExceeded, ratelimit.ErrUnavailable, ratelimit.ErrMisconfigured

	for _, test := range []struct {
		name   string
		limits []rules.Limit
		class  store.Class
		want   answers // of a first and a second call
	}{
		{"local", []rules.Limit{local}, store.Unavailable, answers{nil, exceeded}},
		{"local, answer lost", []rules.Limit{local}, store.Indeterminate, answers{nil, exceeded}},
		{"local, misconfigured", []rules.Limit{local}, store.Misconfigured, answers{misconfigured, misconfigured}},
		{"open", []rules.Limit{open}, store.Unavailable, answers{nil, nil}},
		{"open, misconfigured", []rules.Limit{open}, store.Misconfigured, answers{misconfigured, misconfigured}},
		{"closed", []rules.Limit{closed}, store.Unavailable, answers{unavailable, unavailable}},
		{"closed, answer lost", []rules.Limit{closed}, store.Indeterminate, answers{unavailable, unavailable}},
		{"closed, misconfigured", []rules.Limit{closed}, store.Misconfigured, answers{misconfigured, misconfigured}},
		{"open beside local", []rules.Limit{open, local}, store.Unavailable, answers{nil, exceeded}},
		{"closed beside local and open", []rules.Limit{open, local, closed}, store.Unavailable, answers{unavailable, unavailable}},
	} {
		t.Run(test.name, func(t *testing.T) {
			guard := limiter(t, failing(test.class), ratelimit.WithLogger(slog.New(slog.DiscardHandler))).Guard(create(test.limits...))
			for i, want := range test.want {
				if _, err := guard.Take(alice()); !errors.Is(err, want) {
					t.Errorf("call %d = %v, want %v", i, err, want)
				}
			}
		})
	}
}

// A store's error that is no *store.Error is one that says nothing of what happened: the store is unavailable.
func TestOnFailOfAnUnknownError(t *testing.T) {
	s := brokenBy(errors.New("something else"))
	guard := limiter(t, s, ratelimit.WithLogger(slog.New(slog.DiscardHandler))).Guard(
		create(rules.Limit{Kind: rules.User, Rules: per(1, time.Hour), OnFail: rules.FailClosed}))
	if _, err := guard.Take(alice()); !errors.Is(err, ratelimit.ErrUnavailable) {
		t.Errorf("Take = %v, want ErrUnavailable", err)
	}
}

func TestDegradedDecisionsAreMarked(t *testing.T) {
	s := failing(store.Unavailable)
	guard := limiter(t, s, ratelimit.WithLogger(slog.New(slog.DiscardHandler))).Guard(create(
		rules.Limit{Kind: rules.Global, Rules: per(5, time.Hour), OnFail: rules.FailOpen},
		rules.Limit{Kind: rules.User, Rules: per(5, time.Hour)},
		rules.Limit{Kind: rules.IP, Rules: per(5, time.Hour), OnFail: rules.FailOpen},
	))
	d, _, err := guard.Decide(alice())
	if err != nil {
		t.Fatal(err)
	}
	if !errors.Is(d.Degraded, s.err()) {
		t.Errorf("Degraded = %v, want %v", d.Degraded, s.err())
	}
	want := []ratelimit.Source{ratelimit.SourceOpen, ratelimit.SourceLocal, ratelimit.SourceOpen}
	for i, l := range d.Limits {
		if l.Index != i || l.Source != want[i] {
			t.Errorf("limit %d: index %d, source %v, want index %d, source %v", i, l.Index, l.Source, i, want[i])
		}
	}

	s.fail(nil)
	d, _, err = guard.Decide(alice())
	if err != nil {
		t.Fatal(err)
	}
	if d.Degraded != nil || d.Limits[0].Source != ratelimit.SourceStore {
		t.Errorf("with the store back: Degraded = %v, source %v, want nil, store", d.Degraded, d.Limits[0].Source)
	}
}

// A limit that says closed keeps the call from all limits, those that this process could have decided alone too.
func TestClosedChargesNothing(t *testing.T) {
	alone := memstore.New()
	guard := limiter(t, failing(store.Unavailable), ratelimit.WithLocal(alone), ratelimit.WithLogger(slog.New(slog.DiscardHandler))).Guard(create(
		rules.Limit{Kind: rules.User, Rules: per(5, time.Hour)},
		rules.Limit{Kind: rules.Global, Rules: per(5, time.Hour), OnFail: rules.FailClosed},
	))
	if _, err := guard.Take(alice()); !errors.Is(err, ratelimit.ErrUnavailable) {
		t.Errorf("Take = %v, want ErrUnavailable", err)
	}
	if n := alone.Len(); n != 0 {
		t.Errorf("the local store has %d keys, want 0", n)
	}
}

// hangUp is a store that fails, and whose caller gives up meanwhile.
type hangUp struct {
	store.Store
	cancel func()
}

func (s hangUp) Take(context.Context, []store.Request, bool, *store.Outcome) error {
	s.cancel()
	return &store.Error{Class: store.Unavailable, Err: errors.New("no")}
}

// What a caller who gives up gets is the context's error, whenever that happens, and nothing is decided in its place.
func TestCallerGivesUp(t *testing.T) {
	for _, when := range []string{"while the store is asked", "while this process decides"} {
		t.Run(when, func(t *testing.T) {
			ctx, cancel := context.WithCancel(alice())
			defer cancel()
			alone := memstore.New()
			var s, local store.Store = failing(store.Unavailable), hangUp{cancel: cancel}
			if when == "while the store is asked" {
				s, local = hangUp{cancel: cancel}, alone
			}
			rec := &recorder{}
			guard := limiter(t, s, ratelimit.WithLocal(local), ratelimit.WithObserver(rec), ratelimit.WithLogger(slog.New(slog.DiscardHandler))).Guard(
				create(rules.Limit{Kind: rules.User, Rules: per(5, time.Hour)}))
			_, err := guard.Take(ctx)
			if !errors.Is(err, context.Canceled) || errors.Is(err, ratelimit.ErrUnavailable) {
				t.Errorf("Take = %v, want context.Canceled and not ErrUnavailable", err)
			}
			if rec.decisions[0].Allowed {
				t.Error("the observer saw an allowed call")
			}
			if n := alone.Len(); n != 0 {
				t.Errorf("the local store has %d keys, want 0", n)
			}
		})
	}
}

// A local store that cannot decide either is no reason to let the call pass.
func TestLocalStoreFails(t *testing.T) {
	for class, want := range map[store.Class]error{
		store.Unavailable:   ratelimit.ErrUnavailable,
		store.Misconfigured: ratelimit.ErrMisconfigured,
	} {
		t.Run(class.String(), func(t *testing.T) {
			guard := limiter(t, failing(store.Unavailable), ratelimit.WithLocal(failing(class)), ratelimit.WithLogger(slog.New(slog.DiscardHandler))).Guard(
				create(rules.Limit{Kind: rules.User, Rules: per(5, time.Hour)}))
			d, _, err := guard.Decide(alice())
			if !errors.Is(err, want) || d.Allowed {
				t.Errorf("Decide = allowed %t, %v, want %v", d.Allowed, err, want)
			}
		})
	}
}

// The decision says what the call asked for, not what this process's share made of it.
func TestDegradedDecisionHasTheAskedCost(t *testing.T) {
	guard := limiter(t, failing(store.Unavailable), ratelimit.WithInstances(10), ratelimit.WithLogger(slog.New(slog.DiscardHandler))).Guard(create(
		rules.Limit{Kind: rules.Global, Rules: per(10, time.Hour), OnFail: rules.FailOpen},
		rules.Limit{Kind: rules.User, Rules: per(10, time.Hour)}))
	var in [2]ratelimit.Input
	in[1].Cost(8)
	d, _, err := guard.Decide(alice(), in[:]...)
	if err != nil || d.Limits[1].Cost != 8 {
		t.Errorf("Decide = %+v, %v, want a cost of 8", d.Limits, err)
	}
	if d.Elapsed <= 0 {
		t.Errorf("Elapsed = %v, want the time it took", d.Elapsed)
	}
}

func TestRefusalIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := failing(store.Misconfigured)
		guard := limiter(t, s, ratelimit.WithLogger(slog.New(slog.NewTextHandler(&log, nil)))).Guard(
			create(rules.Limit{Kind: rules.User, Rules: per(1000, time.Hour), OnFail: rules.FailOpen}))
		for range 100 {
			if _, err := guard.Take(alice()); !errors.Is(err, ratelimit.ErrMisconfigured) {
				t.Fatalf("Take = %v, want ErrMisconfigured", err)
			}
		}
		time.Sleep(2 * time.Second) // the bubble's clock
		s.fail(nil)
		for range 100 {
			if _, err := guard.Take(alice()); err != nil {
				t.Fatal(err)
			}
		}
		for _, text := range []string{"level=ERROR", "the store says no", "decides again"} {
			if n := strings.Count(log.String(), text); n != 1 {
				t.Errorf("the log has %q %d times, want once:\n%s", text, n, &log)
			}
		}
	})
}

func TestLocalShare(t *testing.T) {
	for _, test := range []struct {
		name      string
		count     int64
		instances int
		cost      int64
		want      int // calls that pass
	}{
		{"whole", 10, 1, 1, 10},
		{"a third, rounded down", 10, 3, 1, 3},
		{"never less than one", 2, 10, 1, 1},
		{"a cost above the share takes all of it", 10, 3, 5, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			guard := limiter(t, failing(store.Unavailable), ratelimit.WithInstances(test.instances),
				ratelimit.WithLogger(slog.New(slog.DiscardHandler))).Guard(
				create(rules.Limit{Kind: rules.User, Rules: per(test.count, time.Hour)}))
			passed := 0
			for range 20 {
				var in ratelimit.Input
				in.Cost(test.cost)
				if _, err := guard.Take(alice(), in); err == nil {
					passed++
				}
			}
			if passed != test.want {
				t.Errorf("calls that passed = %d, want %d", passed, test.want)
			}
		})
	}
}

func TestGiveBackOfALocalDecision(t *testing.T) {
	s := failing(store.Unavailable)
	guard := limiter(t, s, ratelimit.WithLogger(slog.New(slog.DiscardHandler))).Guard(
		create(rules.Limit{Kind: rules.User, Rules: per(1, time.Hour)}))
	for range 3 {
		permit, err := guard.Take(alice())
		if err != nil {
			t.Fatal(err)
		}
		if err := permit.GiveBack(alice()); err != nil {
			t.Fatal(err)
		}
	}
}

// The log has one line when the store fails and one when it is back, however many calls come and however the store flaps.
func TestOutageIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := failing(store.Unavailable)
		broken := s.err()
		guard := limiter(t, s, ratelimit.WithLogger(slog.New(slog.NewTextHandler(&log, nil)))).Guard(
			create(rules.Limit{Kind: rules.User, Rules: per(10_000, time.Hour)}))
		take := func(n int) {
			for range n {
				if _, err := guard.Take(alice()); err != nil {
					t.Fatal(err)
				}
			}
		}
		expect := func(when, text string, want int) {
			if got := strings.Count(log.String(), text); got != want {
				t.Errorf("%s: %d lines with %q, want %d:\n%s", when, got, text, want, &log)
			}
		}
		take(100)
		for range 10 { // it flaps
			s.fail(nil)
			take(1)
			s.fail(broken)
			take(1)
		}
		expect("while it fails", "cannot decide", 1)
		expect("while it fails", "decides again", 0)
		s.fail(nil)
		time.Sleep(2 * time.Second) // the bubble's clock
		take(100)
		expect("when it is back", "cannot decide", 1)
		expect("when it is back", "decides again", 1)
		s.fail(broken)
		take(100)
		expect("when it fails again", "cannot decide", 2)
	})
}

func TestErrorTexts(t *testing.T) {
	clock := newClock()
	s := &brokenStore{Store: memstore.New(memstore.WithClock(clock.Now))}
	guard := limiter(t, s, ratelimit.WithLogger(slog.New(slog.DiscardHandler))).Guard(create(
		rules.Limit{Kind: rules.User, Rules: per(1, time.Minute), OnFail: rules.FailClosed}))
	var five ratelimit.Input
	five.Cost(5)
	for _, test := range []struct {
		name  string
		ctx   context.Context
		in    []ratelimit.Input
		err   error
		want  string
		code  int
		retry string
	}{
		{"exceeded", alice(), nil, nil,
			`shop.Orders Create: rate limit exceeded: limit "Create" allows 1,1m, retry after 1m0s`, 429, "60"},
		{"no identity", context.Background(), nil, nil,
			`shop.Orders Create: no identity to limit by: limit "Create"`, 401, ""},
		{"cost", alice(), []ratelimit.Input{five}, nil,
			`shop.Orders Create: cost cannot be met: limit "Create": cost 5, want 0 to 1`, 422, ""},
		{"unavailable", alice(), nil, &store.Error{Class: store.Unavailable, Err: errors.New("dial: refused")},
			`shop.Orders Create: rate limit store unavailable: limit "Create": unavailable: dial: refused`, 503, ""},
		{"misconfigured", alice(), nil, &store.Error{Class: store.Misconfigured, Err: errors.New("NOPERM")},
			"shop.Orders Create: rate limiting is misconfigured: misconfigured: NOPERM", 500, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			s.fail(nil)
			if _, err := guard.Take(alice()); err != nil && !errors.Is(err, ratelimit.ErrExceeded) {
				t.Fatal(err)
			}
			s.fail(test.err)
			_, err := guard.Take(test.ctx, test.in...)
			if err == nil || err.Error() != test.want {
				t.Errorf("error:\n got %v\nwant %s", err, test.want)
			}
			var coded interface{ StatusCode() int }
			if !errors.As(err, &coded) || coded.StatusCode() != test.code {
				t.Errorf("status of %v, want %d", err, test.code)
			}
			var exceeded *ratelimit.ExceededError
			if errors.As(err, &exceeded) && exceeded.Headers().Get("Retry-After") != test.retry {
				t.Errorf("Retry-After = %q, want %q", exceeded.Headers().Get("Retry-After"), test.retry)
			}
		})
	}
}

func TestRetrySeconds(t *testing.T) {
	for _, test := range []struct {
		wait time.Duration
		want int64
	}{
		{0, 1},
		{time.Microsecond, 1},
		{time.Second, 1},
		{time.Second + 1, 2},
		{time.Minute - time.Microsecond, 60},
		{store.Never, 9223372037},
	} {
		if got := ratelimit.RetrySeconds(test.wait); got != test.want {
			t.Errorf("RetrySeconds(%v) = %d, want %d", test.wait, got, test.want)
		}
	}
}
