package redistest

import (
	"errors"
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"
)

// Server is one redis-server.
type Server struct{ process *process }

// Start starts a server that only this test uses, with further arguments of redis-server's, and stops it when the
// test ends.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	need(t)
	p, err := startFor(t)(func(port int, dir string) []string { return append(standalone(port, dir), args...) })
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// starter starts a server, and knows when it is to be stopped.
type starter func(args arguments) (*Server, error)

// startFor starts servers that are stopped when the test ends.
func startFor(t testing.TB) starter {
	return func(args arguments) (*Server, error) {
		p, err := start(args)
		if err != nil {
			return nil, err
		}
		t.Cleanup(p.stop)
		return &Server{p}, nil
	}
}

// standalone are the arguments of a server that keeps nothing.
func standalone(port int, _ string) []string {
	return []string{
		"--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
		"--repl-diskless-sync-delay", "0",
	}
}

// Addr is the server's host and port.
func (s *Server) Addr() string { return s.process.addr() }

// Client returns a client of the server that is closed when the test ends. Each of opts may change its options.
func (s *Server) Client(t testing.TB, opts ...func(*redis.Options)) *redis.Client {
	o := &redis.Options{Addr: s.Addr()}
	for _, opt := range opts {
		opt(o)
	}
	client := redis.NewClient(o)
	t.Cleanup(func() { client.Close() })
	return client
}

// Freeze stops the server's execution: it keeps its connections and answers none. It goes on when the test ends, if
// not with [Server.Resume].
func (s *Server) Freeze(t testing.TB) {
	t.Helper()
	s.signal(t, "STOP")
	t.Cleanup(func() { s.process.signal("CONT") })
}

// Resume makes a frozen server go on.
func (s *Server) Resume(t testing.TB) {
	t.Helper()
	s.signal(t, "CONT")
}

// Kill ends the server at once. Nothing listens on its port afterwards.
func (s *Server) Kill(t testing.TB) {
	t.Helper()
	s.signal(t, "KILL")
	if err := Poll(func() error {
		if !free(s.process.port) {
			return errors.New("the server still listens")
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// Restart starts a server that [Server.Kill] has ended, on the same port, with nothing of what it held.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	if err := s.process.restart(); err != nil {
		t.Fatal(err)
	}
}

func (s *Server) signal(t testing.TB, name string) {
	t.Helper()
	if err := s.process.signal(name); err != nil {
		t.Fatal(err)
	}
}
