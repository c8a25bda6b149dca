package ratelimitfx

import (
	"errors"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/fx"

	"github.com/rlgen/rlgen/ratelimit/embedded"
	"github.com/rlgen/rlgen/ratelimit/lock"
	"github.com/rlgen/rlgen/ratelimit/lock/redislock"
	"github.com/rlgen/rlgen/ratelimit/memstore"
	"github.com/rlgen/rlgen/ratelimit/redisstore"
	"github.com/rlgen/rlgen/ratelimit/store"
)

// sources are what an app may have to keep counts and locks in.
type sources struct {
	fx.In

	Store     store.Store           `optional:"true"`
	Redis     *redisstore.Store     `optional:"true"`
	Universal redis.UniversalClient `optional:"true"`
	Client    *redis.Client         `optional:"true"`
	Cluster   *redis.ClusterClient  `optional:"true"`

	Locks      lock.Store       `optional:"true"`
	RedisLocks *redislock.Store `optional:"true"`
}

var (
	errNoStore = errors.New("ratelimitfx: the app has nothing to keep the counts in: " +
		"provide a redis.UniversalClient, *redis.Client, *redis.ClusterClient or store.Store " +
		"(one that itself lacks a dependency counts as none), " +
		"or add ratelimitfx.InProcess to count in this process alone, or ratelimitfx.Embedded to try out")
	errTwoClients = errors.New("ratelimitfx: the app has a *redis.Client and a *redis.ClusterClient: " +
		"say which of them keeps the counts by providing it as a redis.UniversalClient as well")
)

// store returns the store that the app means.
func (s sources) store() (store.Store, error) {
	switch {
	case s.Store != nil:
		return s.Store, nil
	case s.Redis != nil:
		return s.Redis, nil
	case s.Universal != nil:
		return over(s.Universal)
	case s.Client != nil && s.Cluster != nil:
		return nil, errTwoClients
	case s.Client != nil:
		return over(s.Client)
	case s.Cluster != nil:
		return over(s.Cluster)
	}
	return nil, errNoStore
}

// locks returns the store of locks that the app means, and what closes it where it is not the app's own. It is nil where the app has
// nothing that one could be made of.
func (s sources) locks() (lock.Store, func() error, error) {
	switch {
	case s.Locks != nil:
		return s.Locks, nil, nil
	case s.RedisLocks != nil:
		return s.RedisLocks, nil, nil
	case s.Universal != nil:
		return locksOver(s.Universal)
	case s.Client != nil && s.Cluster != nil:
		return nil, nil, errTwoClients
	case s.Client != nil:
		return locksOver(s.Client)
	case s.Cluster != nil:
		return locksOver(s.Cluster)
	}
	return nil, nil, nil
}

func locksOver(client redis.UniversalClient) (lock.Store, func() error, error) {
	s, err := redislock.New(client)
	if err != nil {
		return nil, nil, err
	}
	return s, s.Close, nil
}

func over(client redis.UniversalClient, opts ...redisstore.Option) (store.Store, error) {
	s, err := redisstore.New(client, opts...)
	if err != nil {
		return nil, err // not s: a nil *Store is no nil store.Store
	}
	return s, nil
}

// InProcess provides the [store.Store] and the [lock.Store] of a program that runs as one instance: counts and locks are the
// process's own, and end with it.
var InProcess = fx.Module("ratelimit.inprocess", fx.Provide(
	func() store.Store { return memstore.New() },
	func() lock.Store { return lock.NewMemory() },
))

// Embedded provides a [store.Store] and a [lock.Store] over a Redis inside the process, for trying out and tests, and the
// *[embedded.Server] itself. The server says once, at its start, that it is not for production; it is closed when the app stops. A call may last a
// second, not [redisstore.DefaultBudget]: where such a server is late, the machine is busy, and nothing is out of order.
var Embedded = fx.Module("ratelimit.embedded", fx.Provide(startEmbedded, embeddedStore, embeddedLocks))

type embeddedIn struct {
	fx.In

	Lifecycle fx.Lifecycle
	Logger    *slog.Logger `optional:"true"`
}

func startEmbedded(in embeddedIn) (*embedded.Server, error) {
	var opts []embedded.Option
	if in.Logger != nil {
		opts = append(opts, embedded.WithLogger(in.Logger))
	}
	server, err := embedded.Start(opts...)
	if err != nil {
		return nil, err
	}
	in.Lifecycle.Append(fx.StopHook(server.Close))
	return server, nil
}

// embeddedBudget is how long a call of an embedded Redis may last.
const embeddedBudget = time.Second

func embeddedStore(server *embedded.Server) (store.Store, error) {
	return over(server.Client(), redisstore.WithBudget(embeddedBudget))
}

func embeddedLocks(lc fx.Lifecycle, server *embedded.Server) (lock.Store, error) {
	s, closing, err := locksOver(server.Client())
	if err != nil {
		return nil, err
	}
	lc.Append(fx.StopHook(closing))
	return s, nil
}
