// Package outofstep makes, for tests, connections whose replies are out of step with the commands.
package outofstep

import (
	"bytes"
	"context"
	"net"
	"sync"
)

// Faults dials connections to Redis. Once armed, each of them answers its next script with the
// reply to the script that any of them answered last before, and each later command with the reply
// to the command before it. A faulty proxy does so. Faults is safe for concurrent use; the zero
// Faults is not armed.
type Faults struct {
	mu    sync.Mutex
	reply []byte // to the script that was answered last
	armed bool
}

// Dial is a Dialer of go-redis' options.
func (f *Faults) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c, faults: f}, nil
}

// Arm says whether connections that are in step get out of step with their next script.
func (f *Faults) Arm(on bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed = on
}

type conn struct {
	net.Conn
	faults *Faults

	// Under the faults' mu.
	script bool   // the command that was written last
	late   bool   // its replies are out of step
	extra  []byte // what is read before what the server sends
}

func (c *conn) Write(p []byte) (int, error) {
	f := c.faults
	f.mu.Lock()
	c.script = bytes.Contains(p, []byte("evalsha"))
	if f.armed && c.script && !c.late {
		c.late, c.extra = true, bytes.Clone(f.reply)
	}
	f.mu.Unlock()
	return c.Conn.Write(p)
}

func (c *conn) Read(p []byte) (int, error) {
	f := c.faults
	f.mu.Lock()
	n := copy(p, c.extra)
	c.extra = c.extra[n:]
	f.mu.Unlock()
	if n > 0 {
		return n, nil
	}
	n, err := c.Conn.Read(p)
	f.mu.Lock()
	defer f.mu.Unlock()
	if c.script && !f.armed {
		f.reply = bytes.Clone(p[:n])
	}
	return n, err
}
