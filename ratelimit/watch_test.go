package ratelimit_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/memstore"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// noted is an observer that writes down its name.
type noted struct {
	name string
	into *[]string
}

func (n noted) Observe(_ context.Context, d *ratelimit.Decision, err error) {
	text := n.name + ":"
	for _, l := range d.Limits {
		text += " " + d.Policy.Name(l.Index)
	}
	if err != nil {
		text += " denied"
	}
	*n.into = append(*n.into, text)
}

// A context's observers are told of its calls, after the limiter's own, in the order in which they began to watch; those of other
// contexts are not.
func TestWatch(t *testing.T) {
	var got []string
	guard := limiter(t, memstore.New(), ratelimit.WithObserver(noted{"limiter's", &got})).
		Guard(create(rules.Limit{Kind: rules.User, Rules: per(1, time.Hour)}))
	first := ratelimit.Watch(alice(), noted{"first", &got})
	second := ratelimit.Watch(first, noted{"second", &got})
	if _, err := guard.Take(second); err != nil {
		t.Fatal(err)
	}
	if _, err := guard.Take(first); !errors.Is(err, ratelimit.ErrExceeded) {
		t.Fatalf("the second call: %v, want it denied", err)
	}
	_, _ = guard.Take(alice())
	want := []string{
		"limiter's: Create", "first: Create", "second: Create",
		"limiter's: Create denied", "first: Create denied",
		"limiter's: Create denied",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}

// asking is a store that notes what it is asked.
type asking struct {
	*memstore.Store
	details []bool
}

func (a *asking) Take(ctx context.Context, requests []store.Request, detail bool, out *store.Outcome) error {
	a.details = append(a.details, detail)
	return a.Store.Take(ctx, requests, detail, out)
}

// What remains is found out for who watches, and for nobody else.
func TestWatchAsksForDetail(t *testing.T) {
	s := &asking{Store: memstore.New()}
	guard := limiter(t, s).Guard(create(rules.Limit{Kind: rules.User, Rules: per(5, time.Hour)}))
	var rec recorder
	for _, ctx := range []context.Context{alice(), ratelimit.Watch(alice(), &rec), alice()} {
		if _, err := guard.Take(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]bool{false, true, false}, s.details); diff != "" {
		t.Errorf("detail (-want +got):\n%s", diff)
	}
	if got := rec.decisions[0].Limits[0].Rules[0].Remaining; got != 3 {
		t.Errorf("remaining = %d, want 3", got)
	}
}

func TestWatchPanicsWithoutAnObserver(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("Watch takes a nil Observer, want a panic that says what is wrong")
		}
	}()
	ratelimit.Watch(context.Background(), nil)
}
