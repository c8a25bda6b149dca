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
	t.Parallel()
	watchers := func(t *testing.T) (addrs []string) {
		for _, s := range redistest.NewSentinel(t).Sentinels {
			addrs = append(addrs, s.Addr())
		}
		return addrs
	}
	for name, text := range map[string]func(*testing.T) string{
		"redis": func(t *testing.T) string { return "redis://" + redistest.Standalone(t).Addr() + "/3" },
		"unix": func(t *testing.T) string {
			_, socket := redistest.StartSocket(t)
			return "unix://" + socket + "?db=3"
		},
		"rediss": func(t *testing.T) string { return "rediss://" + redistest.StartTLS(t).Addr() + "?skip_verify=true" },
		"redis+sentinel": func(t *testing.T) string {
			return "redis+sentinel://" + strings.Join(watchers(t), ",") + "/" + redistest.MasterName
		},
		"redis with master_name": func(t *testing.T) string {
			addrs := watchers(t)
			return "redis://" + addrs[0] + "?master_name=" + redistest.MasterName + "&addr=" + addrs[1]
		},
		"redis+cluster": func(t *testing.T) string {
			return "redis+cluster://" + strings.Join(redistest.NewCluster(t).Addrs(), ",")
		},
		"redis with addr": func(t *testing.T) string {
			addrs := redistest.NewCluster(t).Addrs()
			return "redis://" + addrs[0] + "?addr=" + addrs[1]
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, key := open(t, text(t)), redistest.Prefix(t)
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
	t.Parallel()
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
