package redistest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/testdata/suite"
)

// patience is how long anything here may take.
const patience = 30 * time.Second

// guard runs a server and kills it when its own standard input ends, which it does with the process that holds the
// other end, even where that is killed. It first prints the server's process id.
const guard = `"$@" >server.log 2>&1 & echo $!; read line; kill -9 $!; wait`

// process is one server.
type process struct {
	port  int
	args  []string
	pid   int
	dir   string
	guard *exec.Cmd
	stdin io.Closer
}

// need skips the test if redis-server is not installed, or fails it where programs are required.
func need(t testing.TB) {
	t.Helper()
	suite.Program(t, "redis-server")
}

// arguments are those of a redis-server on port, which runs in dir.
type arguments func(port int, dir string) []string

// start starts a server on a free port, and waits until it answers.
func start(args arguments) (*process, error) {
	var err error
	for range 5 {
		var p *process
		if p, err = run(freePort(), args); err == nil {
			return p, nil
		}
	}
	return nil, err
}

func run(port int, args arguments) (*process, error) {
	dir, err := os.MkdirTemp("", "redistest")
	if err != nil {
		return nil, err
	}
	p := &process{port: port, args: args(port, dir), dir: dir}
	if err := p.launch(); err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	if err := p.ready(); err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}

func (p *process) launch() error {
	p.guard = exec.Command("sh", append([]string{"-c", guard, "sh", "redis-server"}, p.args...)...)
	p.guard.Dir = p.dir
	stdin, err := p.guard.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := p.guard.StdoutPipe()
	if err != nil {
		return err
	}
	if err := p.guard.Start(); err != nil {
		return err
	}
	p.stdin = stdin
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		return err
	}
	p.pid, err = strconv.Atoi(strings.TrimSpace(line))
	return err
}

// ready waits until the server answers.
func (p *process) ready() error {
	client := redis.NewClient(&redis.Options{Addr: p.addr(), DialerRetries: 1})
	defer client.Close()
	return Poll(func() error {
		log, _ := os.ReadFile(filepath.Join(p.dir, "server.log"))
		if bytes.Contains(log, []byte("Failed listening")) || bytes.Contains(log, []byte("FATAL CONFIG")) {
			return permanent{fmt.Errorf("redis-server on port %d: %s", p.port, log)}
		}
		if !p.listens() {
			return fmt.Errorf("redis-server on port %d does not listen", p.port)
		}
		err := client.Ping(context.Background()).Err()
		if redis.HasErrorPrefix(err, "NOAUTH") {
			return nil
		}
		return err
	})
}

// listens says whether somebody does on the server's port. It does not try to have the port itself: then the server could not.
func (p *process) listens() bool {
	conn, err := net.Dial("tcp", p.addr())
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

func (p *process) addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(p.port)) }

// signal sends the server the signal of this name.
func (p *process) signal(name string) error {
	return exec.Command("kill", "-"+name, strconv.Itoa(p.pid)).Run()
}

func (p *process) stop() {
	p.end()
	os.RemoveAll(p.dir)
}

// end ends the server and its guard.
func (p *process) end() {
	p.stdin.Close()
	p.guard.Wait()
}

// restart starts a server that has ended, on the same port, which others who look for a free one may have for a moment.
func (p *process) restart() (err error) {
	for range 5 {
		p.end()
		if err = p.launch(); err != nil {
			return err
		}
		if err = p.ready(); err == nil {
			return nil
		}
	}
	return err
}

// freePort returns a port that nobody listens on, nor on the one 10,000 above it, and that the system does not
// give to outgoing connections by default.
func freePort() int {
	for {
		port := 12000 + rand.IntN(10000)
		if free(port) && free(port+10000) {
			return port
		}
	}
}

func free(port int) bool {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	l.Close()
	return true
}

// permanent is an error that no waiting mends.
type permanent struct{ error }

// Poll calls f until it returns nil, and gives f's last error if that takes too long.
func Poll(f func() error) error {
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := f()
		var p permanent
		if err == nil || errors.As(err, &p) || time.Now().After(deadline) {
			return err
		}
		<-tick.C
	}
}
