package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/rlgen/rlgen/rules"
)

// DefaultDenialInterval is how often [LogDenials] logs of one limit at most unless [WithDenialInterval] says otherwise.
const DefaultDenialInterval = 10 * time.Second

// LogDenials returns an observer that logs to log, at level info, which limits deny calls: the first denial of each limit at once, and
// then one in each interval, with the number of those since the last line that have none. What is suppressed when denials
// cease is told with the next one. It is for [WithObserver], and safe for concurrent use.
//
// What a shadow would deny has lines of its own, with mode=shadow.
//
// A line names the method and the limit, and why: that it is exceeded, with banned=true where the caller is banned for that, that the call
// carries no id, or that its cost can never be met. It names nobody, unless [WithDenialCallers] makes it tell callers apart. It panics if log is nil, or an option is not valid.
func LogDenials(log *slog.Logger, opts ...DenialOption) Observer {
	d := &denials{log: log, interval: DefaultDenialInterval, limits: make(map[deniedBy]*denied)}
	for _, o := range opts {
		o.applyDenials(d)
	}
	switch {
	case log == nil:
		panic("ratelimit: LogDenials without a logger, want one, or no LogDenials")
	case d.interval < 0:
		panic(fmt.Sprintf("ratelimit: a denial interval of %v, want 0 or more", d.interval))
	case d.callers != nil && len(d.callers.secret) < minSecret:
		panic(fmt.Sprintf("ratelimit: a secret of %d bytes for callers in logs, want %d or more", len(d.callers.secret), minSecret))
	}
	return d
}

// DenialOption configures [LogDenials].
type DenialOption interface{ applyDenials(*denials) }

type denialOption func(*denials)

func (f denialOption) applyDenials(d *denials) { f(d) }

// WithDenialInterval makes one line in each interval the most that is logged of one limit; 0 logs every denial, which lets callers
// write as much as they like. The default is [DefaultDenialInterval].
func WithDenialInterval(interval time.Duration) DenialOption {
	return denialOption(func(d *denials) { d.interval = interval })
}

// WithDenialCallers adds to a line a hash of the id that the limit counts by, keyed by secret: lines of one caller have the same, and
// nobody without the secret can tell whose it is. The default is no trace of the caller.
func WithDenialCallers(secret []byte) DenialOption {
	return denialOption(func(d *denials) { d.callers = newHasher(append([]byte{}, secret...)) })
}

// denials is an observer that logs some of them.
type denials struct {
	log      *slog.Logger
	interval time.Duration
	callers  *hasher // nil for no callers

	mu     sync.Mutex
	limits map[deniedBy]*denied
}

// deniedBy is who denies.
type deniedBy struct{ typ, method, limit string }

// denied is what is remembered of a limit that does.
type denied struct {
	next       time.Time // when there may be a line again
	suppressed int64     // since the last line
}

// Observe logs a denial, or counts it as suppressed.
func (d *denials) Observe(ctx context.Context, decision *Decision, err error) {
	if !d.log.Enabled(ctx, slog.LevelInfo) {
		return
	}
	for i := range decision.Limits {
		if l := &decision.Limits[i]; l.Mode == rules.Shadow && !l.Allowed {
			by, attrs := explainShadow(decision.Policy, l)
			d.write(ctx, "rate limit would deny a call", by, attrs, l)
		}
	}
	if err == nil {
		return
	}
	if by, attrs := explain(decision, err); attrs != nil {
		d.write(ctx, "rate limit denied a call", by, attrs, decision.denying())
	}
}

// write logs a line about a limit that denies, whose decision may be nil, or counts it as suppressed.
func (d *denials) write(ctx context.Context, text string, by deniedBy, attrs []slog.Attr, limit *LimitDecision) {
	suppressed, ok := d.sample(by, time.Now())
	if !ok {
		return
	}
	line := append([]slog.Attr{slog.String("type", by.typ), slog.String("method", by.method), slog.String("limit", by.limit)}, attrs...)
	if caller := d.caller(limit); caller != "" {
		line = append(line, slog.String("caller", caller))
	}
	d.log.LogAttrs(ctx, slog.LevelInfo, text, append(line, slog.Int64("suppressed", suppressed))...)
}

// sample reports whether a denial now is to be logged, and how many before it were not.
func (d *denials) sample(by deniedBy, now time.Time) (suppressed int64, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	of := d.limits[by]
	if of == nil {
		of = new(denied)
		d.limits[by] = of
	}
	if now.Before(of.next) {
		of.suppressed++
		return 0, false
	}
	suppressed = of.suppressed
	*of = denied{next: now.Add(d.interval)}
	return suppressed, true
}

// explain says which limit denies a call, and why. There are no attributes if none does: the store could not decide, or the context has ended.
func explain(d *Decision, err error) (by deniedBy, attrs []slog.Attr) {
	var exceeded *ExceededError
	var cost *CostError
	var failed *callError
	switch {
	case errors.As(err, &exceeded):
		by = deniedBy{exceeded.Type, exceeded.Method, exceeded.Limit}
		return by, explainExceeded(exceeded)
	case errors.As(err, &cost):
		by = deniedBy{cost.Type, cost.Method, cost.Limit}
		return by, []slog.Attr{slog.String("reason", ErrCost.Error())}
	case errors.As(err, &failed) && failed.limit >= 0 && (failed.class == ErrNoIdentity || failed.class == ErrUnknownPlan):
		by = deniedBy{d.Policy.Type, d.Policy.Method, d.Policy.Name(failed.limit)}
		return by, []slog.Attr{slog.String("reason", failed.class.Error())}
	}
	return by, nil
}

// explainExceeded says what keeps a call out, for how long, and that it is a ban where it is one.
func explainExceeded(e *ExceededError) []slog.Attr {
	attrs := []slog.Attr{slog.String("reason", e.says()), slog.Duration("retry_after", e.RetryAfter)}
	if e.Banned {
		attrs = append(attrs, slog.Bool("banned", true))
	}
	return attrs
}

// explainShadow says why a shadow would deny a call.
func explainShadow(p *rules.Policy, l *LimitDecision) (by deniedBy, attrs []slog.Attr) {
	by = deniedBy{p.Type, p.Method, p.Name(l.Index)}
	says := ExceededError{Kind: p.Limits[l.Index].Kind, Rule: rules.Rule{Count: p.Limits[l.Index].Count}}
	for i := range l.Rules {
		if r := &l.Rules[i]; r.RetryAfter > says.RetryAfter {
			says.Rule, says.RetryAfter = r.Rule, r.RetryAfter
		}
	}
	says.Banned = l.bars(says.RetryAfter)
	return by, append([]slog.Attr{slog.String("mode", l.Mode.String())}, explainExceeded(&says)...)
}

// caller is the hash of the id that a limit denies a call for; empty if there is none, or it is not to be told.
func (d *denials) caller(limit *LimitDecision) string {
	if d.callers == nil || limit == nil {
		return ""
	}
	_, rest, _ := strings.Cut(limit.Key, ":")
	id, _, _ := strings.Cut(rest, ":")
	if id == rules.Global.String() {
		return ""
	}
	return string(appendHash(nil, d.callers, id, callerBytes))
}

// callerBytes of a hash tell callers apart.
const callerBytes = 8

// denying is the limit that denies for the longest; nil if none denies.
func (d *Decision) denying() *LimitDecision {
	if i, _ := d.worst(); i >= 0 {
		return &d.Limits[i]
	}
	for i := range d.Limits {
		if !d.Limits[i].Allowed && d.Limits[i].Mode == rules.Enforce {
			return &d.Limits[i] // what it holds has no rules
		}
	}
	return nil
}
