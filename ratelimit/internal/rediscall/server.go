package rediscall

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/store"
)

// Servers are those that a package asks through one client: of each, how it does. Calls are kept from one that does not decide, where each
// would wait for its budget in vain, and from no other. They are safe for concurrent use. The zero Servers is not valid;
// [NewServers] makes one.
type Servers struct {
	pkg   string // whose errors theirs are
	of    redis.UniversalClient
	named func(key string) (string, *redis.Client) // the name and the client of the server that decides on a key, by what the client knows
	alone *Server                                  // the only one of the client, or all of them as long as none has decided

	known atomic.Pointer[map[string]*Server] // by name; what it points to is never changed
	mu    sync.Mutex                         // held while known becomes another
	swept time.Time                          // when known was last rid of those that nobody asks
}

// Server is one of [Servers].
type Server struct {
	breaker
	gate    gate
	refusal refusal
	name    string // its address; empty if the client knows of no other
	servers *Servers
	met     atomic.Bool                  // it has decided
	asked   atomic.Bool                  // somebody wanted it since the latest sweep
	weeding atomic.Bool                  // the client's connections are looked through
	node    atomic.Pointer[redis.Client] // its client, where that is not the whole one

	companion atomic.Value
}

// Name is the server's address, empty where its client knows of no other, or has not been answered yet.
func (s *Server) Name() string { return s.name }

// Companion returns what its owner keeps with the server as long as it is known, always of one type: what make makes, which may be called more than once.
func (s *Server) Companion(make func() any) any {
	if c := s.companion.Load(); c != nil {
		return c
	}
	s.companion.CompareAndSwap(nil, make())
	return s.companion.Load()
}

// NewServers returns the servers of a package's calls, before the first of them.
func NewServers(pkg string, client redis.UniversalClient) *Servers {
	s := &Servers{pkg: pkg, of: client, named: namer(client), swept: time.Now()}
	s.alone = s.server("")
	s.known.Store(&map[string]*Server{})
	return s
}

// namer returns what names the server that a client asks about a key: a master of a Cluster, by its address. Every other client
// has one server at a time, wherever that is.
func namer(client redis.UniversalClient) func(key string) (string, *redis.Client) {
	if client, ok := client.(*redis.ClusterClient); ok {
		return func(key string) (string, *redis.Client) { return named(client.MasterForKey(context.Background(), key)) }
	}
	return func(string) (string, *redis.Client) { return "", nil }
}

func named(c *redis.Client, err error) (string, *redis.Client) {
	if err != nil {
		return "", nil
	}
	return c.Options().Addr, c
}

func (s *Servers) server(name string) *Server {
	return &Server{breaker: newBreaker(), gate: newGate(s.of), name: name, servers: s}
}

// Of returns the server that decides on a key now. It asks nobody: until a call has been decided, and the client knows which server has
// which key, one Server stands for all.
func (s *Servers) Of(key string) *Server {
	var name string
	var node *redis.Client
	if s.alone.met.Load() {
		name, node = s.named(key)
	}
	if name == "" {
		return s.alone
	}
	of := (*s.known.Load())[name]
	if of == nil {
		of = s.add(name)
	}
	if !of.asked.Load() {
		of.asked.Store(true)
	}
	if of.node.Load() != node {
		of.node.Store(node)
	}
	return of
}

// sweep is how often those are forgotten that nobody has asked since the time before.
const sweep = time.Minute

// add makes a server known. Servers that have left are forgotten then, as clients forget them, too.
func (s *Servers) add(name string) *Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := maps.Clone(*s.known.Load())
	if now := time.Now(); now.Sub(s.swept) > sweep {
		s.swept = now
		maps.DeleteFunc(known, func(_ string, of *Server) bool { return !of.asked.Swap(false) })
	}
	if known[name] == nil {
		known[name] = s.server(name)
	}
	s.known.Store(&known)
	return known[name]
}

// Resting are the names of those at rest, or that one call at a time asks since the last one, in order: an empty one stands for the only server.
func (s *Servers) Resting() (names []string) {
	if s.alone.spared() {
		names = append(names, "")
	}
	for name, of := range *s.known.Load() {
		if of.spared() {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// spoken is what the server has said of who asks it; nil where it is not known which server that is.
func (s *Server) spoken() *refusal {
	if s == nil {
		return nil
	}
	return &s.refusal
}

// answered takes note of a call that was decided in time.
func (s *Server) answered() {
	s.answers.Add(1)
	if all := s.servers.alone; !all.met.Load() {
		all.met.Store(true)
	}
}

// Rest is the error of a call that is not sent because the server is at rest.
func (s *Server) Rest() error { return s.At(Fail(s.servers.pkg, store.Unavailable, ErrResting, "")) }

// At is err, of a call that the server was asked, with the name of the server where there are several.
func (s *Server) At(err error) error {
	if err == nil || s.name == "" {
		return err
	}
	var failed *store.Error
	if !errors.As(err, &failed) {
		return err
	}
	return &store.Error{Class: failed.Class, Err: fmt.Errorf("server %s: %w", s.name, failed.Err)}
}
