package redisstore_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/redisstore"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/ratelimit/storetest"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
	"github.com/rlgen/rlgen/rules"
	"github.com/rlgen/rlgen/testdata/suite"
)

// TestManyAreDecidedAsOne holds that calls on one limit, which share a script and its short way, are told what they are told one by one and in detail, for
// which there is none, and leave the same strings to expire at the same times: of logs that are new, short, full, full of what is dropped, in parts and about to expire, while the clock goes on and back.
func TestManyAreDecidedAsOne(t *testing.T) {
	t.Parallel()
	for name, client := range map[string]func(*testing.T) *redis.Client{
		"redis-server": func(t *testing.T) *redis.Client { return redistest.Standalone(t).Client(t) },
		"miniredis": func(t *testing.T) *redis.Client {
			client := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr()})
			t.Cleanup(func() { client.Close() })
			return client
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMany(t, client(t))
			rounds := 60
			if suite.Long() {
				rounds = 200
			}
			for range rounds {
				m.round(pauses[m.random.IntN(len(pauses))])
			}
			m.aroundZero()
			m.edges()
		})
	}
}

// many asks for each call twice: beside others, and in detail at a key of its own.
type many struct {
	*redisstore.Store
	t        *testing.T
	client   *redis.Client
	clock    *storetest.Clock
	prefix   string
	random   *rand.Rand
	receipts [][2]store.Receipt
}

func newMany(t *testing.T, client *redis.Client) *many {
	clock := storetest.NewClock()
	return &many{
		Store: newStore(t, client, redisstore.WithClock(clock.Now)), t: t, client: client, clock: clock,
		prefix: redistest.Prefix(t), random: rand.New(rand.NewPCG(1, 2)),
	}
}

// draw draws calls that are alike but for their keys.
func (m *many) draw() []store.Request {
	limits := [][]rules.Rule{
		{{Count: 3, Window: 10 * time.Second}, {Count: 12, Window: time.Hour}},
		{{Count: 12, Window: time.Hour}, {Count: 3, Window: 10 * time.Second}},
		{{Count: 5, Window: 10 * time.Second}},
		{{Count: 20, Window: 10 * time.Second}, {Count: 21, Window: time.Hour}, {Count: 22, Window: 2 * time.Hour}},
		{{Count: 40, Window: time.Hour}},
		{{Count: 300, Window: time.Hour}},
	}
	n := m.random.IntN(len(limits))
	req := store.Request{Algorithm: rules.CompactLog, Rules: limits[n], Cost: []int64{1, 1, 1, 2, 3, 4, 23}[m.random.IntN(7)]}
	if m.random.IntN(4) == 0 {
		req.Ahead = []time.Duration{time.Millisecond, 5 * time.Second}[m.random.IntN(2)]
	}
	calls := make([]store.Request, 1+m.random.IntN(11))
	for i := range calls {
		calls[i] = req
		calls[i].Key = fmt.Sprint(m.prefix, n, "-", m.random.IntN(3))
	}
	return calls
}

// pauses are how much later the next calls come. Keys last for an hour longer than their windows where the store's clock is a test's.
var pauses = []time.Duration{0, 1, 1000, 999 * time.Millisecond, time.Second, 4 * time.Second, -1000, -time.Second, 9 * time.Second, 10 * time.Second, 20 * time.Minute, time.Hour, 2 * time.Hour, 400 * 24 * time.Hour}

// round asks, and lets time pass.
func (m *many) round(pause time.Duration) {
	m.t.Helper()
	calls := m.draw()
	m.hasten(calls)
	m.call(calls)
	m.clock.Move(pause)
	if m.random.IntN(8) == 0 {
		m.giveBack()
	}
}

// aroundZero asks where the bytes of the time begin anew, at -0 of what is said here: for calls behind which the clock is set back, and of keys which expire before and behind.
func (m *many) aroundZero() {
	m.t.Helper()
	const anew = 1 << 48
	for i, times := range [][]time.Duration{
		{1, -1, 1},
		{time.Second, -time.Second, 0, time.Second},
		{-2*time.Hour - 5*time.Second, -3 * time.Second, -2 * time.Second, time.Second},
		{-2*time.Hour + 5*time.Second, -90 * time.Minute, -time.Hour - 2*time.Second, -time.Hour + 2*time.Second, 0},
		{-2 * 367 * 24 * time.Hour, -time.Second, 2 * time.Second, time.Hour},
	} {
		req, scarce := hourlyCompact(fmt.Sprint(m.prefix, "zero", i), 20, 1), hourlyCompact(fmt.Sprint(m.prefix, "scarce", i), 3, 1)
		zero := (m.clock.Now().UnixMicro()/anew + 2) * anew
		for _, at := range times {
			m.clock.Move(time.Duration(zero-m.clock.Now().UnixMicro())*time.Microsecond + at)
			m.call([]store.Request{req, req})
			m.call([]store.Request{scarce, scarce})
		}
	}
}

// edges asks for more than there is, and again just before and when the windows of what was charged end, and when the key is about to expire.
func (m *many) edges() {
	m.t.Helper()
	one, few := rules.Rule{Count: 1, Window: 500 * time.Millisecond}, rules.Rule{Count: 5, Window: 10 * time.Second}
	for i, limits := range [][]rules.Rule{{few}, {few, {Count: 6, Window: 20 * time.Second}}, {{Count: 6, Window: 20 * time.Second}, few}, {one, few}} {
		for _, ahead := range []time.Duration{0, 100 * time.Millisecond} {
			req := store.Request{Key: fmt.Sprint(m.prefix, "edge", i, ahead), Algorithm: rules.CompactLog, Rules: limits, Cost: 1, Ahead: ahead}
			m.call(slices.Repeat([]store.Request{req}, 7))
			for _, step := range []time.Duration{999 * time.Millisecond, 9001*time.Millisecond - 1000, 1000, 10*time.Second - 1000, 1000, 10 * time.Second} {
				m.clock.Move(step)
				m.call(slices.Repeat([]store.Request{req}, 6))
			}
		}
	}
}

// hasten makes some of the keys expire sooner than their logs say, so that it is seen which of them are made to last.
func (m *many) hasten(calls []store.Request) {
	for _, req := range calls[:m.random.IntN(len(calls))] {
		m.client.PExpire(context.Background(), req.Key, 20*time.Minute)
		m.client.PExpire(context.Background(), alone(req.Key), 20*time.Minute)
	}
}

// alone is the key of a call that is decided by itself.
func alone(key string) string { return key + "!" }

func (m *many) call(calls []store.Request) {
	m.t.Helper()
	outs, err := redisstore.Together(m.Store, calls...)
	if err != nil {
		m.t.Fatal(err)
	}
	for i, req := range calls {
		req.Key = alone(req.Key)
		var want store.Outcome
		if err := m.Take(m.t.Context(), []store.Request{req}, true, &want); err != nil {
			m.t.Fatal(err)
		}
		if outs[i].Allowed != want.Allowed || !want.Allowed && !sameRetries(outs[i].Rules, want.Rules) {
			m.t.Fatalf("call %d of %+v = %+v, want as alone %+v", i, calls, outs[i], want)
		}
		if want.Allowed {
			m.receipts = append(m.receipts, [2]store.Receipt{outs[i].Receipt, want.Receipt})
		}
	}
	m.wantSame(calls)
}

func sameRetries(a, b []store.RuleOutcome) bool {
	for i := range a {
		if a[i].RetryAfter != b[i].RetryAfter {
			return false
		}
	}
	return len(a) == len(b)
}

// wantSame fails the test unless the keys of calls hold what those of calls alone hold.
func (m *many) wantSame(calls []store.Request) {
	m.t.Helper()
	ctx := context.Background()
	for _, req := range calls {
		got, want := m.client.Get(ctx, req.Key).Val(), m.client.Get(ctx, alone(req.Key)).Val()
		if got != want {
			m.t.Fatalf("after %+v the log is %q, want as alone %q", calls, got, want)
		}
		// redis-server's own clock goes on, and the machine may stop.
		late := m.client.PTTL(ctx, req.Key).Val() - m.client.PTTL(ctx, alone(req.Key)).Val()
		if late.Abs() > 5*time.Minute {
			m.t.Fatalf("after %+v the key lasts %v longer than alone", calls, late)
		}
	}
}

// giveBack gives back the latest call.
func (m *many) giveBack() {
	m.t.Helper()
	if n := len(m.receipts) - 1; n >= 0 {
		for _, r := range m.receipts[n] {
			if err := m.GiveBack(context.Background(), r); err != nil {
				m.t.Fatal(err)
			}
		}
		m.receipts = m.receipts[:n]
	}
}

// TestManyBesideAnothersString holds that a string which no log is fails its own call, and is left as it is.
func TestManyBesideAnothersString(t *testing.T) {
	client := redistest.Standalone(t).Client(t)
	s := newStore(t, client)
	now := time.Now().UnixMicro()
	time48 := func(micros int64) string { return string(binary.BigEndian.AppendUint64(nil, uint64(micros))[2:]) }
	expires, times := time48(now+7200e6), time48(now-1e6)+time48(now-1e6)
	for _, text := range []string{"x", "theirs", "\x03log" + expires, "\x03log" + expires + "!" + times, "\x02log" + expires + times,
		"\x03Log" + expires + times, "\x03lag" + expires + times, "\x03loG" + expires + times,
		"\x03log" + expires + strings.Repeat(time48(now-1e6), 23)} {
		p := redistest.Prefix(t)
		client.Set(t.Context(), p+"theirs", text, time.Minute)
		calls := []store.Request{hourlyCompact(p+"a", 9, 1), hourlyCompact(p+"theirs", 9, 1), hourlyCompact(p+"b", 9, 1), hourlyCompact(p+"a", 9, 1)}
		outs, err := redisstore.Together(s, calls...)
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []bool{true, false, true, true} {
			if outs[i].Allowed != want {
				t.Errorf("call %d beside %q: allowed %v, want %v", i, text, outs[i].Allowed, want)
			}
			if wait := outs[i].Rules[0].RetryAfter; wait != 0 {
				t.Errorf("call %d beside %q is to wait %v, want 0: it has failed, and is not denied", i, text, wait)
			}
		}
		if got := client.Get(t.Context(), p+"theirs").Val(); got != text {
			t.Errorf("another program's string %q has become %q", text, got)
		}
		for key, want := range map[string]int64{"a": 7, "b": 8} {
			if got := take(t, s, hourlyCompact(p+key, 9, 0)).Rules[0].Remaining; got != want {
				t.Errorf("%d of %s remain beside %q, want %d", got, key, text, want)
			}
		}
	}
}
