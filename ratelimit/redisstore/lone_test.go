package redisstore_test

import (
	"bufio"
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
)

// sharer is a proxy that hands each command on to one of several servers by its first key, and knows of no command that has more.
type sharer struct{ addrs []string }

func (s *sharer) serve(t *testing.T) (addr string) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go s.hand(client)
		}
	}()
	return listener.Addr().String()
}

func (s *sharer) hand(client net.Conn) {
	defer client.Close()
	servers := make([]net.Conn, len(s.addrs))
	replies := make([]*bufio.Reader, len(s.addrs))
	for i, addr := range s.addrs {
		server, err := net.Dial("tcp", addr)
		if err != nil {
			return
		}
		defer server.Close()
		servers[i], replies[i] = server, bufio.NewReader(server)
	}
	in := bufio.NewReader(client)
	for {
		words, raw, err := readRESP(in)
		if err != nil {
			return
		}
		at := 0
		if name := strings.ToLower(words[0]); (name == "eval" || name == "evalsha") && words[2] != "0" {
			at = int(crc32.ChecksumIEEE([]byte(words[3]))) % len(servers)
		}
		if _, err := servers[at].Write(raw); err != nil {
			return
		}
		_, reply, err := readRESP(replies[at])
		if err != nil {
			return
		}
		if _, err := client.Write(reply); err != nil {
			return
		}
	}
}

// readRESP reads one value of Redis's protocol, the second version of it: the texts in it, and its bytes.
func readRESP(in *bufio.Reader) (words []string, raw []byte, err error) {
	line, err := in.ReadBytes('\n')
	if err != nil {
		return nil, nil, err
	}
	n, _ := strconv.Atoi(strings.TrimSpace(string(line[1:])))
	switch {
	case line[0] == '$' && n >= 0:
		text := make([]byte, n+2)
		if _, err := io.ReadFull(in, text); err != nil {
			return nil, nil, err
		}
		return []string{string(text[:n])}, append(line, text...), nil
	case line[0] == '*':
		for range n {
			more, bytes, err := readRESP(in)
			if err != nil {
				return nil, nil, err
			}
			words, line = append(words, more...), append(line, bytes...)
		}
	}
	return words, line, nil
}

// TestCheckNamesSeveralServers holds that the check tells of several servers behind one address, which would each count by themselves.
func TestCheckNamesSeveralServers(t *testing.T) {
	one, two := redistest.Standalone(t), redistest.Start(t)
	client := func(change func(*redis.Options)) *redis.Client {
		return one.Client(t, func(o *redis.Options) { o.ReadTimeout, o.DialerRetries = 20*time.Second, 1 }, change)
	}
	for name, test := range map[string]struct {
		client func() *redis.Client
		wants  []string
	}{
		"connections in turn": {func() *redis.Client {
			proxies, n := []*redistest.Proxy{redistest.NewProxy(t, one.Addr()), redistest.NewProxy(t, two.Addr())}, new(atomic.Int64)
			return client(func(o *redis.Options) {
				o.Dialer = func(ctx context.Context, network, _ string) (net.Conn, error) {
					return new(net.Dialer).DialContext(ctx, network, proxies[n.Add(1)%2].Addr())
				}
			})
		}, []string{"several servers answer the client"}},
		"keys": {func() *redis.Client {
			addr := (&sharer{[]string{one.Addr(), two.Addr()}}).serve(t)
			return client(func(o *redis.Options) { o.Addr, o.Protocol, o.DisableIdentity = addr, 2, true })
		}, []string{"several servers answer the client"}},
		"one server behind such a proxy": {func() *redis.Client {
			addr := (&sharer{[]string{one.Addr()}}).serve(t)
			return client(func(o *redis.Options) { o.Addr, o.Protocol, o.DisableIdentity = addr, 2, true })
		}, nil},
		"one connection": {func() *redis.Client { return client(func(o *redis.Options) { o.PoolSize = 1 }) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			checked(t, newStore(t, test.client()), nil, test.wants...)
		})
	}
	if keys := one.Client(t).Keys(context.Background(), "rl:check:*").Val(); len(keys) > 0 {
		if ttl := one.Client(t).PTTL(context.Background(), keys[0]).Val(); ttl <= 0 {
			t.Errorf("%s stays for %v, want it gone in seconds", fmt.Sprint(keys), ttl)
		}
	}
}
