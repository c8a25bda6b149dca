package memstore_test

import (
	"context"
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
		for range rapid.IntRange(1, 60).Draw(t, "calls") {
			now = now.Add(time.Duration(rapid.IntRange(0, 400).Draw(t, "ms")) * time.Millisecond)
			req := store.Request{
				Key:       "rl:user=" + strconv.Itoa(rapid.IntRange(0, 5).Draw(t, "id")) + ":orders.Orders-Create",
				Algorithm: rapid.SampledFrom([]rules.Algorithm{rules.SlidingLog, rules.SlidingWindow, rules.FixedWindow, rules.TokenBucket, rules.GCRA}).Draw(t, "algorithm"),
				Rules:     []rules.Rule{{Count: 3, Window: time.Second}, {Count: 5, Window: 4 * time.Second}}[:rapid.IntRange(1, 2).Draw(t, "rules")],
				Cost:      rapid.Int64Range(0, 4).Draw(t, "cost"),
				Returns:   rapid.Bool().Draw(t, "returns"),
			}
			req.Key += "-" + req.Algorithm.String()
			var outs [2]store.Outcome
			for i, s := range []*memstore.Store{alone, among} {
				if err := s.Take(context.Background(), []store.Request{req}, i == 1, &outs[i]); err != nil {
					t.Fatal(err)
				}
			}
			same(t, &outs[0], &outs[1])
			if outs[0].Allowed && rapid.IntRange(0, 3).Draw(t, "returned") == 0 {
				receipts[0], receipts[1] = append(receipts[0], outs[0].Receipt), append(receipts[1], outs[1].Receipt)
			}
			if n := len(receipts[0]); n > 0 && rapid.Bool().Draw(t, "give back") {
				alone.GiveBack(context.Background(), receipts[0][n-1])
				among.GiveBack(context.Background(), receipts[1][n-1])
				receipts[0], receipts[1] = receipts[0][:n-1], receipts[1][:n-1]
			}
		}
	})
}

// same fails unless a says what b does, but for b's detail.
func same(t *rapid.T, a, b *store.Outcome) {
	if a.Allowed != b.Allowed || len(a.Rules) != len(b.Rules) || len(a.Receipt.Charges) != len(b.Receipt.Charges) ||
		len(a.Receipt.Requests) != len(b.Receipt.Requests) || (a.Receipt.ID == 0) != (b.Receipt.ID == 0) {
		t.Fatalf("Take = %+v, with detail %+v", a, b)
	}
	for i := range a.Rules {
		if a.Rules[i].RetryAfter != b.Rules[i].RetryAfter {
			t.Fatalf("rule %d: retry after %v, with detail %v", i, a.Rules[i].RetryAfter, b.Rules[i].RetryAfter)
		}
	}
	for i := range a.Receipt.Charges {
		if x, y := &a.Receipt.Charges[i], &b.Receipt.Charges[i]; x.At != y.At || x.Note != y.Note {
			t.Fatalf("charge %d: at %d of note %d, with detail at %d of note %d", i, x.At, x.Note, y.At, y.Note)
		}
	}
}
