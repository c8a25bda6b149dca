package redistest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Fault is what a [Proxy] does to the traffic.
type Fault uint8

const (
	// Pass hands everything on.
	Pass Fault = iota
	// CutBefore closes the connection instead of handing a command on: the server does not execute it.
	CutBefore
	// CutAfter hands a command on, and closes the connection when the server answers it.
	CutAfter
	// DropReply hands a command on and keeps from then on what the server says; the connection stays open.
	DropReply
	// Stall keeps a command, and all that follows on its connection, which stays open.
	Stall
	// Trickle hands everything on a byte at a time, each in a packet of its own.
	Trickle

	silence // of what both sides say
)

func (f Fault) String() string {
	return [...]string{"pass", "cut before", "cut after", "drop reply", "stall", "trickle", "silence"}[f]
}

// Proxy stands between clients and a server, and does to their traffic what a test says. It is safe for concurrent use.
type Proxy struct {
	listener net.Listener
	target   string
	wait     sync.WaitGroup

	mu    sync.Mutex
	rule  rule
	delay time.Duration
	seen  map[string]int
	conns map[net.Conn]bool // nil once closed
	links map[*link]bool    // those that are open
}

// rule is a fault for the commands of some names.
type rule struct {
	fault Fault
	left  int // commands to come, negative without end
	names []string
}

// NewProxy starts a proxy before the server at target, a host and port, and closes it when the test ends.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{listener: listener, target: target, seen: map[string]int{}, conns: map[net.Conn]bool{}, links: map[*link]bool{}}
	p.wait.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

// Addr is the host and port that clients connect to.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Next makes the next n commands of these names, in lower case, suffer a fault; all others pass.
func (p *Proxy) Next(n int, f Fault, names ...string) { p.set(rule{f, n, names}) }

// Always makes every command of these names, or every command if there are none, suffer a fault.
func (p *Proxy) Always(f Fault, names ...string) { p.set(rule{f, -1, names}) }

func (p *Proxy) set(r rule) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rule = r
}

// Delay makes each packet take so much longer, in both directions.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// Cut closes every connection that is open now.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for conn := range p.conns {
		conn.Close()
	}
}

// Forget makes every connection that is open now silent, in both directions, as a firewall does that forgets idle ones: nobody is told. New ones are not.
func (p *Proxy) Forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.suffer(silence)
	}
}

// Seen returns how many commands of a name, in lower case, clients have sent, whatever became of them.
func (p *Proxy) Seen(name string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen[name]
}

func (p *Proxy) close() {
	p.listener.Close()
	p.Cut()
	p.mu.Lock()
	p.conns = nil
	p.mu.Unlock()
	p.wait.Wait()
}

// suffers counts a command, and says what becomes of it.
func (p *Proxy) suffers(name string) Fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen[name]++
	r := &p.rule
	if r.left == 0 || len(r.names) > 0 && !slices.Contains(r.names, name) {
		return Pass
	}
	if r.left > 0 {
		r.left--
	}
	return r.fault
}

func (p *Proxy) pause() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.delay
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.wait.Go(func() { p.serve(client) })
	}
}

// hold keeps conn among the connections until it is let go, unless the proxy is closed.
func (p *Proxy) hold(conn net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conns == nil {
		conn.Close()
		return false
	}
	p.conns[conn] = true
	return true
}

func (p *Proxy) letGo(conn net.Conn) {
	conn.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, conn)
}

func (p *Proxy) serve(client net.Conn) {
	if !p.hold(client) {
		return
	}
	defer p.letGo(client)
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		return // the client sees its connection closed, as where nothing listens behind a balancer
	}
	if !p.hold(server) {
		return
	}
	defer p.letGo(server)
	l := &link{proxy: p, client: client, server: server}
	p.open(l)
	defer p.shut(l)
	var both sync.WaitGroup
	both.Go(l.commands)
	both.Go(l.replies)
	both.Wait()
}

func (p *Proxy) open(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.links[l] = true
}

func (p *Proxy) shut(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
}

// link is one client's connection.
type link struct {
	proxy          *Proxy
	client, server net.Conn

	mu    sync.Mutex
	fault Fault // that the connection suffers from now on
}

func (l *link) suffer(f Fault) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fault = f
}

func (l *link) suffering() Fault {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fault
}

// close ends both directions.
func (l *link) close() {
	l.client.Close()
	l.server.Close()
}

// commands hands what the client says on, command by command.
func (l *link) commands() {
	defer l.close()
	in := bufio.NewReader(l.client)
	for {
		name, raw, err := readCommand(in)
		if err != nil {
			return
		}
		f := l.proxy.suffers(name)
		if l.suffering() == silence {
			continue
		}
		switch f {
		case CutBefore:
			return
		case Stall:
			l.suffer(f)
			io.Copy(io.Discard, in)
			return
		case Pass:
		default:
			l.suffer(f)
		}
		if l.send(l.server, raw) != nil {
			return
		}
	}
}

// replies hands what the server says on.
func (l *link) replies() {
	defer l.close()
	buf := make([]byte, 64<<10)
	for {
		n, err := l.server.Read(buf)
		if err != nil {
			return
		}
		switch l.suffering() {
		case CutAfter:
			return
		case DropReply, Stall, silence:
			continue
		}
		if l.send(l.client, buf[:n]) != nil {
			return
		}
	}
}

func (l *link) send(to net.Conn, data []byte) error {
	if d := l.proxy.pause(); d > 0 {
		time.Sleep(d)
	}
	if l.suffering() != Trickle {
		_, err := to.Write(data)
		return err
	}
	for i := range data {
		if _, err := to.Write(data[i : i+1]); err != nil {
			return err
		}
	}
	return nil
}

// readCommand reads one command in Redis's protocol, an array of bulk strings, and returns its name in lower case
// and its bytes.
func readCommand(in *bufio.Reader) (name string, raw []byte, err error) {
	parts, raw, err := readLength(in, nil, '*')
	for i := 0; i < parts && err == nil; i++ {
		var size int
		if size, raw, err = readLength(in, raw, '$'); err != nil {
			break
		}
		data := make([]byte, size+len("\r\n"))
		_, err = io.ReadFull(in, data)
		raw = append(raw, data...)
		if i == 0 {
			name = strings.ToLower(string(data[:size]))
		}
	}
	return name, raw, err
}

// readLength reads a line of kind and a length, and appends the line to raw.
func readLength(in *bufio.Reader, raw []byte, kind byte) (int, []byte, error) {
	line, err := in.ReadString('\n')
	if err != nil {
		return 0, raw, err
	}
	text, ok := strings.CutPrefix(strings.TrimRight(line, "\r\n"), string(kind))
	n, err := strconv.Atoi(text)
	if !ok || err != nil || n < 0 {
		return 0, raw, fmt.Errorf("protocol: %q, want %c and a length", line, kind)
	}
	return n, append(raw, line...), nil
}
