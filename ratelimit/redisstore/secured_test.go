package redisstore_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/redisstore"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
)

// TestClientCertificates holds that a server which wants a client's certificate, as Redis does by default, is misconfigured for a client that has none, from the first
// time that the server gets to say so, and decides for one that has.
func TestClientCertificates(t *testing.T) {
	t.Parallel()
	secure := redistest.StartTLS(t, "--tls-auth-clients", "yes")
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		t.Run(tls.VersionName(version), func(t *testing.T) {
			config := secure.Config.Clone()
			config.Certificates, config.MaxVersion = nil, version
			client := redis.NewClient(&redis.Options{Addr: secure.Addr(), TLSConfig: config, DialerRetries: 1, ReadTimeout: 20 * time.Second})
			t.Cleanup(func() { client.Close() })
			s := newStore(t, client)
			for i := range 20 {
				refused(t, s, fmt.Sprint("rl:", i), "tls-auth-clients")
			}
			checkRefuses(t, s, nil, "tls-auth-clients")
		})
	}
}

// TestMisnamedMaster holds that Sentinels which know no master of the client's name are misconfigured, and Sentinels that are down are not.
func TestMisnamedMaster(t *testing.T) {
	t.Parallel()
	trio := redistest.StartSentinel(t)
	client := trio.Client(t, func(o *redis.FailoverOptions) { o.MasterName, o.DialerRetries = "nobody's", 1 })
	s := newStore(t, client)
	refused(t, s, "rl:misnamed", "MasterName")
	checkRefuses(t, s, nil, "MasterName")

	for _, other := range trio.Sentinels {
		other.Kill(t)
	}
	wantAway(t, s)
}

// wantAway fails the test unless a call fails as one of a server that is away.
func wantAway(t *testing.T, s *redisstore.Store) {
	t.Helper()
	if _, err := store.Take(context.Background(), s, []store.Request{request("rl:away", 10, 1)}, false); classOf(err) != store.Unavailable {
		t.Errorf("Take = %v, want an error of class %v", err, store.Unavailable)
	}
}
