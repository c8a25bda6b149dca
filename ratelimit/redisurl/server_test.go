package redisurl_test

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/rlgen/rlgen/ratelimit/redisstore"
	"github.com/rlgen/rlgen/ratelimit/redisurl"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
	"github.com/rlgen/rlgen/rules"
)

// TestServers asks real servers by every form of a URL.
func TestServers(t *testing.T) {
	sentinel, cluster, secure := redistest.NewSentinel(t), redistest.NewCluster(t), redistest.StartTLS(t)
	var watchers []string
	for _, s := range sentinel.Sentinels {
		watchers = append(watchers, s.Addr())
	}
	server, socket := redistest.StartSocket(t)
	for name, text := range map[string]string{
		"redis":                  "redis://" + server.Addr() + "/3",
		"unix":                   "unix://" + socket + "?db=3",
		"rediss":                 "rediss://" + secure.Addr() + "?skip_verify=true",
		"redis+sentinel":         "redis+sentinel://" + strings.Join(watchers, ",") + "/" + redistest.MasterName,
		"redis with master_name": "redis://" + watchers[0] + "?master_name=" + redistest.MasterName + "&addr=" + watchers[1],
		"redis+cluster":          "redis+cluster://" + strings.Join(cluster.Addrs(), ","),
		"redis with addr":        "redis://" + cluster.Addrs()[0] + "?addr=" + cluster.Addrs()[1],
	} {
		t.Run(name, func(t *testing.T) {
			client, key := open(t, text), redistest.Prefix(t)
			if err := client.Set(context.Background(), key, "it", 0).Err(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { client.Del(context.Background(), key) })
			if got := client.Get(context.Background(), key).Val(); got != "it" {
				t.Errorf("Get = %q, want what was set", got)
			}
		})
	}
}

// TestUntrustedServer holds that a server whose certificate the system's authorities do not vouch for is not spoken to, and that
// the error is one that stores know to be for somebody to mend.
func TestUntrustedServer(t *testing.T) {
	client := open(t, "rediss://"+redistest.StartTLS(t).Addr())
	s, err := redisstore.New(client, redisstore.WithBudget(10*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	request := store.Request{Key: "rl:a", Rules: []rules.Rule{{Count: 1, Window: time.Hour}}, Cost: 1}
	_, err = store.Take(context.Background(), s, []store.Request{request}, false)
	var failed *store.Error
	if !errors.As(err, &failed) || failed.Class != store.Misconfigured || !strings.Contains(err.Error(), "mend the certificates") {
		t.Errorf("Take = %v, want an error of class %v that says what to mend", err, store.Misconfigured)
	}
}

// TestErrorsOfServers holds that what a client says of a server that refuses it has no password in it either.
func TestErrorsOfServers(t *testing.T) {
	server := redistest.Standalone(t)
	for _, text := range []string{
		"redis://nobody:" + secret + "@" + server.Addr(),
		"rediss://:" + secret + "@" + server.Addr(),
		"redis://:" + secret + "@127.0.0.1:1",
		"redis+cluster://:" + secret + "@" + server.Addr(),
		"redis+sentinel://:" + secret + "@" + server.Addr() + "/main?sentinel_password=" + url.QueryEscape(secret),
	} {
		t.Run(text, func(t *testing.T) {
			client, err := redisurl.Open(text)
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			err = client.Ping(context.Background()).Err()
			if err == nil || strings.Contains(err.Error(), secret) {
				t.Errorf("Ping = %v, want an error without the password", err)
			}
		})
	}
}
