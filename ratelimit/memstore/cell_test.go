package memstore_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/rlgen/rlgen/ratelimit/memstore"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
	"github.com/rlgen/rlgen/testdata/suite"
)

// TestCells checks that cells answer as the keys of a store do: with every algorithm, with bans, with permits that are
// returned, with limits that change, and whether the cells are fetched before or not.
func TestCells(t *testing.T) {
	for _, directive := range []string{
		"user 3,1s 5,4s", "user 3,1s 5,4s algo=compact-log", "user 5,2s algo=sliding-window segments=4", "user 5,2s algo=fixed-window",
		"user 5,2s algo=fixed-window start=first", "user 3,1s algo=token-bucket burst=5", "user 3,1s algo=token-bucket refill=interval",
		"user 3,1s algo=leaky-bucket wait=500ms", "user 3,1s algo=gcra", "user 2,1s ban=2s after=3",
	} {
		t.Run(directive, func(t *testing.T) {
			d, err := rules.Parse(rules.Namespace + directive)
			if err != nil {
				t.Fatal(err)
			}
			other, err := rules.Parse(rules.Namespace + "user 4,1s algo=gcra")
			if err != nil {
				t.Fatal(err)
			}
			compareCells(t, d.Limit, other.Limit)
		})
	}
}

// compareCells decides calls of two limits, the first of which is the other one now and then.
func compareCells(t *testing.T, limit, other rules.Limit) {
	const ids = 4
	ctx := context.Background()
	r := rand.New(rand.NewPCG(1, 1))
	now := time.UnixMicro(1_700_000_000_000_000)
	stored := memstore.New(memstore.WithClock(func() time.Time { return now }))
	var cells memstore.Cells
	var first, second [ids]memstore.Cell
	denied, allowed := 0, 0
	calls := 1500
	if suite.Long() {
		calls = 20_000
	}
	for n := range calls {
		now = now.Add(time.Duration(r.Int64N(int64(150 * time.Millisecond))).Truncate(time.Microsecond))
		l := &limit
		if n/500%2 == 1 {
			l = &other
		}
		a, b := r.IntN(ids), r.IntN(ids)
		requests := []store.Request{
			store.NewRequest(l, fmt.Sprint("a", a), r.Int64N(3)),
			store.NewRequest(&other, fmt.Sprint("b", b), 1),
		}
		own := []*memstore.Cell{&first[a], &second[b]}
		if n%2 == 1 {
			cells.Fetch(own)
		}
		want, err := store.Take(ctx, stored, requests, true)
		if err != nil {
			t.Fatal(err)
		}
		var got store.Outcome
		cells.Take(now, requests, own, true, &got)
		if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(store.Outcome{}, "Receipt"), cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("call %d at %v: cells differ from the store (-store +cells):\n%s", n, now, diff)
		}
		if !got.Allowed {
			denied++
			continue
		}
		allowed++
		if until := first[a].Until(); requests[0].Cost > 0 && !until.After(now) {
			t.Fatalf("call %d: the cell counts until %v, want later than %v", n, until, now)
		}
		if r.IntN(3) == 0 {
			now = now.Add(time.Millisecond)
			if err := stored.GiveBack(ctx, want.Receipt); err != nil {
				t.Fatal(err)
			}
			cells.GiveBack(now, got.Receipt, own)
		}
	}
	if denied < 10 || allowed < 50 {
		t.Errorf("%d denied, %d allowed, want some of both", denied, allowed)
	}
}
