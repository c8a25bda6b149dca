package ratelimit_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/memstore"
	"github.com/rlgen/rlgen/rules"
)

// curious asks the limiter whatever it is told, and has it told once more.
type curious struct {
	limiter *ratelimit.Limiter
	policy  *rules.Policy
	told    []string
}

func (c *curious) Observe(context.Context, *ratelimit.Decision, error) {}

func (c *curious) Reloaded(ctx context.Context, err error) {
	text := "in force"
	if err != nil {
		text = err.Error()
	}
	c.told = append(c.told, text)
	_ = c.limiter.Survey()
	_, _ = c.limiter.Find("Get")
	_, _ = c.limiter.Prepare(c.policy)
	_, _ = c.limiter.Guard(c.policy).Take(ctx)
	if len(c.told) == 1 {
		c.limiter.KeepOverrides(ctx, errors.New("told meanwhile"))
		if len(c.told) > 1 {
			c.told = append(c.told, "and before the one before was")
		}
	}
}

// Whoever is told of overrides may ask the limiter, and is told of one after the other.
func TestReloadedMayAsk(t *testing.T) {
	c := &curious{policy: &rules.Policy{Package: "reload", Type: "reload.Store", Method: "Get", Limits: []rules.Limit{{Kind: rules.Global, Rules: []rules.Rule{{Count: 5, Window: 3600e9}}}}}}
	limiter, err := ratelimit.New(memstore.New(), ratelimit.WithLogger(slog.New(slog.DiscardHandler)), ratelimit.WithObserver(c))
	if err != nil {
		t.Fatal(err)
	}
	c.limiter = limiter
	limiter.Guard(c.policy)
	if err := limiter.Override(t.Context(), []rules.Override{{Name: "Get", Text: "6,1h"}}); err != nil {
		t.Fatal(err)
	}
	limiter.KeepOverrides(t.Context(), errors.New("unreadable"))
	if want := []string{"in force", "told meanwhile", "unreadable"}; !slices.Equal(c.told, want) {
		t.Errorf("told %q, want %q", c.told, want)
	}
}

// What is wrong with overrides is logged once while it is the same, and again once others have held since.
func TestOverridesRefusedAgain(t *testing.T) {
	var log strings.Builder
	limiter, err := ratelimit.New(memstore.New(), ratelimit.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	if err != nil {
		t.Fatal(err)
	}
	for round := range 2 {
		for range 3 {
			limiter.KeepOverrides(t.Context(), errors.New("unreadable"))
		}
		if n := strings.Count(log.String(), "unreadable"); n != round+1 {
			t.Errorf("round %d: the log has it %d times, want once a round:\n%s", round, n, &log)
		}
		if err := limiter.Override(t.Context()); err != nil {
			t.Fatal(err)
		}
		if refused := limiter.Survey().Refused; refused != "" {
			t.Errorf("Survey says that %q is refused, want nothing once overrides hold", refused)
		}
	}
}
