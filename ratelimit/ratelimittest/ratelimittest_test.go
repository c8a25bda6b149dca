package ratelimittest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/memstore"
	"github.com/rlgen/rlgen/ratelimit/ratelimittest"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// policy has a limit of each kind, two rules each.
func policy(onFail rules.OnFail) *rules.Policy {
	p := &rules.Policy{Package: "example.com/shop", Type: "shop.Cart", Method: "Add"}
	for _, kind := range []rules.Kind{rules.User, rules.Global} {
		p.Limits = append(p.Limits, rules.Limit{Kind: kind, OnFail: onFail, Rules: []rules.Rule{
			{Count: 1, Window: time.Second},
			{Count: 5, Window: time.Minute},
		}})
	}
	return p
}

func alice() context.Context { return ratelimit.WithUser(context.Background(), "alice") }

func TestAllowAllAnswersEveryRule(t *testing.T) {
	guard := ratelimittest.AllowAll().Guard(policy(rules.FailLocal))
	for range 3 {
		d, permit, err := guard.Decide(alice())
		if err != nil || !d.Allowed || d.RetryAfter != 0 {
			t.Fatalf("Decide = %+v, %v, want allowed", d, err)
		}
		for _, l := range d.Limits {
			for _, r := range l.Rules {
				if !r.Allowed || r.Remaining != r.Rule.Count {
					t.Errorf("rule %v: allowed %t, remaining %d, want true, %d", r.Rule, r.Allowed, r.Remaining, r.Rule.Count)
				}
			}
		}
		if err := permit.GiveBack(context.Background()); err != nil {
			t.Errorf("GiveBack = %v, want nil", err)
		}
	}
}

func TestDenyAllAnswersEveryRule(t *testing.T) {
	guard := ratelimittest.DenyAll(time.Minute).Guard(policy(rules.FailLocal))
	d, _, err := guard.Decide(alice())
	if err != nil || d.Allowed || d.RetryAfter != time.Minute {
		t.Fatalf("Decide = %+v, %v, want denied for 1m", d, err)
	}
	for _, l := range d.Limits {
		for _, r := range l.Rules {
			if l.Allowed || r.Allowed || r.Remaining != 0 || r.RetryAfter != time.Minute {
				t.Errorf("rule %v = %+v, want denied for 1m", r.Rule, r)
			}
		}
	}
}

func TestAnswersHaveTheGuardsOwnErrors(t *testing.T) {
	done, cancel := context.WithCancel(alice())
	cancel()
	free := new(ratelimit.Input)
	free.Cost(2)
	for name, limiter := range map[string]*ratelimit.Limiter{
		"AllowAll": ratelimittest.AllowAll(),
		"DenyAll":  ratelimittest.DenyAll(time.Second),
		"Failing":  ratelimittest.Failing(store.Unavailable),
	} {
		t.Run(name, func(t *testing.T) {
			guard := limiter.Guard(policy(rules.FailOpen))
			if _, err := guard.Take(context.Background()); !errors.Is(err, ratelimit.ErrNoIdentity) {
				t.Errorf("Take without a user = %v, want ErrNoIdentity", err)
			}
			if _, err := guard.Take(alice(), *free, *free); !errors.Is(err, ratelimit.ErrCost) {
				t.Errorf("Take of cost 2 = %v, want ErrCost", err)
			}
			if _, err := guard.Take(done); !errors.Is(err, context.Canceled) {
				t.Errorf("Take of a done context = %v, want context.Canceled", err)
			}
		})
	}
}

func TestFailing(t *testing.T) {
	for _, tt := range []struct {
		class  store.Class
		onFail rules.OnFail
		want   error
	}{
		{store.Unavailable, rules.FailClosed, ratelimit.ErrUnavailable},
		{store.Unavailable, rules.FailOpen, nil},
		{store.Unavailable, rules.FailLocal, nil},
		{store.Indeterminate, rules.FailClosed, ratelimit.ErrUnavailable},
		{store.Misconfigured, rules.FailClosed, ratelimit.ErrMisconfigured},
		{store.Misconfigured, rules.FailOpen, ratelimit.ErrMisconfigured},
		{store.Misconfigured, rules.FailLocal, ratelimit.ErrMisconfigured},
	} {
		t.Run(fmt.Sprint(tt.class, " ", tt.onFail), func(t *testing.T) {
			_, err := ratelimittest.Failing(tt.class).Guard(policy(tt.onFail)).Take(alice())
			if !errors.Is(err, tt.want) {
				t.Errorf("Take = %v, want %v", err, tt.want)
			}
		})
	}
}

func TestFailingTakesLocalStoreAndLogger(t *testing.T) {
	var clock ratelimittest.Clock
	var log bytes.Buffer
	guard := ratelimittest.Failing(store.Unavailable,
		ratelimit.WithLocal(memstore.New(memstore.WithClock(clock.Now))),
		ratelimit.WithLogger(slog.New(slog.NewTextHandler(&log, nil))),
	).Guard(policy(rules.FailLocal))
	take := func() error {
		_, err := guard.Take(alice())
		return err
	}
	if err := take(); err != nil {
		t.Fatalf("Take = %v, want nil", err)
	}
	if err := take(); !errors.Is(err, ratelimit.ErrExceeded) {
		t.Errorf("second Take = %v, want ErrExceeded", err)
	}
	clock.Advance(time.Second)
	if err := take(); err != nil {
		t.Errorf("Take a second later = %v, want nil", err)
	}
	if log.Len() == 0 {
		t.Error("nothing is logged, want the given logger used")
	}
}

func TestClock(t *testing.T) {
	var clock ratelimittest.Clock
	if got, want := clock.Now(), ratelimittest.Start(); !got.Equal(want) {
		t.Errorf("Now = %v, want %v", got, want)
	}
	clock.Advance(time.Hour)
	clock.Advance(-time.Minute)
	if got, want := clock.Now(), ratelimittest.Start().Add(59*time.Minute); !got.Equal(want) {
		t.Errorf("Now = %v, want %v", got, want)
	}
	want := time.Date(2031, 7, 8, 9, 10, 11, 12, time.FixedZone("", 3600))
	clock.Set(want)
	if got := clock.Now(); !got.Equal(want) {
		t.Errorf("Now = %v, want %v", got, want)
	}
}

func TestRecorder(t *testing.T) {
	var rec ratelimittest.Recorder
	limiter, _ := ratelimittest.New(ratelimit.WithObserver(&rec))
	guard := limiter.Guard(policy(rules.FailLocal))

	guard.Take(alice())
	guard.Take(alice())
	guard.Take(context.Background())
	got := rec.Decisions()
	if len(got) != 3 || rec.Allowed() != 1 || rec.Denied() != 1 {
		t.Fatalf("%d decisions, %d allowed, %d denied, want 3, 1, 1", len(got), rec.Allowed(), rec.Denied())
	}
	for i, want := range []error{nil, ratelimit.ErrExceeded, ratelimit.ErrNoIdentity} {
		if !errors.Is(got[i].Err, want) || got[i].Allowed != (want == nil) {
			t.Errorf("decision %d = %t, %v, want %v", i, got[i].Allowed, got[i].Err, want)
		}
	}
	got[0].Err = ratelimit.ErrCost
	if rec.Decisions()[0].Err != nil {
		t.Error("a change of the returned slice is seen by the recorder, want a copy")
	}
	rec.Reset()
	if n := len(rec.Decisions()); n != 0 {
		t.Errorf("%d decisions after Reset, want 0", n)
	}
}

func TestRecorderIsSafeForConcurrentUse(t *testing.T) {
	var rec ratelimittest.Recorder
	limiter, clock := ratelimittest.New(ratelimit.WithObserver(&rec))
	guard := limiter.Guard(policy(rules.FailLocal))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				guard.Take(alice())
				clock.Advance(time.Microsecond)
				rec.Decisions()
			}
		})
	}
	wg.Wait()
	if rec.Allowed() != 1 || rec.Denied() != 399 {
		t.Errorf("%d allowed, %d denied, want 1, 399", rec.Allowed(), rec.Denied())
	}
}

func TestPanics(t *testing.T) {
	for _, tt := range []struct {
		name string
		f    func()
		want string
	}{
		{"DenyAll(0)", func() { ratelimittest.DenyAll(0) }, "ratelimittest: DenyAll(0s), want a retry-after of more than 0"},
		{"option", func() { ratelimittest.New(ratelimit.WithInstances(0)) }, "ratelimittest: ratelimit: 0 instances, want 1 or more"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			defer func() {
				if got := recover(); got != tt.want {
					t.Errorf("panic %q, want %q", got, tt.want)
				}
			}()
			tt.f()
		})
	}
}
