package redistest

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// MasterName is the name by which sentinels know their master.
const MasterName = "limits"

const sentinels = 3

// Sentinel is a master and a replica, watched by three sentinels.
type Sentinel struct {
	Master, Replica *Server
	Sentinels       []*Server
}

// NewSentinel returns the sentinels that the package's tests share. A test must not flush, stop or reconfigure
// their servers, and names its keys by [Prefix]. They promote nobody, however slow the machine is.
func NewSentinel(t testing.TB) *Sentinel {
	t.Helper()
	return shared.sentinel.get(t, func() (*Sentinel, error) { return startSentinel(startShared, 10*patience) })
}

// StartSentinel starts sentinels that only this test uses, and stops them when the test ends.
func StartSentinel(t testing.TB) *Sentinel {
	t.Helper()
	need(t)
	s, err := startSentinel(startFor(t), 500*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Client returns a client that asks the sentinels for the master, and is closed when the test ends. Each of opts may change
// its options.
func (s *Sentinel) Client(t testing.TB, opts ...func(*redis.FailoverOptions)) *redis.Client {
	o := &redis.FailoverOptions{MasterName: MasterName}
	for _, n := range s.Sentinels {
		o.SentinelAddrs = append(o.SentinelAddrs, n.Addr())
	}
	for _, opt := range opts {
		opt(o)
	}
	client := redis.NewFailoverClient(o)
	t.Cleanup(func() { client.Close() })
	return client
}

// MasterAddr is the host and port of the master that all sentinels have now. They change together, but not at once.
func (s *Sentinel) MasterAddr() (string, error) {
	addr := ""
	for _, n := range s.Sentinels {
		client := redis.NewSentinelClient(&redis.Options{Addr: n.Addr()})
		parts, err := client.GetMasterAddrByName(context.Background(), MasterName).Result()
		client.Close()
		if err != nil {
			return "", err
		}
		one := net.JoinHostPort(parts[0], parts[1])
		if addr != "" && one != addr {
			return "", fmt.Errorf("a sentinel has the master %s, another %s", addr, one)
		}
		addr = one
	}
	return addr, nil
}

// startSentinel starts sentinels that promote the replica once the master has not answered for a time.
func startSentinel(start starter, down time.Duration) (*Sentinel, error) {
	s := &Sentinel{}
	var err error
	if s.Master, err = start(standalone); err != nil {
		return nil, err
	}
	master := strconv.Itoa(s.Master.process.port)
	if s.Replica, err = start(func(port int, dir string) []string {
		return append(standalone(port, dir), "--replicaof", "127.0.0.1 "+master)
	}); err != nil {
		return nil, err
	}
	for range sentinels {
		watcher, err := start(func(port int, dir string) []string { return watcher(port, dir, master, down) })
		if err != nil {
			return nil, err
		}
		s.Sentinels = append(s.Sentinels, watcher)
	}
	return s, s.settle()
}

// watcher are the arguments of a sentinel, which keeps its state in its configuration file.
func watcher(port int, dir, master string, down time.Duration) []string {
	file := filepath.Join(dir, "sentinel.conf")
	text := fmt.Sprintf("port %d\nbind 127.0.0.1\nsentinel monitor %[2]s 127.0.0.1 %[3]s 2\n"+
		"sentinel down-after-milliseconds %[2]s %[4]d\nsentinel failover-timeout %[2]s 2000\n", port, MasterName, master, down.Milliseconds())
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		panic(err)
	}
	return []string{file, "--sentinel"}
}

// settle waits until every sentinel knows of the replica and of the other sentinels.
func (s *Sentinel) settle() error {
	return Poll(func() error {
		for _, n := range s.Sentinels {
			client := redis.NewSentinelClient(&redis.Options{Addr: n.Addr()})
			state, err := client.Master(context.Background(), MasterName).Result()
			client.Close()
			if err != nil {
				return err
			}
			if state["num-other-sentinels"] != strconv.Itoa(sentinels-1) || state["num-slaves"] != "1" {
				return fmt.Errorf("a sentinel knows of %s other sentinels and %s replicas, want %d and 1",
					state["num-other-sentinels"], state["num-slaves"], sentinels-1)
			}
		}
		return nil
	})
}
