package rediscall

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/store"
)

// serverOf is the server of a client with a pool of some size.
func serverOf(t *testing.T, pool int) *Server {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:0", PoolSize: pool})
	t.Cleanup(func() { client.Close() })
	return NewServers("rediscall", client).Of("")
}

// TestGateIsNarrowerThanThePool holds that what waits for its turn leaves connections to what does not, where there are several.
func TestGateIsNarrowerThanThePool(t *testing.T) {
	for pool, want := range map[int]int{1: 1, 2: 1, 3: 1, 4: 2, 8: 6, 20: 15} {
		if got := cap(serverOf(t, pool).gate.room); got != want {
			t.Errorf("a pool of %d has a gate of %d, want %d", pool, got, want)
		}
	}
}

// TestGateTellsACrowdFromADeadServer holds that a call whose turn does not come is the server's failure only if the server answers nobody.
func TestGateTellsACrowdFromADeadServer(t *testing.T) {
	for _, answers := range []bool{false, true} {
		s := serverOf(t, 1)
		synctest.Test(t, func(t *testing.T) {
			s.gate = gate{make(chan struct{}, 1), make(chan struct{}, 1)}
			place, err := s.Enter(t.Context(), time.Second, new(bool), nil)
			if err != nil {
				t.Fatal(err)
			}
			time.AfterFunc(time.Second/2, func() {
				if answers {
					s.answered()
				}
			})
			began := time.Now()
			_, err = s.Enter(t.Context(), time.Second, new(bool), nil)
			var failed *store.Error
			if crowded := errors.Is(err, ErrCrowded); crowded != answers || errors.As(err, &failed) == answers || time.Since(began) != time.Second {
				t.Errorf("Enter where the server answers others (%t) = %v after %v, want it crowded only then, and after a second", answers, err, time.Since(began))
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			if _, err := s.Enter(ctx, time.Second, new(bool), nil); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Enter with a context that ends = %v, want its error", err)
			}
			urgent := true
			if fast, err := s.Enter(t.Context(), time.Second, &urgent, nil); err != nil {
				t.Errorf("Enter of what is urgent = %v, want nil", err)
			} else {
				fast.Leave()
			}
			woken := make(chan struct{})
			time.AfterFunc(time.Second/2, func() { woken <- struct{}{} })
			urgent = false
			if _, err := s.Enter(t.Context(), time.Second, &urgent, woken); err != nil || !urgent {
				t.Errorf("Enter of what becomes urgent = %v, and it is urgent: %t, want nil and true", err, urgent)
			}
			place.Leave()
			if _, err := s.Enter(t.Context(), 0, new(bool), nil); err != nil {
				t.Errorf("Enter once there is room = %v, want nil", err)
			}
		})
	}
}

// TestCrowded holds which calls lacked nothing but a connection.
func TestCrowded(t *testing.T) {
	s := serverOf(t, 1)
	before := s.Answers()
	s.answered()
	for _, c := range []struct {
		name    string
		err     error
		answers uint64
		want    bool
	}{
		{"no answer, nobody else has one", Fail("p", store.Unavailable, ErrBudget, ""), before + 1, false},
		{"not sent, others have answers", Fail("p", store.Unavailable, ErrBudget, ""), before, true},
		{"no connection, others have answers", Fail("p", store.Unavailable, redis.ErrPoolTimeout, ""), before, true},
		{"perhaps sent, others have answers", Fail("p", store.Indeterminate, ErrBudget, ""), before, false},
		{"refused, others have answers", Fail("p", store.Unavailable, errors.New("OOM"), ""), before, false},
		{"decided", nil, before, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := s.Crowded(c.err, c.answers)
			if errors.Is(got, ErrCrowded) != c.want || !c.want && got != c.err {
				t.Errorf("Crowded(%v) = %v, want ErrCrowded: %t", c.err, got, c.want)
			}
		})
	}
}
