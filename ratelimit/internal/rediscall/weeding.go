package rediscall

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	soundTime = time.Second            // in which a new connection is to be there and to carry an answer, for the old ones to be looked through
	leastWait = 100 * time.Millisecond // for the answer on an old one
)

// pool is a client of one server, whose connections are its own.
type pool interface {
	Options() *redis.Options
	PoolStats() *redis.PoolStats
	WithTimeout(time.Duration) *redis.Client
}

// pool returns the client of the server alone, nil where it is not known.
func (s *Server) pool() pool {
	if node := s.node.Load(); node != nil {
		return node
	}
	p, _ := s.servers.of.(pool)
	return p
}

// weed rids the client, in a goroutine that ends within seconds, of connections that have gone silent while the server answers on new ones. A firewall or a balancer that
// forgets idle connections tells nobody: each call finds out for itself, by its budget, and after the breaker has opened there is one at a time. Where no new connection is
// answered, the old ones are left alone: it is the server that is silent then.
func (s *Server) weed() {
	p := s.pool()
	if p == nil || idle(p) == [2]uint32{} || !s.weeding.CompareAndSwap(false, true) {
		return
	}
	go func() {
		defer s.weeding.Store(false)
		defer func() { _ = recover() }() // a program's Dialer is to end a call at most
		if took, ok := answersAnew(p.Options()); ok {
			ask(p, max(leastWait, 4*took))
		}
	}()
}

// silent says whether err is that of a call which nobody has answered.
func silent(err error) bool {
	var late net.Error
	return errors.Is(err, ErrBudget) || errors.Is(err, context.DeadlineExceeded) || errors.As(err, &late) && late.Timeout()
}

// answersAnew says whether the server answers on a new connection, in a way that takes no permission, and how long that takes.
func answersAnew(o *redis.Options) (took time.Duration, ok bool) {
	ctx, cancel := context.WithTimeout(context.Background(), soundTime)
	defer cancel()
	conn, err := o.Dialer(ctx, o.Network, o.Addr)
	if err != nil {
		return 0, false
	}
	defer conn.Close()
	begin := time.Now()
	_ = conn.SetDeadline(begin.Add(soundTime))
	if _, err := conn.Write([]byte("*1\r\n$4\r\nPING\r\n")); err != nil {
		return 0, false
	}
	var answer [1]byte
	_, err = conn.Read(answer[:])
	return time.Since(begin), err == nil && (answer[0] == '+' || answer[0] == '-')
}

// idle is how many connections are idle, those for commands, and those that the client has for pipelines alone.
func idle(p pool) (n [2]uint32) {
	stats := p.PoolStats()
	n[0] = stats.IdleConns
	if stats.PipelineStats != nil {
		n[1] = stats.PipelineStats.IdleConns
	}
	return n
}

// closeForeign closes, in a goroutine that ends within a second, idle connections of a client on
// which replies do not belong to the commands before them.
func (s *Server) closeForeign(client redis.UniversalClient) {
	var p pool
	if s != nil {
		p = s.pool()
	} else {
		p, _ = client.(pool)
	}
	if p == nil || s != nil && !s.weeding.CompareAndSwap(false, true) {
		return
	}
	go func() {
		if s != nil {
			defer s.weeding.Store(false)
		}
		defer func() { _ = recover() }() // a program's Dialer is to end a call at most
		ask(p, soundTime)
	}()
}

// ask sends a PING with a text on as many connections at once as are idle. The client closes those
// on which that text does not come back in time.
func ask(p pool, patience time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	client := p.WithTimeout(patience) // without the client's hooks
	var all sync.WaitGroup
	for i, send := range []func(context.Context, redis.Cmder) error{client.Process, alone(client)} {
		for range idle(p)[i] {
			all.Go(func() {
				text := rand.Text()
				_ = send(ctx, redis.NewRawWriteToCmd(ctx, &echoed{want: "$26\r\n" + text + "\r\n"}, "ping", text))
			})
		}
	}
	all.Wait()
}

// alone sends a command by a pipeline of its own.
func alone(client *redis.Client) func(context.Context, redis.Cmder) error {
	return func(ctx context.Context, cmd redis.Cmder) error {
		pipe := client.Pipeline()
		_ = pipe.Process(ctx, cmd)
		_, err := pipe.Exec(ctx)
		return err
	}
}

// echoed is a writer that fails unless what it gets is the reply that it wants, or an error of the
// server, such as that of a user without the permission. The client closes a connection whose reply
// cannot be written.
type echoed struct{ want string }

func (e *echoed) Write(p []byte) (int, error) {
	if strings.HasPrefix(e.want, string(p)) {
		e.want = e.want[len(p):]
		return len(p), nil
	}
	if len(e.want) > 0 && len(p) > 0 && p[0] == '-' {
		e.want = "\r\n"
		return len(p), nil
	}
	return 0, errForeignReply
}
