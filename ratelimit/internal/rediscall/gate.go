package rediscall

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/store"
)

// ErrCrowded is the cause of a call that is not sent because others of this process keep the client's connections busy, while the server answers those.
var ErrCrowded = errors.New("more is asked at once than the client has connections for")

// gate lets so many calls at once through to a server, in the order in which they came: fewer than the client has connections, so that none waits
// for one of these, and what is not to wait finds one. Calls whose turn it is among those of all processes go past those that only ask whether it is.
type gate struct{ room, fast chan struct{} }

func newGate(client redis.UniversalClient) gate {
	n := connections(client)
	fast := max(1, n/8)
	return gate{make(chan struct{}, max(1, min(n*3/4, n-1-fast))), make(chan struct{}, fast)}
}

// Few is how many calls go past others at once.
func (s *Server) Few() int { return cap(s.gate.fast) }

// connections is how many a client has for each of its servers.
func connections(client redis.UniversalClient) int {
	switch c := client.(type) {
	case *redis.Client:
		return connectionsOf(c.Options().PoolSize, c.Options().MaxActiveConns)
	case *redis.ClusterClient:
		return connectionsOf(c.Options().PoolSize, c.Options().MaxActiveConns)
	}
	return 16
}

func connectionsOf(pool, most int) int {
	if most > 0 {
		return min(pool, most)
	}
	return pool
}

// Enter waits for the caller's turn at the server, up to patience, past others where it is urgent, or becomes so by what woken receives, which sets it. The place that it returns is to be left once the server has
// answered. Its error wraps [ErrCrowded] if the server answered others meanwhile; else it is a [store.Error], or that of ctx.
func (s *Server) Enter(ctx context.Context, patience time.Duration, urgent *bool, woken <-chan struct{}) (Place, error) {
	select {
	case s.gate.room <- struct{}{}:
		return s.gate.room, nil
	default:
	}
	answers := s.Answers()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	var fast chan struct{} // nil while it is not urgent
	for {
		if *urgent {
			fast, woken = s.gate.fast, nil
		}
		select {
		case s.gate.room <- struct{}{}:
			return s.gate.room, nil
		case fast <- struct{}{}:
			return fast, nil
		case <-woken:
			*urgent = true
		case <-ctx.Done():
			return nil, store.Ended(ctx)
		case <-timer.C:
			return nil, s.Crowded(Fail(s.servers.pkg, store.Unavailable, ErrBudget, ""), answers)
		}
	}
}

// Place is that of a call which was let through. The zero Place is none.
type Place chan struct{}

// Leave lets the next call through.
func (p Place) Leave() {
	if p != nil {
		<-p
	}
}

// Crowded returns err, or [ErrCrowded] where err is that of a call which was surely not sent, though the server has answered others since it had
// given so many answers: what it lacked is a connection.
func (s *Server) Crowded(err error, answers uint64) error {
	if err == nil {
		return nil
	}
	var failed *store.Error
	starved := errors.Is(err, ErrBudget) || errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrPoolExhausted)
	if starved && errors.As(err, &failed) && failed.Class == store.Unavailable && s.Answers() != answers {
		return ErrCrowded
	}
	return err
}
