package redisstore_test

import (
	"crypto/tls"
	"crypto/x509"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
)

// TestSecure holds that a store decides by TLS what it decides without, in both of Redis's protocols, and that a server whose
// certificate is of an authority that nobody trusts, or of another name, is misconfigured: somebody must mend it.
func TestSecure(t *testing.T) {
	secure := redistest.StartTLS(t)
	connect := func(protocol int, change func(*tls.Config)) *redis.Client {
		config := secure.Config.Clone()
		change(config)
		client := redis.NewClient(&redis.Options{
			Addr: secure.Addr(), TLSConfig: config, Protocol: protocol, DialerRetries: 1, ReadTimeout: 20 * time.Second,
		})
		t.Cleanup(func() { client.Close() })
		return client
	}
	for protocol, name := range map[int]string{2: "RESP2", 3: "RESP3"} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t, connect(protocol, func(*tls.Config) {}))
			checked(t, s, nil)
			doAllTo(t, s, request("rl:"+name, 10, 1))
			if out := take(t, s, request("rl:"+name, 1, 1)); !out.Allowed {
				t.Errorf("Take after a reset = %+v, want it allowed", out)
			}
			if out := take(t, s, request("rl:"+name, 1, 1)); out.Allowed {
				t.Errorf("Take beyond the limit = %+v, want it denied", out)
			}
		})
	}
	for name, change := range map[string]func(*tls.Config){
		"another authority": func(c *tls.Config) { c.RootCAs = x509.NewCertPool() },
		"another name":      func(c *tls.Config) { c.ServerName = "redis.test" },
	} {
		t.Run(name, func(t *testing.T) {
			const mend = "mend the certificates of the Redis server or client"
			s := newStore(t, connect(3, change))
			refused(t, s, "rl:refused", mend)
			checkRefuses(t, s, nil, mend)
		})
	}
}
