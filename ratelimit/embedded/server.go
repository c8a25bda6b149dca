// Package embedded runs a Redis inside the process, for trying out and for tests.
//
// It is not for production: its counts are one process's and end with it, and it is many times slower than Redis.
//
//	server, err := embedded.Start()
//	if err != nil {
//		return err
//	}
//	defer server.Close()
//	limits, err := redisstore.New(server.Client())
package embedded

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// Server is a Redis inside the process. Its time is the system's, and keys expire as time passes. It is safe for
// concurrent use. The zero Server is not valid; [Start] makes one.
type Server struct {
	redis  *miniredis.Miniredis
	client *redis.Client
	logger *slog.Logger

	close   sync.Once
	closed  chan struct{} // tells expire to end
	expired chan struct{} // expire has ended
	err     error         // of the client's closing
}

// Option configures a [Server].
type Option interface{ apply(*Server) }

type optionFunc func(*Server)

func (f optionFunc) apply(s *Server) { f(s) }

// WithLogger sets where the server says, once, at its start, that it is not for production. The default is
// [slog.Default].
func WithLogger(l *slog.Logger) Option {
	return optionFunc(func(s *Server) { s.logger = l })
}

// Start starts a server on a free port of the loopback interface. It runs until [Server.Close].
func Start(opts ...Option) (*Server, error) {
	s := &Server{
		redis:   miniredis.NewMiniRedis(),
		logger:  slog.Default(),
		closed:  make(chan struct{}),
		expired: make(chan struct{}),
	}
	for _, o := range opts {
		o.apply(s)
	}
	if s.logger == nil {
		return nil, errors.New("embedded: logger is nil, want one, or no WithLogger")
	}
	if err := s.redis.Start(); err != nil {
		return nil, fmt.Errorf("embedded: %w", err)
	}
	s.client = redis.NewClient(&redis.Options{Addr: s.redis.Addr()})
	go s.expire()
	s.logger.Warn("rate limits are counted by an embedded Redis inside this process: not for production", "addr", s.redis.Addr())
	return s, nil
}

// resolution is by how much a key may miss its expiry, and twice that if the process is starved.
const resolution = 50 * time.Millisecond

// expire lets the keys' times to live pass, which the server leaves to its owner.
func (s *Server) expire() {
	defer close(s.expired)
	tick := time.NewTicker(resolution)
	defer tick.Stop()
	last := time.Now()
	for {
		select {
		case <-s.closed:
			return
		case <-tick.C:
			now := time.Now()
			// By the monotonic clock: setting the system's time expires nothing. What a starved ticker missed is mostly not made up
			// for: a key that was set meanwhile would pay for time before it was.
			s.redis.FastForward(min(now.Sub(last), 2*resolution))
			last = now
		}
	}
}

// Client returns the server's own client, which [Server.Close] closes.
func (s *Server) Client() *redis.Client { return s.client }

// Addr is the server's host and port, for clients of other making.
func (s *Server) Addr() string { return s.redis.Addr() }

// Close closes the client and stops the server; what it held is gone. Closing again does nothing.
func (s *Server) Close() error {
	s.close.Do(func() {
		close(s.closed)
		<-s.expired
		s.err = s.client.Close()
		s.redis.Close()
	})
	return s.err
}
