package redisstore_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"sync/atomic"
)

// fault is what becomes of the next script that a faulty connection carries.
type fault int32

const (
	none      fault = iota
	cutBefore       // the connection breaks before the command is sent
	cutAfter        // the server executes the command, and the connection breaks before the reply
	stall           // the server executes the command, and the reply does not come
)

// faults makes connections that fail as told.
type faults struct {
	next    atomic.Int32 // the fault of the next script, then none
	always  atomic.Int32 // the fault of every further script
	scripts atomic.Int32 // scripts written to a server
	only    func(addr string) bool
}

// dial is a client's Dialer.
func (f *faults) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &faultyConn{Conn: conn, faults: f, addr: addr}, nil
}

type faultyConn struct {
	net.Conn
	faults  *faults
	addr    string
	pending fault
}

func (c *faultyConn) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("\r\neval")) && (c.faults.only == nil || c.faults.only(c.addr)) {
		if c.pending = fault(c.faults.next.Swap(int32(none))); c.pending == none {
			c.pending = fault(c.faults.always.Load())
		}
		if c.pending == cutBefore {
			c.Conn.Close()
			return 0, io.ErrClosedPipe
		}
		c.faults.scripts.Add(1)
	}
	return c.Conn.Write(p)
}

func (c *faultyConn) Read(p []byte) (int, error) {
	switch c.pending {
	case cutAfter:
		if _, err := c.Conn.Read(p); err != nil { // the server has executed the command
			return 0, err
		}
		c.Conn.Close()
		return 0, io.EOF
	case stall:
		for {
			if _, err := c.Conn.Read(p); err != nil { // at the latest by the client's own timeout
				return 0, err
			}
		}
	}
	return c.Conn.Read(p)
}
