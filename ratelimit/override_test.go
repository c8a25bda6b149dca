package ratelimit_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/lock"
	"github.com/rlgen/rlgen/ratelimit/memstore"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// override is one layer of names and texts.
func override(pairs ...string) []rules.Override {
	var layer []rules.Override
	for i := 0; i < len(pairs); i += 2 {
		layer = append(layer, rules.Override{Name: pairs[i], Text: pairs[i+1]})
	}
	return layer
}

func mustOverride(t *testing.T, l *ratelimit.Limiter, layers ...[]rules.Override) {
	t.Helper()
	if err := l.Override(context.Background(), layers...); err != nil {
		t.Fatal(err)
	}
}

// An override holds from the next decision on, and no longer than it stands.
func TestOverride(t *testing.T) {
	l := limiter(t, memstore.New())
	guard := l.Guard(create(limits(t, "user 2,1h")...))
	if got := passes(t, guard, alice()); got != 2 {
		t.Fatalf("%d calls passed, want 2", got)
	}
	mustOverride(t, l, override("Create", "5,1h"))
	if got := passes(t, guard, alice()); got != 3 {
		t.Errorf("%d more calls passed under 5,1h, want 3", got)
	}
	mustOverride(t, l, override("Create", "off"))
	for range 10 {
		if _, err := guard.Take(alice()); err != nil {
			t.Fatalf("Take of a limit that is off = %v, want none", err)
		}
	}
	mustOverride(t, l, override("Create", "mode=shadow"))
	if d, _, err := guard.Decide(alice()); err != nil || told(&d) != "[-Create]" {
		t.Errorf("decision is %s, %v, want a denial by a shadow of the same name", told(&d), err)
	}
	mustOverride(t, l)
	if got := passes(t, guard, alice()); got != 0 {
		t.Errorf("%d calls passed without overrides, want none", got)
	}
}

// What overrides one limit leaves the others, their names and their keys.
func TestOverrideLeavesTheOthers(t *testing.T) {
	l := limiter(t, memstore.New())
	guard := l.Guard(create(limits(t, "user 5,1h", "ip 5,1h", "user 9,1h mode=shadow")...))
	before, _, err := guard.Decide(alice())
	if err != nil {
		t.Fatal(err)
	}
	mustOverride(t, l, override("Create/ip", "mode=shadow", "Create/user/shadow", "mode=enforce"))
	after, _, err := guard.Decide(alice())
	if err != nil {
		t.Fatal(err)
	}
	const want = "+Create/user [+Create/ip] +Create/user/shadow"
	if told(&after) != want {
		t.Errorf("decision is %s, want %s", told(&after), want)
	}
	for i := range before.Limits {
		if before.Limits[i].Key != after.Limits[i].Key {
			t.Errorf("limit %d has the key %s, and had %s, want the same", i, after.Limits[i].Key, before.Limits[i].Key)
		}
	}
}

// What the program computes for a caller holds in place of an override's numbers, and the log says so; all else of the override holds.
func TestOverrideOfComputedRules(t *testing.T) {
	var log bytes.Buffer
	c := contracts{"acme": per(5, time.Hour)}
	l := limiter(t, memstore.New(), ratelimit.WithRules(c.rules), ratelimit.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	guard := l.Guard(create(limits(t, "user 2,1h", "global 1000,1h")...))
	mustOverride(t, l, override("Create/user", "missing=allow"))
	if strings.Contains(log.String(), "WARN") {
		t.Errorf("an override without numbers is warned of:\n%s", &log)
	}
	mustOverride(t, l, override("Create/user", "3,1h", "Create/global", "off"))
	const want = `level=WARN msg="rate limit overrides have numbers, in place of which those hold that the program computes for a caller" limits=shop.Orders.Create/user` + "\n"
	if n := strings.Count(log.String(), want); n != 1 {
		t.Errorf("%d lines of the log say %s, want 1:\n%s", n, want, &log)
	}
	if acme, other := passes(t, guard, as("acme")), passes(t, guard, as("other")); acme != 5 || other != 3 {
		t.Errorf("%d calls of a caller with computed rules passed and %d of another, want 5 and 3", acme, other)
	}
	mustOverride(t, l, override("Create/user", "mode=shadow"))
	if d, _, err := guard.Decide(as("acme")); err != nil || !d.Allowed {
		t.Errorf("Decide of a shadow = %+v, %v, want it allowed", d, err)
	}
	if !l.Survey().Computes || limiter(t, memstore.New()).Survey().Computes {
		t.Error("Survey().Computes is wrong, want it true of a limiter with WithRules alone")
	}
}

// Overrides that do not fit change nothing, are logged once, and told.
func TestOverrideRefused(t *testing.T) {
	var log bytes.Buffer
	r := &reloads{}
	l := limiter(t, memstore.New(), ratelimit.WithObserver(r), ratelimit.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	guard := l.Guard(create(limits(t, "user 2,1h")...))
	mustOverride(t, l, override("Create", "3,1h"))
	for range 3 {
		err := l.Override(context.Background(), override("Create", "9,1h", "Crate", "off"))
		const want = `ratelimit: overrides: unknown limit "Crate", want the name of one, as rlgen list has it; did you mean "Create"?`
		if err == nil || err.Error() != want {
			t.Fatalf("Override = %v, want %s", err, want)
		}
	}
	if got := passes(t, guard, alice()); got != 3 {
		t.Errorf("%d calls passed, want 3, by the overrides before", got)
	}
	if r.good.Load() != 1 || r.bad.Load() != 3 {
		t.Errorf("told of %d reloads and %d that failed, want 1 and 3", r.good.Load(), r.bad.Load())
	}
	if n := strings.Count(log.String(), "cannot be used"); n != 1 {
		t.Errorf("%d lines say that overrides cannot be used, want 1:\n%s", n, &log)
	}
}

// However much is wrong with overrides, and however long their texts are, a line of the log has the beginning of it.
func TestOverrideRefusedBriefly(t *testing.T) {
	var log bytes.Buffer
	l := limiter(t, memstore.New(), ratelimit.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	l.Guard(create(limits(t, "user 2,1h")...))
	long := strings.Repeat("x", 45_000)
	if err := l.Override(context.Background(), override("Create", long)); err == nil {
		t.Error("Override = nil, want an error")
	}
	var many []rules.Override
	for n := range 50 {
		many = append(many, override(fmt.Sprint(long, n), "off")...)
	}
	if err := l.Override(context.Background(), many); err == nil {
		t.Error("Override = nil, want an error")
	}
	l.KeepOverrides(context.Background(), errors.New(long))
	lines := strings.SplitAfter(strings.TrimSpace(log.String()), "\n")
	for _, line := range lines {
		if len(line) > 5000 || !strings.Contains(line, " bytes more)") {
			t.Errorf("a line of %d bytes, want 5000 at most, with how many are left out: %.100s", len(line), line)
		}
	}
	if len(lines) != 3 {
		t.Errorf("%d lines, want 3", len(lines))
	}
}

// reloads counts what it is told of overrides.
type reloads struct{ good, bad atomic.Int64 }

func (*reloads) Observe(context.Context, *ratelimit.Decision, error) {}

func (r *reloads) Reloaded(_ context.Context, err error) {
	if err != nil {
		r.bad.Add(1)
	} else {
		r.good.Add(1)
	}
}

// What is prepared later is overridden, too.
func TestOverrideOfWhatIsPreparedLater(t *testing.T) {
	l := limiter(t, memstore.New())
	l.Guard(create(limits(t, "user 2,1h")...))
	mustOverride(t, l, override("shop.Orders.Create", "4,1h"))
	again := l.Guard(create(limits(t, "user 2,1h")...))
	if got := passes(t, again, alice()); got != 4 {
		t.Errorf("%d calls passed, want 4", got)
	}
}

// Calls in flight, and whether a call may be made without an identity.
func TestOverrideOfOtherThanRules(t *testing.T) {
	l := limiter(t, memstore.New(), ratelimit.WithLocks(lock.NewMemory()))
	guard := l.Guard(create(limits(t, "concurrency 1", "user 5,1h")...))
	_, first, err := guard.Hold(alice())
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := guard.Hold(alice()); !errors.Is(err, ratelimit.ErrExceeded) {
		t.Fatalf("second Hold of one = %v, want a denial", err)
	}
	mustOverride(t, l, override("Create/concurrency", "2", "Create/user", "missing=allow"))
	_, second, err := guard.Hold(context.Background())
	if err != nil {
		t.Errorf("Hold of nobody, second of two = %v, want none", err)
	}
	if _, _, err := guard.Hold(alice()); !errors.Is(err, ratelimit.ErrExceeded) {
		t.Errorf("third Hold of two = %v, want a denial", err)
	}
	first.Done(nil)
	second.Done(nil)
}

// Running counts go on under other numbers: those of a log and of windows as calls, those of a bucket as the time until it is full. What has
// another window begins anew, but in a log.
func TestCountsSurviveAnOverride(t *testing.T) {
	stores := map[string]func(*testing.T) store.Store{
		"memory": func(*testing.T) store.Store { return memstore.New(memstore.WithClock(newClock().Now)) },
		"redis": func(t *testing.T) store.Store {
			s, _ := inRedis(t) // which has the time that a busy machine takes
			return s.rates
		},
	}
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			l := limiter(t, open(t), ratelimit.WithoutDenyCache())
			for _, test := range []struct {
				algo                   string
				more, fewer, elsewhere int // calls that pass by 6,24h, by 1,24h, and by 6,48h, after 4 by 4,24h
			}{
				{"sliding-log", 2, 0, 0},
				{"compact-log", 2, 0, 0},
				{"sliding-window", 2, 0, 6},
				{"fixed-window start=first", 2, 0, 6},
				{"token-bucket", 0, 0, 6},
				{"leaky-bucket", 0, 0, 6},
				{"gcra", 0, 0, 6},
			} {
				t.Run(test.algo, func(t *testing.T) {
					p := create(limits(t, "user 4,24h algo="+test.algo)...)
					p.Method = "By" + strings.NewReplacer("-", "", " ", "", "=", "").Replace(test.algo)
					guard := l.Guard(p)
					ctx := alice()
					if got := passes(t, guard, ctx); got != 4 {
						t.Fatalf("%d calls passed as written, want 4", got)
					}
					for _, step := range []struct {
						text string
						want int
					}{{"1,24h", test.fewer}, {"6,24h", test.more}, {"6,48h", test.elsewhere}} {
						mustOverride(t, l, override(p.Method, step.text))
						if got := passes(t, guard, ctx); got != step.want {
							t.Errorf("%d calls passed by %s, want %d", got, step.text, step.want)
						}
					}
				})
			}
		})
	}
}

// While 64 clients call, what is in force changes: no call fails, and none is decided by two versions.
func TestOverrideUnderLoad(t *testing.T) {
	l := limiter(t, memstore.New())
	guard := l.Guard(create(limits(t, "user 1000000,1h algo=fixed-window", "global 1000000,1h algo=fixed-window", "ip 1000000,1h algo=fixed-window mode=shadow")...))
	var clients sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	var latest atomic.Int64
	decided := make(chan struct{})
	latest.Store(1000000)
	for range 64 {
		clients.Go(func() {
			for ctx.Err() == nil {
				least := latest.Load()
				d, _, err := guard.Decide(alice())
				if err != nil || !d.Allowed || len(d.Limits) != 3 {
					t.Errorf("Decide = %+v, %v, want it allowed by three limits", d, err)
				}
				first := d.Limits[0].Rules[0].Rule.Count
				for _, limit := range d.Limits {
					if count := limit.Rules[0].Rule.Count; count != first || count < least {
						t.Errorf("a decision has the counts %d and %d, want one version, and none before %d", first, count, least)
					}
				}
				select {
				case decided <- struct{}{}:
				case <-ctx.Done():
				}
			}
		})
	}
	for version := range 200 {
		text := fmt.Sprintf("%d,1h", 2000000+version)
		mustOverride(t, l, override("Create/user", text, "Create/global", text, "Create/ip/shadow", text))
		latest.Store(int64(2000000 + version))
		for range 20 {
			<-decided
		}
	}
	cancel()
	clients.Wait()
}
