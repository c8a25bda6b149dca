package ratelimit_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/lock"
	"github.com/rlgen/rlgen/ratelimit/memstore"
	"github.com/rlgen/rlgen/ratelimit/store"
)

// returning is a store that notes of which limits it is told that calls are often given back.
type returning struct {
	*memstore.Store
	returns []bool
}

func (r *returning) Take(ctx context.Context, requests []store.Request, detail bool, out *store.Outcome) error {
	r.returns = nil
	for i := range requests {
		r.returns = append(r.returns, requests[i].Returns)
	}
	return r.Store.Take(ctx, requests, detail, out)
}

// What give-backs cost a bucket is paid where calls are given back later than at once: for how they end, and because they wait in vain, in a queue or for what
// another limit holds. Nobody else pays.
func TestReturns(t *testing.T) {
	const bucket = "user 10,1s algo=gcra"
	for _, test := range []struct {
		limits []string
		want   []bool
	}{
		{[]string{bucket}, []bool{false}},
		{[]string{bucket, "ip 10,1s"}, []bool{false, false}},
		{[]string{bucket + " wait=1s"}, []bool{false}},
		{[]string{"user 100,1s algo=gcra prefetch=100ms"}, []bool{false}},
		{[]string{bucket + " charge=error"}, []bool{true}},
		{[]string{bucket + " charge=success", "ip 10,1s algo=gcra"}, []bool{true, false}},
		{[]string{bucket, "global 10,1s algo=leaky-bucket wait=1s"}, []bool{true, true}},
		{[]string{bucket, "concurrency 10"}, []bool{true}},
		{[]string{bucket, "lock"}, []bool{true}},
	} {
		t.Run(strings.Join(test.limits, " and "), func(t *testing.T) {
			s := &returning{Store: memstore.New()}
			guard := limiter(t, s, ratelimit.WithLocks(lock.NewMemory())).Guard(create(limits(t, test.limits...)...))
			_, permit, err := guard.Hold(alice())
			if err != nil {
				t.Fatal(err)
			}
			permit.Done(nil)
			if !slices.Equal(s.returns, test.want) {
				t.Errorf("the store is told of give-backs (-want +got):\n%s", cmp.Diff(test.want, s.returns))
			}
		})
	}
}
