package ratelimit_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/ratelimittest"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// logTo returns a logger that writes lines without their time and level.
func logTo(b *bytes.Buffer) *slog.Logger {
	return slog.New(slog.NewTextHandler(b, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == slog.LevelKey {
			return slog.Attr{}
		}
		return a
	}}))
}

func take(g *ratelimit.Guard, ctx context.Context, in ...ratelimit.Input) {
	_, permit, err := g.Hold(ctx, in...)
	if err == nil {
		permit.Done(nil)
	}
}

func TestDenialsAreLoggedOnceAnInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		l := inMemory().limiter(t, ratelimit.WithObserver(ratelimit.LogDenials(logTo(&log))))
		g := l.Guard(create(rules.Limit{Kind: rules.User, Rules: per(2, time.Hour)}, rules.Limit{Kind: rules.Global, Rules: per(4, time.Hour), Name: "all"}))
		calls := func(n int, user string) {
			for range n {
				take(g, ratelimit.WithUser(t.Context(), user))
			}
		}
		calls(5, "alice") // 3 are denied
		time.Sleep(9 * time.Second)
		calls(2, "alice")
		time.Sleep(time.Second)
		calls(3, "alice")
		calls(2, "bob")
		calls(2, "carol") // another limit, in the same interval
		want := `msg="rate limit denied a call" type=shop.Orders method=Create limit=Create/user reason="allows 2,1h" retry_after=1h0m0s suppressed=0
msg="rate limit denied a call" type=shop.Orders method=Create limit=Create/user reason="allows 2,1h" retry_after=59m50s suppressed=4
msg="rate limit denied a call" type=shop.Orders method=Create limit=all reason="allows 4,1h" retry_after=59m50s suppressed=0
`
		if diff := cmp.Diff(want, log.String()); diff != "" {
			t.Errorf("log (-want +got):\n%s", diff)
		}
	})
}

func TestDenialsSayWhy(t *testing.T) {
	var tooMuch ratelimit.Input
	tooMuch.Cost(9)
	user := rules.Limit{Kind: rules.User, Rules: per(2, time.Hour)}
	done, cancel := context.WithCancel(alice())
	cancel()
	for _, test := range []struct {
		name    string
		limiter func(...ratelimit.Option) *ratelimit.Limiter
		limit   rules.Limit
		ctx     context.Context
		in      ratelimit.Input
		want    string // in the line, or "" for no line
	}{
		{"no id", ratelimittest.AllowAll, user, context.Background(), ratelimit.Input{}, `limit=Create reason="no identity to limit by" suppressed=0`},
		{"cost", ratelimittest.AllowAll, user, alice(), tooMuch, `limit=Create reason="cost cannot be met" suppressed=0`},
		{"in flight", denyAll, inFlight(2), alice(), ratelimit.Input{}, `limit=Create reason="allows 2 in flight" retry_after=1s suppressed=0`},
		{"allowed", ratelimittest.AllowAll, user, alice(), ratelimit.Input{}, ""},
		{"ended", ratelimittest.AllowAll, user, done, ratelimit.Input{}, ""},
		{"misconfigured", misconfigured, user, alice(), ratelimit.Input{}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			var log bytes.Buffer
			l := test.limiter(ratelimit.WithObserver(ratelimit.LogDenials(logTo(&log))))
			take(l.Guard(create(test.limit)), test.ctx, test.in)
			if got := log.String(); !strings.Contains(got, test.want) || (got == "") != (test.want == "") {
				t.Errorf("log is %q, want %q in it", got, test.want)
			}
		})
	}
}

// A ban is told as one, of a limit and of a shadow.
func TestDenialsTellOfBans(t *testing.T) {
	banning := rules.Limit{Kind: rules.User, Rules: per(1, time.Minute), Ban: time.Hour, After: 2}
	shade := banning
	shade.Mode = rules.Shadow
	for name, l := range map[string]rules.Limit{"denied a call": banning, "would deny a call": shade} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			limiter, _ := ratelimittest.New(ratelimit.WithObserver(ratelimit.LogDenials(logTo(&log), ratelimit.WithDenialInterval(0))))
			g := limiter.Guard(create(l))
			for range 3 {
				take(g, alice())
			}
			lines := strings.Split(log.String(), "\n")
			if len(lines) != 3 || strings.Contains(lines[0], "banned") || !strings.Contains(lines[1], name) || !strings.Contains(lines[1], " retry_after=1h0m0s banned=true") {
				t.Errorf("log is\n%s\nwant a denial, and a ban of an hour", log.String())
			}
		})
	}
}

func denyAll(opts ...ratelimit.Option) *ratelimit.Limiter {
	return ratelimittest.DenyAll(time.Minute, opts...)
}

func misconfigured(opts ...ratelimit.Option) *ratelimit.Limiter {
	return ratelimittest.Failing(store.Misconfigured, opts...)
}

func TestDenialsTellCallersApartByAHash(t *testing.T) {
	var log bytes.Buffer
	callers := ratelimit.WithDenialCallers([]byte("a secret of 24 characters"))
	l := denyAll(ratelimit.WithObserver(ratelimit.LogDenials(logTo(&log), callers, ratelimit.WithDenialInterval(0))))
	user, ip, flight := l.Guard(method("Create", rules.User)), l.Guard(method("Get", rules.User)), l.Guard(create(inFlight(1)))
	global := l.Guard(method("List", rules.Global))
	ids := []string{"alice", "bob@example.com", "rl:user=mallory", "line\nbreak_id", strings.Repeat("longid", 40)}
	for _, id := range ids {
		ctx := ratelimit.WithUser(context.Background(), id)
		for _, g := range []*ratelimit.Guard{user, ip, flight} {
			take(g, ctx)
		}
	}
	seen := map[string]int{}
	for line := range strings.Lines(log.String()) {
		_, caller, _ := strings.Cut(line, " caller=")
		caller, _, _ = strings.Cut(caller, " ")
		seen[caller]++
	}
	for caller, n := range seen {
		if n != 3 || len(caller) != 16 {
			t.Errorf("%d lines have the caller %q, want 3, of 16 digits", n, caller)
		}
	}
	if len(seen) != len(ids) {
		t.Errorf("%d callers in the log, want %d:\n%s", len(seen), len(ids), log.String())
	}
	for _, id := range append(ids, "mallory", "break_id", "longid", "rl:", "secret") {
		if strings.Contains(log.String(), id) {
			t.Errorf("%q is in the log:\n%s", id, log.String())
		}
	}
	log.Reset()
	take(global, alice())
	if strings.Contains(log.String(), "caller") || log.Len() == 0 {
		t.Errorf("log of a global limit is %q, want a line without a caller", log.String())
	}
}

// Who does not have the secret cannot tell whose hash a caller's is.
func TestDenialsHashCallersByTheSecret(t *testing.T) {
	callers := map[string]bool{}
	for _, secret := range []string{"a secret of 24 characters", "another of 24 characters!"} {
		var log bytes.Buffer
		observer := ratelimit.LogDenials(logTo(&log), ratelimit.WithDenialCallers([]byte(secret)), ratelimit.WithDenialInterval(0))
		take(denyAll(ratelimit.WithObserver(observer)).Guard(method("Create", rules.User)), alice())
		_, caller, _ := strings.Cut(log.String(), " caller=")
		callers[caller] = true
	}
	if len(callers) != 2 {
		t.Errorf("two secrets make the same of one caller: %v", callers)
	}
}

func method(name string, kind rules.Kind) *rules.Policy {
	p := create(rules.Limit{Kind: kind, Rules: per(1, time.Minute)})
	p.Method = name
	return p
}

func TestDenialsOfAQuietLoggerCostNothing(t *testing.T) {
	seen := new(ratelimittest.Recorder)
	take(denyAll(ratelimit.WithObserver(seen)).Guard(method("Create", rules.User)), alice())
	denial := seen.Decisions()[0]
	quiet := ratelimit.LogDenials(slog.New(slog.DiscardHandler))
	if n := testing.AllocsPerRun(100, func() { quiet.Observe(t.Context(), &denial.Decision, denial.Err) }); n != 0 {
		t.Errorf("a denial that nobody logs takes %v allocations, want 0", n)
	}
}

func TestLogDenialsRefuses(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	for want, make := range map[string]func(){
		"ratelimit: LogDenials without a logger, want one, or no LogDenials":  func() { ratelimit.LogDenials(nil) },
		"ratelimit: a denial interval of -1s, want 0 or more":                 func() { ratelimit.LogDenials(log, ratelimit.WithDenialInterval(-time.Second)) },
		"ratelimit: a secret of 5 bytes for callers in logs, want 16 or more": func() { ratelimit.LogDenials(log, ratelimit.WithDenialCallers([]byte("short"))) },
		"ratelimit: a secret of 0 bytes for callers in logs, want 16 or more": func() { ratelimit.LogDenials(log, ratelimit.WithDenialCallers(nil)) },
	} {
		func() {
			defer func() {
				if got := recover(); got != want {
					t.Errorf("LogDenials panics with %v, want %s", got, want)
				}
			}()
			make()
		}()
	}
}
