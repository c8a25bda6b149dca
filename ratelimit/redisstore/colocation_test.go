package redisstore_test

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/redisstore"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
	"github.com/rlgen/rlgen/rules"
)

// TestColocation holds that all limits of a method are one script on a Redis Cluster with [ratelimit.WithColocation], and
// several without.
func TestColocation(t *testing.T) {
	f := &faults{}
	client := faultyClients(t, f)["cluster"]
	hour := func(count int64) []rules.Rule { return []rules.Rule{{Count: count, Window: time.Hour}} }
	policy := &rules.Policy{Package: "example.com/orders", Type: "orders.Orders", Method: "Create", Limits: []rules.Limit{
		{Kind: rules.User, Rules: hour(2)},
		{Kind: rules.User, Rules: hour(20), Algorithm: rules.TokenBucket},
		{Kind: rules.User, Rules: hour(30)},
		{Kind: rules.IP, Rules: hour(20)},
		{Kind: rules.Global, Rules: hour(20)},
	}}
	ctx := ratelimit.WithIP(ratelimit.WithUser(context.Background(), "alice"), netip.MustParseAddr("192.0.2.1"))
	for _, test := range []struct {
		name string
		opts []ratelimit.Option
		most int32
	}{{"without", nil, 100}, {"with", []ratelimit.Option{ratelimit.WithColocation()}, 1}} {
		t.Run(test.name, func(t *testing.T) {
			own := *policy
			own.Limits = append([]rules.Limit{}, policy.Limits...)
			for i := range own.Limits { // the cluster is shared
				own.Limits[i].Prefix = "colocation-" + test.name
			}
			limiter, err := ratelimit.New(newStore(t, client), append(test.opts, ratelimit.WithInstances(1))...) // nobody attends beside a call
			if err != nil {
				t.Fatal(err)
			}
			guard := limiter.Guard(&own)
			if err := limiter.Check(ctx); err != nil {
				t.Errorf("Check = %v, want nil", err)
			}
			d, _, err := guard.Decide(ctx) // connects and loads the script
			if err != nil || !d.Allowed {
				t.Fatalf("Decide = %+v, %v, want allowed", d, err)
			}
			slots := make(map[int]bool)
			for _, limit := range d.Limits {
				slots[redisstore.Slot(limit.Key)] = true
				t.Cleanup(func() { client.Del(context.Background(), limit.Key) })
			}
			before := f.scripts.Load()
			if _, err := guard.Take(ctx); err != nil {
				t.Fatal(err)
			}
			sent := f.scripts.Load() - before
			if int(sent) != len(slots) || sent > test.most || test.most > 1 && sent < 2 {
				t.Errorf("%d scripts for limits in %d slots, want one for each, and at most %d", sent, len(slots), test.most)
			}
			if _, err := guard.Take(ctx); !errors.Is(err, ratelimit.ErrExceeded) {
				t.Errorf("Take = %v, want %v", err, ratelimit.ErrExceeded)
			}
			if d, _, err = guard.Decide(ctx); err != nil || d.Allowed || d.Limits[4].Rules[0].Remaining != 18 {
				t.Errorf("Decide = %+v, %v, want denied, and 18 of the global limit's 20 remaining", d, err)
			}
		})
	}
}

func TestColocatedKeys(t *testing.T) {
	limiter, err := ratelimit.New(newStore(t, redistest.Standalone(t).Client(t)), ratelimit.WithColocation())
	if err != nil {
		t.Fatal(err)
	}
	hour := []rules.Rule{{Count: 1_000_000, Window: time.Hour}}
	guard := limiter.Guard(&rules.Policy{Package: "example.com/orders", Type: "orders.Box[T]", Method: "Put", Limits: []rules.Limit{
		{Kind: rules.User, Rules: hour, Algorithm: rules.GCRA},
		{Kind: rules.User, Rules: hour, Algorithm: rules.FixedWindow, Bucket: "writes"},
	}})
	d, _, err := guard.Decide(ratelimit.WithUser(context.Background(), "{a}"))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"rl:user=%7Ba%7D:{orders.Box%5BT%5D-Put}@gcra", "rl:user=%7Ba%7D:{writes}@fixed-window"} {
		if got := d.Limits[i].Key; got != want {
			t.Errorf("key %d = %q, want %q", i, got, want)
		}
		redistest.Standalone(t).Client(t).Del(context.Background(), d.Limits[i].Key)
	}
}
