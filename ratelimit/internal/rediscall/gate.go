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
// for one of these, and what is not to wait finds one.
type gate struct{ room chan struct{} }

func newGate(client redis.UniversalClient) gate {
	return gate{make(chan struct{}, width(client))}
}

// width is three quarters of the connections that a client has for each of its servers.
func width(client redis.UniversalClient) int {
	connections := 16
	switch c := client.(type) {
	case *redis.Client:
		connections = connectionsOf(c.Options().PoolSize, c.Options().MaxActiveConns)
	case *redis.ClusterClient:
		connections = connectionsOf(c.Options().PoolSize, c.Options().MaxActiveConns)
	}
	return max(1, connections*3/4)
}

func connectionsOf(pool, most int) int {
	if most > 0 {
		return min(pool, most)
	}
	return pool
}

// Enter waits for the caller's turn at the server, up to patience, and is to be followed by Leave where it returns nil. Its error wraps
// [ErrCrowded] if the server answered others meanwhile; else it is a [store.Error], or that of ctx.
func (s *Server) Enter(ctx context.Context, patience time.Duration) error {
	select {
	case s.gate.room <- struct{}{}:
		return nil
	default:
	}
	answers := s.Answers()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case s.gate.room <- struct{}{}:
		return nil
	case <-ctx.Done():
		return store.Ended(ctx)
	case <-timer.C:
	}
	return s.Crowded(Fail(s.servers.pkg, store.Unavailable, ErrBudget, ""), answers)
}

// Leave lets the next call through.
func (s *Server) Leave() { <-s.gate.room }

// Crowded returns err, or [ErrCrowded] where err is that of a call which was surely not sent, though the server has answered others since it had
// given so many answers: what it lacked is a connection.
func (s *Server) Crowded(err error, answers uint64) error {
	var failed *store.Error
	starved := errors.Is(err, ErrBudget) || errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrPoolExhausted)
	if starved && errors.As(err, &failed) && failed.Class == store.Unavailable && s.Answers() != answers {
		return ErrCrowded
	}
	return err
}
