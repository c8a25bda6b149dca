package memstore_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/rlgen/rlgen/ratelimit/memstore"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// Ids that come once and never again must not stay: what the store holds is bounded by the ids within the window, and not by
// all that it has ever seen.
func TestExpiredKeysAreDropped(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s := memstore.New(memstore.WithClock(func() time.Time { return now }))
	rs := []rules.Rule{{Count: 1, Window: time.Second}}
	const perSecond = 1000
	take := func(id string) {
		out, err := store.Take(context.Background(), s, []store.Request{{Key: id, Rules: rs, Cost: 1}}, false)
		if err != nil || !out.Allowed {
			t.Fatalf("Take of a new id = %+v, %v, want it allowed", out, err)
		}
	}
	for i := range 50 * perSecond {
		take(fmt.Sprint("at once ", i))
	}
	for i := range 100 * perSecond {
		now = now.Add(time.Second / perSecond)
		take(fmt.Sprint(i))
	}
	if n := s.Len(); n > 3*perSecond {
		t.Fatalf("after %d ids the store holds %d, want about the last second's %d", 150*perSecond, n, perSecond)
	}
}

// They go where only ids call that the store knows, too, whatever these ask for.
func TestExpiredKeysAreDroppedByOthers(t *testing.T) {
	const gone, known = 2000, 1200 // of which every part of the store has some
	rs := []rules.Rule{{Count: 10_000, Window: 10 * time.Hour}}
	for _, test := range []struct {
		name     string
		requests []store.Request // of each known id
	}{
		{"a bucket", []store.Request{{Key: "a", Algorithm: rules.GCRA, Rules: rs, Cost: 1}}},
		{"a window", []store.Request{{Key: "a", Algorithm: rules.FixedWindow, Rules: rs, Cost: 1}}},
		{"several", []store.Request{{Key: "a", Algorithm: rules.GCRA, Rules: rs, Cost: 1}, {Key: "b", Algorithm: rules.GCRA, Rules: rs, Cost: 1}}},
		{"a window that is over when the id comes again", []store.Request{{Key: "a", Algorithm: rules.FixedWindow, Rules: []rules.Rule{{Count: 1, Window: time.Millisecond}}, Cost: 1}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
			s := memstore.New(memstore.WithClock(func() time.Time { return now }))
			take := func(requests []store.Request) {
				if out, err := store.Take(context.Background(), s, requests, false); err != nil || !out.Allowed {
					t.Fatalf("Take = %+v, %v, want it allowed", out, err)
				}
			}
			for i := range gone {
				take([]store.Request{{Key: fmt.Sprint("gone ", i), Algorithm: rules.GCRA, Rules: []rules.Rule{{Count: 1, Window: time.Second}}, Cost: 1}})
			}
			for range 400 {
				now = now.Add(10 * time.Millisecond)
				for i := range known {
					requests := slices.Clone(test.requests)
					for j := range requests {
						requests[j].Key += fmt.Sprint("known ", i)
					}
					take(requests)
				}
			}
			if n, want := s.Len(), known*len(test.requests); n > want {
				t.Errorf("the store holds %d keys, want the %d that call", n, want)
			}
		})
	}
}

// An attack by ever new ids with a long window makes the store forget, not grow.
func TestMaxKeys(t *testing.T) {
	s := memstore.New(memstore.WithMaxKeys(6400))
	rs := []rules.Rule{{Count: 1, Window: time.Hour}}
	for i := range 100_000 {
		out, err := store.Take(context.Background(), s, []store.Request{{Key: fmt.Sprint(i), Rules: rs, Cost: 1}}, false)
		if err != nil || !out.Allowed {
			t.Fatalf("Take of a new id = %+v, %v, want it allowed", out, err)
		}
	}
	if n := s.Len(); n != 6400 {
		t.Errorf("after 100,000 ids the store holds %d, want 6400", n)
	}
}

// What is not valid is refused of a key that the store knows as of any other, by the same error.
func TestTakeRefusesRequestsOfKnownKeys(t *testing.T) {
	valid := store.Request{Key: "k", Algorithm: rules.GCRA, Rules: []rules.Rule{{Count: 10, Window: time.Second}}, Cost: 1}
	huge := []rules.Rule{{Count: 1_000_000, Window: 24 * time.Hour}} // of which no more than a burst of a few is exact
	for _, test := range []struct {
		name   string
		change func(*store.Request)
	}{
		{"negative cost", func(r *store.Request) { r.Cost = -1 }},
		{"no rule", func(r *store.Request) { r.Rules = nil }},
		{"no count", func(r *store.Request) { r.Rules = []rules.Rule{{Window: time.Second}} }},
		{"no window", func(r *store.Request) { r.Rules = []rules.Rule{{Count: 10}} }},
		{"parts of a microsecond", func(r *store.Request) { r.Rules = []rules.Rule{{Count: 10, Window: time.Second + 1}} }},
		{"another rule that is not valid", func(r *store.Request) { r.Rules = append(r.Rules[:1:1], rules.Rule{}) }},
		{"negative burst", func(r *store.Request) { r.Burst = -1 }},
		{"segments", func(r *store.Request) { r.Segments = -1 }},
		{"start", func(r *store.Request) { r.Start = 200 }},
		{"refill", func(r *store.Request) { r.Refill = 200 }},
		{"too far ahead", func(r *store.Request) { r.Ahead = time.Hour }},
		{"ban that never is", func(r *store.Request) { r.After = 1 }},
		{"ban that ends at once", func(r *store.Request) { r.Ban = time.Second }},
		{"unknown algorithm", func(r *store.Request) { r.Algorithm = 200 }},
		{"too much but for a burst", func(r *store.Request) { r.Burst, r.Rules = 0, huge }},
	} {
		t.Run(test.name, func(t *testing.T) {
			req := valid
			test.change(&req)
			_, want := store.Take(context.Background(), memstore.New(), []store.Request{req}, false)
			if want == nil {
				t.Fatal("the request is valid")
			}
			for _, before := range []store.Request{valid, {Key: "k", Algorithm: rules.GCRA, Rules: huge, Burst: 1, Cost: 1}} {
				s := memstore.New()
				for range 2 {
					if out, err := store.Take(context.Background(), s, []store.Request{before}, false); err != nil || !out.Allowed {
						t.Fatalf("Take = %+v, %v, want it allowed", out, err)
					}
					if _, err := store.Take(context.Background(), s, []store.Request{req}, false); err == nil || err.Error() != want.Error() {
						t.Errorf("Take = %v, want %v", err, want)
					}
					if err := s.Reset(context.Background(), []store.Request{before}); err != nil {
						t.Fatal(err)
					}
					if _, err := store.Take(context.Background(), s, []store.Request{req}, false); err == nil || err.Error() != want.Error() {
						t.Errorf("after a reset Take = %v, want %v", err, want)
					}
				}
			}
		})
	}
}

func TestTakeRefusesRequestsThatNoLimitMakes(t *testing.T) {
	rs := []rules.Rule{{Count: 1, Window: time.Second}}
	for _, test := range []struct {
		name string
		req  store.Request
		want string
	}{
		{"negative cost", store.Request{Key: "k", Rules: rs, Cost: -1}, `misconfigured: limit 1 of the call: cost -1, want 0 or more`},
		{"no rule", store.Request{Key: "k", Cost: 1}, `misconfigured: limit 1 of the call has no rule, want one or more`},
		{"unknown algorithm", store.Request{Key: "k", Rules: rs, Cost: 1, Algorithm: 200}, `misconfigured: limit 1 of the call: algorithm Algorithm(200), want one that the store has`},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := store.Take(context.Background(), memstore.New(), []store.Request{test.req}, false)
			if err == nil || err.Error() != test.want {
				t.Errorf("Take = %v, want %s", err, test.want)
			}
		})
	}
}

// TestFloodEndsNoBan tests that denials of many other ids end no ban.
func TestFloodEndsNoBan(t *testing.T) {
	s := memstore.New(memstore.WithMaxKeys(640))
	deny := func(id string, times int64) (banned bool) {
		req := store.Request{Key: "rl:user=" + id + ":a", Rules: []rules.Rule{{Count: 1, Window: time.Hour}}, Cost: 1, Ban: time.Hour, After: 5}
		for range times + 1 {
			out, err := store.Take(t.Context(), s, []store.Request{req}, false)
			if err != nil {
				t.Fatal(err)
			}
			banned = out.Rules[0].Banned > 0
		}
		return banned
	}
	for i := range 100 {
		if !deny(fmt.Sprint("banned", i), 5) {
			t.Fatalf("id %d is not banned after five denials", i)
		}
	}
	for i := range 20_000 {
		deny(fmt.Sprint("other", i), 1)
	}
	for i := range 100 {
		req := store.Request{Key: "rl:user=" + fmt.Sprint("banned", i) + ":a", Rules: []rules.Rule{{Count: 1, Window: time.Hour}}, Cost: 1, Ban: time.Hour, After: 5}
		if out, err := store.Take(t.Context(), s, []store.Request{req}, false); err != nil || out.Allowed || out.Rules[0].Banned == 0 {
			t.Fatalf("banned id %d: %+v, %v; want it banned still", i, out, err)
		}
	}
}
