package ratelimit_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/memstore"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// checkedStore is a store that has found something out.
type checkedStore struct {
	store.Store
	findings []store.Finding
	err      error
	asked    []store.Request
}

func (s *checkedStore) Check(_ context.Context, requests []store.Request) ([]store.Finding, error) {
	s.asked = requests
	return s.findings, s.err
}

func TestCheck(t *testing.T) {
	for _, test := range []struct {
		name   string
		err    error
		want   error
		logged string
	}{
		{"well", nil, nil, `level=WARN msg="rate limit store: the keys are evicted"`},
		{"unavailable", &store.Error{Class: store.Unavailable, Err: errors.New("no route")}, nil, "no route"},
		{"misconfigured", &store.Error{Class: store.Misconfigured, Err: errors.New("no permission")}, ratelimit.ErrMisconfigured, "evicted"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := &checkedStore{memstore.New(), []store.Finding{{Level: slog.LevelWarn, Text: "the keys are evicted"}}, test.err, nil}
			var log bytes.Buffer
			l := limiter(t, s, ratelimit.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
			l.Guard(create(rules.Limit{Kind: rules.Global, Rules: per(5, time.Hour)}, rules.Limit{Kind: rules.User, Rules: per(5, time.Hour)}))
			if err := l.Check(context.Background()); !errors.Is(err, test.want) {
				t.Errorf("Check = %v, want %v", err, test.want)
			}
			if !strings.Contains(log.String(), test.logged) {
				t.Errorf("the log is %s, want %q in it", log.String(), test.logged)
			}
			var keys []string
			for _, req := range s.asked {
				keys = append(keys, req.Key)
				if req.Cost != 0 {
					t.Errorf("Check asks for cost %d, want 0", req.Cost)
				}
			}
			if got, want := strings.Join(keys, " "), "rl:global:shop.Orders-Create rl:user=<id>:shop.Orders-Create"; got != want {
				t.Errorf("Check asks about the keys %s, want %s", got, want)
			}
		})
	}
	if err := limiter(t, memstore.New()).Check(context.Background()); err != nil {
		t.Errorf("Check of a store that cannot tell = %v, want nil", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := limiter(t, &checkedStore{Store: memstore.New()}).Check(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Check with a context that is done = %v, want its error", err)
	}
}

// TestCheckOfLocks holds that a check finds the key of a limit that holds something, where another program uses it.
func TestCheckOfLocks(t *testing.T) {
	for _, l := range []rules.Limit{{Kind: rules.Lock, Per: rules.PerGlobal}, {Kind: rules.Concurrency, Per: rules.PerGlobal, Count: 3}} {
		t.Run(l.Kind.String(), func(t *testing.T) {
			s, server := inRedis(t)
			limiter := s.limiter(t, ratelimit.WithLogger(slog.New(slog.DiscardHandler)))
			g := limiter.Guard(create(l))
			if err := limiter.Check(context.Background()); err != nil {
				t.Fatal(err)
			}
			client, ctx := server.Client(t), context.Background()
			var key string
			err := run(g, ctx, func(context.Context) error {
				for _, held := range client.Keys(ctx, "rl:*global*").Val() {
					if !strings.HasSuffix(held, ":token") {
						key = held
					}
				}
				return nil
			})
			if err != nil || key == "" {
				t.Fatalf("Hold = %v, and holds the key %q, want one", err, key)
			}
			client.Set(ctx, key, "another program's", 0)
			if err := limiter.Check(ctx); !errors.Is(err, ratelimit.ErrMisconfigured) || !strings.Contains(err.Error(), key) {
				t.Errorf("Check = %v, want %v with the key %s", err, ratelimit.ErrMisconfigured, key)
			}
		})
	}
}
