package memstore_test

import (
	"context"
	"slices"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rlgen/rlgen/ratelimit/memstore"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// A call of one request is decided, charged and given back as one is that wants detail, which is decided as those of several requests are.
func TestOneRequestIsDecidedAsSeveralAre(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(1e9, 0)
		clock := memstore.WithClock(func() time.Time { return now })
		alone, among := memstore.New(clock), memstore.New(clock)
		var receipts [2][]store.Receipt
		var next time.Duration                 // until the last call's rule has room, or all of its count, again
		plain := rapid.Bool().Draw(t, "plain") // whose buckets have never had what few have
		algorithms := []rules.Algorithm{rules.SlidingLog, rules.SlidingWindow, rules.FixedWindow, rules.TokenBucket, rules.GCRA}
		algorithm := rapid.SampledFrom(algorithms).Draw(t, "algorithm")
		ids := map[uint64]bool{}
		for range rapid.IntRange(1, 60).Draw(t, "calls") {
			switch rapid.IntRange(0, 4).Draw(t, "later") {
			case 0:
				now = now.Add(time.Duration(rapid.IntRange(0, 400).Draw(t, "ms")) * time.Millisecond)
			case 1:
				now = now.Add(next) // to the microsecond
			}
			req := store.Request{
				Key:       "rl:user=" + strconv.Itoa(rapid.IntRange(0, 1).Draw(t, "id")) + ":orders.Orders-Create",
				Algorithm: algorithm,
				Rules: rapid.SampledFrom([][]rules.Rule{
					{{Count: 3, Window: time.Second}},
					{{Count: 2, Window: time.Second}}, // to which what the other leaves over means nothing
				}).Draw(t, "rules"),
				Cost:    rapid.SampledFrom([]int64{0, 1, 1, 1, 2, 3, 4}).Draw(t, "cost"),
				Returns: rapid.IntRange(0, 3).Draw(t, "returns") == 0,
			}
			if rapid.IntRange(0, 9).Draw(t, "other algorithm") == 0 { // whose counts are others, though the key is the same
				req.Algorithm = rapid.SampledFrom(algorithms).Draw(t, "another")
			}
			if !plain && rapid.IntRange(0, 3).Draw(t, "several rules") == 0 {
				req.Rules = []rules.Rule{{Count: 3, Window: time.Second}, {Count: 5, Window: 4 * time.Second}}
			}
			if bucket := req.Algorithm == rules.TokenBucket || req.Algorithm == rules.GCRA; bucket && !plain && rapid.IntRange(0, 3).Draw(t, "burst or ahead") == 0 {
				req.Burst = rapid.Int64Range(0, 6).Draw(t, "burst")
				req.Ahead = time.Duration(rapid.IntRange(0, 1).Draw(t, "ahead")) * 100 * time.Millisecond
			}
			outs := [2]store.Outcome{former(), former()}
			for i, s := range []*memstore.Store{alone, among} {
				if err := s.Take(context.Background(), []store.Request{req}, i == 1, &outs[i]); err != nil {
					t.Fatal(err)
				}
			}
			same(t, &outs[0], &outs[1])
			if id := outs[0].Receipt.ID; id != 0 && ids[id] {
				t.Fatalf("two admissions have the name %d", id)
			}
			ids[outs[0].Receipt.ID] = true
			if next = outs[1].Rules[0].RetryAfter; next == 0 || next == store.Never {
				next = outs[1].Rules[0].ResetAfter
			}
			if outs[0].Allowed && rapid.IntRange(0, 3).Draw(t, "returned") == 0 {
				receipts[0], receipts[1] = append(receipts[0], outs[0].Receipt), append(receipts[1], outs[1].Receipt)
			}
			if n := len(receipts[0]); n > 0 && rapid.Bool().Draw(t, "give back") {
				alone.GiveBack(context.Background(), receipts[0][n-1])
				among.GiveBack(context.Background(), receipts[1][n-1])
				receipts[0], receipts[1] = receipts[0][:n-1], receipts[1][:n-1]
			}
			for i, s := range []*memstore.Store{alone, among} {
				if err := s.Peek(context.Background(), []store.Request{req}, &outs[i]); err != nil {
					t.Fatal(err)
				}
			}
			if !slices.Equal(outs[0].Rules, outs[1].Rules) {
				t.Fatalf("afterwards Peek = %+v, where detail was wanted %+v", outs[0].Rules, outs[1].Rules)
			}
		}
	})
}

// A bucket whose tokens come back within parts of a microsecond has its whole count at once, and another token no sooner and no later than it is back.
func TestBucketOfFractions(t *testing.T) {
	for count := int64(1); count < 200; count++ {
		now := time.Unix(1e9, 0)
		s := memstore.New(memstore.WithClock(func() time.Time { return now }))
		req := []store.Request{{Key: "k", Algorithm: rules.GCRA, Rules: []rules.Rule{{Count: count, Window: time.Second}}, Cost: 1}}
		var out store.Outcome
		admitted := func() (n int64) {
			for {
				if err := s.Take(context.Background(), req, false, &out); err != nil {
					t.Fatal(err)
				}
				if !out.Allowed || n > count {
					return n
				}
				n++
			}
		}
		if n := admitted(); n != count {
			t.Fatalf("%d are admitted at once, want %d", n, count)
		}
		for range 3 {
			retryAfter := out.Rules[0].RetryAfter
			if now = now.Add(retryAfter - time.Microsecond); admitted() != 0 || out.Rules[0].RetryAfter != time.Microsecond {
				t.Fatalf("of %d a microsecond before %v the answer is %+v, want a microsecond", count, retryAfter, out)
			}
			if now = now.Add(time.Microsecond); admitted() != 1 {
				t.Fatalf("of %d there is not another one after %v", count, retryAfter)
			}
		}
	}
}

// A call that may be given back is counted from the first such one on, also in a bucket that has counted none: it gets all back that has not come back for it.
func TestReturnsOfABucketThatDidNotCount(t *testing.T) {
	now := time.Unix(1e9, 0)
	s := memstore.New(memstore.WithClock(func() time.Time { return now }))
	req := []store.Request{{Key: "k", Algorithm: rules.GCRA, Rules: []rules.Rule{{Count: 4, Window: 4 * time.Second}}, Cost: 1}}
	var out store.Outcome
	for _, returns := range []bool{false, true} {
		req = []store.Request{req[0]}
		req[0].Returns = returns
		if err := s.Take(context.Background(), req, false, &out); err != nil || !out.Allowed {
			t.Fatalf("Take = %+v, %v, want it allowed", out, err)
		}
	}
	receipt := out.Receipt
	now = now.Add(time.Second) // the first call's token is back
	s.GiveBack(context.Background(), receipt)
	if err := s.Peek(context.Background(), req, &out); err != nil || out.Rules[0].Remaining != 4 {
		t.Errorf("%d remain, %v, want all 4", out.Rules[0].Remaining, err)
	}
}

// former is the outcome of another call, all of which is to be written anew.
func former() store.Outcome {
	charges := make([]store.Charge, 1)
	charges[0].At, charges[0].Note = 7, 7
	charges[0].GivenBack.Store(true)
	return store.Outcome{
		Cached: true, Ahead: 1, Rules: []store.RuleOutcome{{Remaining: 7, RetryAfter: 7, ResetAfter: 7, Delay: 7, Banned: 7}},
		Receipt: store.Receipt{ID: 7, Charges: charges, Partial: true, First: 7, From: memstore.New()},
	}
}

// same fails unless a says what b does, but for b's detail.
func same(t *rapid.T, a, b *store.Outcome) {
	if a.Allowed != b.Allowed || a.Cached || b.Cached || a.Ahead != 0 || b.Ahead != 0 || len(a.Rules) != len(b.Rules) || len(a.Receipt.Charges) != len(b.Receipt.Charges) ||
		len(a.Receipt.Requests) != len(b.Receipt.Requests) || (a.Receipt.ID == 0) != (b.Receipt.ID == 0) ||
		a.Receipt.Partial || b.Receipt.Partial || a.Receipt.First != 0 || b.Receipt.First != 0 || a.Receipt.From != nil || b.Receipt.From != nil {
		t.Fatalf("Take = %+v, with detail %+v", a, b)
	}
	for i := range a.Rules {
		if want := (store.RuleOutcome{RetryAfter: b.Rules[i].RetryAfter}); a.Rules[i] != want {
			t.Fatalf("rule %d: %+v, want %+v as with detail", i, a.Rules[i], want)
		}
	}
	for i := range a.Receipt.Charges {
		if x, y := &a.Receipt.Charges[i], &b.Receipt.Charges[i]; x.At != y.At || x.Note != y.Note || x.GivenBack.Load() || y.GivenBack.Load() {
			t.Fatalf("charge %d: %+v, with detail %+v", i, x, y)
		}
	}
}
