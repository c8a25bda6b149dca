package redisstore

import (
	"context"
	"crypto/tls"
	"log/slog"
	"maps"
	"net"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

// destination is where a client's servers are, as its options have it.
type destination struct {
	addrs  []string // hosts and ports
	secure bool     // the client speaks TLS
}

// destinationOf returns where a client's servers are. It has no addresses where the client finds them by itself.
func destinationOf(client redis.UniversalClient) (d destination) {
	switch client := client.(type) {
	case *redis.Client:
		o := client.Options()
		if d.secure = o.TLSConfig != nil; o.Network == "tcp" && o.Addr != failover {
			d.addrs = []string{o.Addr}
		}
	case *redis.ClusterClient:
		d.addrs, d.secure = client.Options().Addrs, client.Options().TLSConfig != nil
	case *redis.Ring:
		d.addrs, d.secure = slices.Sorted(maps.Values(client.Options().Addrs)), client.Options().TLSConfig != nil
	}
	return d
}

// sound finds out, once a server has not answered, whether it speaks TLS and the client does not, or the other way round: then each waits for
// words of the other, or hangs up. It goes past the client, and says nothing that changes anything.
func (c *check) sound(ctx context.Context) {
	d := destinationOf(c.store.client)
	for _, addr := range d.addrs {
		switch {
		case d.secure && speaks(ctx, addr, plainly):
			c.find(slog.LevelWarn, "the client speaks TLS, and the server %s does not: "+
				"leave out the client's TLSConfig, or write redis:// for rediss:// in its URL, or give it the server's TLS port", addr)
			return
		case !d.secure && speaks(ctx, addr, securely):
			c.find(slog.LevelWarn, "the server %s speaks TLS, and the client does not: "+
				"give the client a TLSConfig, or write rediss:// for redis:// in its URL", addr)
			return
		}
	}
}

// soundTime is how long one sounding may last.
const soundTime = 500 * time.Millisecond

// speaks says whether the server at addr answers to how it is spoken to.
func speaks(ctx context.Context, addr string, how func(context.Context, net.Conn) bool) bool {
	ctx, cancel := context.WithTimeout(ctx, soundTime)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return false
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		conn.SetDeadline(deadline)
	}
	return how(ctx, conn)
}

// plainly asks as Redis is asked without TLS, and looks for an answer of Redis's, be it that a password is wanted.
func plainly(_ context.Context, conn net.Conn) bool {
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return false
	}
	var answer [1]byte
	_, err := conn.Read(answer[:])
	return err == nil && (answer[0] == '+' || answer[0] == '-')
}

// securely asks for TLS. Whose certificate the server has does not matter: nothing is said to it.
func securely(ctx context.Context, conn net.Conn) bool {
	return tls.Client(conn, &tls.Config{InsecureSkipVerify: true}).HandshakeContext(ctx) == nil
}
