package ratelimitfx

import (
	"errors"
	"log/slog"

	"github.com/redis/go-redis/v9"
	"go.uber.org/fx"

	"github.com/rlgen/rlgen/ratelimit/embedded"
	"github.com/rlgen/rlgen/ratelimit/memstore"
	"github.com/rlgen/rlgen/ratelimit/redisstore"
	"github.com/rlgen/rlgen/ratelimit/store"
)

// sources are what an app may have to keep counts in.
type sources struct {
	fx.In

	Store     store.Store           `optional:"true"`
	Redis     *redisstore.Store     `optional:"true"`
	Universal redis.UniversalClient `optional:"true"`
	Client    *redis.Client         `optional:"true"`
	Cluster   *redis.ClusterClient  `optional:"true"`
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

func over(client redis.UniversalClient) (store.Store, error) {
	s, err := redisstore.New(client)
	if err != nil {
		return nil, err // not s: a nil *Store is no nil store.Store
	}
	return s, nil
}

// InProcess provides the [store.Store] of a program that runs as one instance: the counts are the process's own, and end
// with it.
var InProcess = fx.Module("ratelimit.inprocess", fx.Provide(func() store.Store { return memstore.New() }))

// Embedded provides a [store.Store] over a Redis inside the process, for trying out and tests, and the *[embedded.Server]
// itself. The server says once, at its start, that it is not for production; it is closed when the app stops.
var Embedded = fx.Module("ratelimit.embedded", fx.Provide(startEmbedded, embeddedStore))

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

func embeddedStore(server *embedded.Server) (store.Store, error) { return over(server.Client()) }
