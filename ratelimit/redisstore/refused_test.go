package redisstore_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
)

// bothClients has f ask a server at addr by a plain client and by one of a Cluster.
func bothClients(t *testing.T, addr string, secure *tls.Config, f func(*testing.T, redis.UniversalClient)) {
	t.Run("client", func(t *testing.T) {
		client := redis.NewClient(&redis.Options{Addr: addr, TLSConfig: secure, DialerRetries: 1})
		t.Cleanup(func() { client.Close() })
		f(t, client)
	})
	t.Run("cluster client", func(t *testing.T) {
		client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{addr}, TLSConfig: secure, DialerRetries: 1})
		t.Cleanup(func() { client.Close() })
		f(t, client)
	})
}

// listen has serve answer whoever connects to the address that it returns, until the test ends.
func listen(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	t.Cleanup(func() { l.Close(); <-ended })
	go func() {
		defer close(ended)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() { // ends with its client
				defer conn.Close()
				serve(conn)
			}()
		}
	}()
	return l.Addr().String()
}

// greets says a line to whoever connects, and nothing more.
func greets(line string) func(net.Conn) {
	return func(conn net.Conn) {
		fmt.Fprint(conn, line)
		conn.Read(make([]byte, 1<<10))
	}
}

// memcached answers as one does that knows none of the commands.
func memcached(conn net.Conn) {
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		fmt.Fprint(conn, "ERROR\r\n")
	}
}

// TestSomethingElseListens holds that calls and the check say that it is not Redis that answers,
// and what it says.
func TestSomethingElseListens(t *testing.T) {
	for name, test := range map[string]struct {
		serve func(net.Conn)
		says  string
	}{
		"HTTP": {func(conn net.Conn) {
			bufio.NewReader(conn).ReadString('\n')
			(&http.Response{StatusCode: http.StatusBadRequest, ProtoMajor: 1, ProtoMinor: 1}).Write(conn)
		}, "HTTP/1.1 400 Bad Request"},
		"SSH":       {greets("SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n"), "SSH-2.0-OpenSSH_9.2p1"},
		"memcached": {memcached, "ERROR"},
	} {
		t.Run(name, func(t *testing.T) {
			bothClients(t, listen(t, test.serve), nil, func(t *testing.T, client redis.UniversalClient) {
				s := newStore(t, client)
				refused(t, s, "rl:a", "is not Redis: mend the address")
				checkRefuses(t, s, nil, "is not Redis: mend the address", test.says)
			})
		})
	}
}

// TestRefusedWhileConnecting holds that options which the server refuses on each new connection are
// for somebody to mend, and that a permission which only they need is named.
func TestRefusedWhileConnecting(t *testing.T) {
	server, node := redistest.Start(t), redistest.NewCluster(t).Masters[0]
	as(t, server, acl)
	limited := func(o *redis.Options) { o.Username, o.Password, o.DB = "limiter", "pw", 2 }
	for name, test := range map[string]struct {
		server *redistest.Server
		option func(*redis.Options)
		want   string
	}{
		"a database that there is not": {server, func(o *redis.Options) { o.DB = 99 }, "number of a database"},
		"a database of a Cluster":      {node, func(o *redis.Options) { o.DB = 2 }, "redis.NewClusterClient"},
		"a name with a space":          {server, func(o *redis.Options) { o.ClientName = "a b" }, "without spaces"},
		"a database without +select":   {server, limited, "+select"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t, test.server.Client(t, test.option))
			refused(t, s, "rl:a", test.want)
			checkRefuses(t, s, nil, test.want)
		})
	}
	as(t, server, acl+" +select")
	take(t, newStore(t, server.Client(t, limited)), request("rl:a", 1, 1))
}
