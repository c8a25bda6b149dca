package ratelimit_test

import (
	"context"
	"errors"
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/lock"
	"github.com/rlgen/rlgen/ratelimit/memstore"
	"github.com/rlgen/rlgen/rules"
)

// A number is the id that its decimal text is, whatever kind of limit counts by it.
func TestIDByNumber(t *testing.T) {
	hour := per(10, time.Hour)
	secret := ratelimit.WithHashIDs([]byte("0123456789abcdef"))
	for _, limit := range []rules.Limit{
		{Kind: rules.User, By: "n", Rules: hour},
		{Kind: rules.Key, By: "n", Rules: hour},
		{Kind: rules.Key, By: "n", Rules: hour, Mode: rules.Shadow},
		{Kind: rules.Concurrency, Per: rules.PerKey, By: "n", Count: 10},
		{Kind: rules.Lock, By: "n"},
		{Kind: rules.Lock, By: "n", Segments: 64},
	} {
		for _, opts := range [][]ratelimit.Option{nil, {secret}} {
			for _, n := range []int64{0, 1, 99, 100, 4242, -7, math.MaxInt64, math.MinInt64} {
				var text, number, unsigned ratelimit.Input
				text.By(strconv.FormatInt(n, 10))
				number.ByInt(ratelimit.Int(n))
				want := keyOfHeld(t, limit, opts, text)
				if got := keyOfHeld(t, limit, opts, number); got != want {
					t.Errorf("%+v with %d: key %s of the number, %s of its text", limit, n, got, want)
				}
				if unsigned.ByInt(ratelimit.Int(uint64(n))); n >= 0 {
					if got := keyOfHeld(t, limit, opts, unsigned); got != want {
						t.Errorf("%+v with %d: key %s of the unsigned number, %s of its text", limit, n, got, want)
					}
				}
			}
		}
	}
	var largest ratelimit.Input
	largest.ByInt(ratelimit.Int(uint64(math.MaxUint64)))
	if got, want := keyOfHeld(t, rules.Limit{Kind: rules.Key, By: "n", Rules: hour}, nil, largest), "rl:key=18446744073709551615:shop.Orders-Create"; got != want {
		t.Errorf("key = %s, want %s", got, want)
	}
}

// keyOfHeld is the key that a limit counts, or holds, a call by.
func keyOfHeld(t *testing.T, limit rules.Limit, opts []ratelimit.Option, in ratelimit.Input) (key string) {
	t.Helper()
	observer := observe(func(d *ratelimit.Decision) { key = d.Limits[0].Key })
	l := limiter(t, memstore.New(), append(opts, ratelimit.WithLocks(lock.NewMemory()), ratelimit.WithObserver(observer))...)
	_, permit, err := l.Guard(create(limit)).Hold(context.Background(), in)
	if err != nil {
		t.Fatal(err)
	}
	permit.Done(nil)
	return key
}

// observe is an observer of decisions.
type observe func(d *ratelimit.Decision)

func (f observe) Observe(_ context.Context, d *ratelimit.Decision, _ error) { f(d) }

// What is given last is the id, and a number is no address.
func TestLastIDCounts(t *testing.T) {
	var in ratelimit.Input
	in.ByInt(ratelimit.Int(7))
	in.By("seven")
	limit := rules.Limit{Kind: rules.Key, By: "n", Rules: per(10, time.Hour)}
	if got, want := keyOfHeld(t, limit, nil, in), "rl:key=seven:shop.Orders-Create"; got != want {
		t.Errorf("key = %s, want %s", got, want)
	}
	in.ByInt(ratelimit.Int(uint8(8)))
	if got, want := keyOfHeld(t, limit, nil, in), "rl:key=8:shop.Orders-Create"; got != want {
		t.Errorf("key = %s, want %s", got, want)
	}
	guard := limiter(t, memstore.New()).Guard(create(rules.Limit{Kind: rules.IP, By: "n", Rules: per(10, time.Hour)}))
	if _, err := guard.Take(context.Background(), in); !errors.Is(err, ratelimit.ErrNoIdentity) {
		t.Errorf("Take = %v, want ErrNoIdentity", err)
	}
}
