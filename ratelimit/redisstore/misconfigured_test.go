package redisstore_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/redisstore"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
	"github.com/rlgen/rlgen/rules"
)

// acl is what the Redis user of a limiter needs, as doc.go has it.
const acl = "on >pw ~rl:* resetchannels -@all +eval +evalsha +script|load +time +hello +ping +client|setname " +
	"+zadd +zcard +zrange +zcount +zrem +zremrangebyscore +pexpire +pttl +get +set +append +getrange +setrange"

// clusterACL is what go-redis needs beside it on a Redis Cluster.
const clusterACL = " +cluster|slots +command +asking"

// refused takes one permit and fails the test unless that is refused as misconfigured, with want in the message and
// without the key.
func refused(t *testing.T, s *redisstore.Store, key, want string) {
	t.Helper()
	_, err := store.Take(context.Background(), s, []store.Request{request(key, 10, 1)}, true)
	if classOf(err) != store.Misconfigured || !strings.Contains(err.Error(), want) {
		t.Errorf("Take = %v, want an error of class %v with %q", err, store.Misconfigured, want)
	}
	if err != nil && strings.Contains(err.Error(), key) {
		t.Errorf("Take error %q names the key", err)
	}
}

// TestRefusalRepeatsNoKey holds that what a server repeats of a command that it does not know, which is its words, keys and ids among them, is not said on.
func TestRefusalRepeatsNoKey(t *testing.T) {
	server := redistest.Start(t, "--rename-command", "EVALSHA", "")
	refused(t, newStore(t, server.Client(t)), "alice@example.com", "ERR unknown command 'evalsha': ")
}

func TestWrongType(t *testing.T) {
	client := redistest.Standalone(t).Client(t)
	s, p := newStore(t, client), redistest.Prefix(t)
	client.Set(context.Background(), p+"b", "theirs", 0)
	t.Cleanup(func() { client.Del(context.Background(), p+"b") })
	refused(t, s, p+"b", "WRONGTYPE")
	requests := []store.Request{request(p+"a", 10, 1), request(p+"b", 10, 1)}
	if _, err := store.Take(context.Background(), s, requests, true); classOf(err) != store.Misconfigured {
		t.Errorf("Take = %v, want an error of class %v", err, store.Misconfigured)
	}
	if got := client.Get(context.Background(), p+"b").Val(); got != "theirs" {
		t.Errorf("the other program's key is %q, want it untouched", got)
	}
	if n := client.Exists(context.Background(), p+"a").Val(); n != 0 {
		t.Error("the other limit is charged, want nothing")
	}
}

// TestForeignDoor holds that a ban which no limiter has written is an error, loud and under its own key alone, and not a server that cannot decide.
func TestForeignDoor(t *testing.T) {
	client := redistest.Standalone(t).Client(t)
	s, p := newStore(t, client), redistest.Prefix(t)
	for _, theirs := range []string{"banned   ", "denied 99999999999999999999999999", "theirs"} {
		client.Set(t.Context(), "rl:ban:{"+p+"}", theirs, time.Minute)
		req := request(p, 1, 1)
		req.Ban, req.After = time.Minute, 2
		for range 8 {
			_, err := store.Take(t.Context(), s, []store.Request{req}, true)
			if err != nil && classOf(err) != store.Misconfigured {
				t.Errorf("Take beside a ban of %q = %v, want none, or an error of class %v", theirs, err, store.Misconfigured)
			}
		}
		take(t, s, request(p+"other", 10, 1))
	}
	client.Del(context.Background(), "rl:ban:{"+p+"}")
}

// as returns a store whose client is a user with these permissions.
func as(t *testing.T, server *redistest.Server, permissions string) *redisstore.Store {
	t.Helper()
	args := []any{"acl", "setuser", "limiter", "reset"}
	for _, word := range strings.Fields(permissions) {
		args = append(args, word)
	}
	if err := server.Client(t).Do(context.Background(), args...).Err(); err != nil {
		t.Fatal(err)
	}
	return newStore(t, server.Client(t, func(o *redis.Options) { o.Username, o.Password = "limiter", "pw" }))
}

// TestNoPermissionIsNotOpen holds that a call which the Redis user may not have decided is refused, whatever its limit says of a server that is down.
func TestNoPermissionIsNotOpen(t *testing.T) {
	s := as(t, redistest.Start(t), "on >pw ~elsewhere:* +@all")
	limiter, err := ratelimit.New(s, ratelimit.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	for _, onFail := range []rules.OnFail{rules.FailOpen, rules.FailLocal, rules.FailClosed} {
		p := &rules.Policy{Package: "example.com/shop", Type: "shop.Orders", Method: onFail.String(), Limits: []rules.Limit{
			{Kind: rules.Global, Rules: []rules.Rule{{Count: 10, Window: time.Hour}}, OnFail: onFail},
		}}
		if _, err := limiter.Guard(p).Take(context.Background()); !errors.Is(err, ratelimit.ErrMisconfigured) {
			t.Errorf("Take with onfail=%v = %v, want %v", onFail, err, ratelimit.ErrMisconfigured)
		}
	}
}

func TestPermissions(t *testing.T) {
	server := redistest.Start(t)
	admin := server.Client(t)
	for round := range 2 { // with EVAL and EVALSHA
		s := as(t, server, acl)
		out := take(t, s, request("rl:a", 10, 2), request("rl:b", 1, 1))
		take(t, s, request("rl:a", 10, 1), request("rl:b", 1, 1))
		if err := s.GiveBack(context.Background(), out.Receipt); err != nil {
			t.Errorf("round %d: GiveBack = %v, want nil", round, err)
		}
	}
	if got := admin.Do(context.Background(), "acl", "log").Val(); len(got.([]any)) != 0 {
		t.Errorf("ACL LOG = %v, want nothing refused", got)
	}
	s := as(t, server, acl)
	refused(t, s, "elsewhere:a", "NOPERM")
	for _, command := range []string{"eval", "time", "zadd", "zrange", "pexpire"} {
		t.Run(command, func(t *testing.T) {
			admin.ScriptFlush(context.Background())
			key := "rl:" + command
			full := newStore(t, admin)
			s := as(t, server, strings.Replace(acl, "+"+command+" ", "-"+command+" ", 1)+" -"+command)
			refused(t, s, key, "permissions")
			if n := admin.Exists(context.Background(), key).Val(); n != 0 {
				t.Errorf("a refused call has written the key")
			}
			take(t, full, request(key, 10, 1))
		})
	}
}

// TestDocumentedPermissions holds that doc.go names the permissions that the other tests use.
func TestDocumentedPermissions(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{acl, clusterACL} {
		if line := "//\t" + strings.TrimSpace(want) + "\n"; !strings.Contains(string(doc), line) {
			t.Errorf("doc.go does not have the line %q", line)
		}
	}
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"ACL SETUSER limiter " + strings.Replace(acl, ">pw", ">password", 1), "`" + strings.TrimSpace(clusterACL) + "`"} {
		if !strings.Contains(string(readme), want) {
			t.Errorf("README.md does not have %q", want)
		}
	}
}

func TestClusterPermissions(t *testing.T) {
	cluster := redistest.NewCluster(t)
	for _, node := range append(cluster.Masters[:3:3], cluster.Replicas...) {
		as(t, node, acl+clusterACL)
		t.Cleanup(func() { node.Client(t).Do(context.Background(), "acl", "deluser", "limiter") })
	}
	client := cluster.Client(t, func(o *redis.ClusterOptions) { o.Username, o.Password = "limiter", "pw" })
	s, p := newStore(t, client), redistest.Prefix(t)
	out := take(t, s, request(p+"a", 10, 1), request(p+"b", 10, 1), request(p+"c", 10, 1))
	if err := s.GiveBack(context.Background(), out.Receipt); err != nil {
		t.Error(err)
	}
	for _, node := range cluster.Masters {
		admin := node.Client(t)
		if got := admin.Do(context.Background(), "acl", "log").Val(); len(got.([]any)) != 0 {
			t.Errorf("ACL LOG = %v, want nothing refused", got)
		}
	}
}

func TestAuthentication(t *testing.T) {
	server := redistest.Start(t, "--requirepass", "secret")
	refused(t, newStore(t, server.Client(t)), "rl:a", "a user name and password")
	refused(t, newStore(t, server.Client(t, func(o *redis.Options) { o.Password = "wrong" })), "rl:a", "WRONGPASS")
	take(t, newStore(t, server.Client(t, func(o *redis.Options) { o.Password = "secret" })), request("rl:a", 1, 1))
}

// TestPasswordChanged holds that a client which was connected is told, too.
func TestPasswordChanged(t *testing.T) {
	server := redistest.Start(t)
	s := as(t, server, acl)
	take(t, s, request("rl:a", 10, 1))
	if err := server.Client(t).Do(context.Background(), "acl", "setuser", "limiter", "resetpass", ">new").Err(); err != nil {
		t.Fatal(err)
	}
	if err := server.Client(t).Do(context.Background(), "client", "kill", "type", "normal", "skipme", "yes").Err(); err != nil {
		t.Fatal(err)
	}
	refusedOnceConnected := func() error {
		_, err := store.Take(context.Background(), s, []store.Request{request("rl:a", 10, 1)}, true)
		if classOf(err) != store.Misconfigured {
			return errors.New("not refused")
		}
		return nil
	}
	if err := redistest.Poll(refusedOnceConnected); err != nil {
		t.Error(err)
	}
}

// TestClusterNeedsClusterClient holds that a plain client of a cluster's node is told which client to make.
func TestClusterNeedsClusterClient(t *testing.T) {
	cluster := redistest.NewCluster(t)
	s, p := newStore(t, cluster.Masters[0].Client(t)), redistest.Prefix(t)
	var errs []string
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		_, err := store.Take(context.Background(), s, []store.Request{request(p+name, 10, 1), request(p+name+"'", 10, 1)}, true)
		if classOf(err) != store.Misconfigured || !strings.Contains(err.Error(), "redis.NewClusterClient") {
			errs = append(errs, err.Error())
		}
	}
	if len(errs) > 0 {
		t.Errorf("Take through a plain client = %q, want errors that name redis.NewClusterClient", errs)
	}
}

// TestServerStates asks servers that refuse writes: the call is not charged, and nothing is misconfigured.
func TestServerStates(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ set, unset []any }{
		"OOM":        {[]any{"config", "set", "maxmemory", "1"}, []any{"config", "set", "maxmemory", "0"}},
		"NOREPLICAS": {[]any{"config", "set", "min-replicas-to-write", "2"}, []any{"config", "set", "min-replicas-to-write", "0"}},
		"READONLY":   {[]any{"replicaof", "127.0.0.1", "1"}, []any{"replicaof", "no", "one"}},
		"MASTERDOWN": {[]any{"config", "set", "replica-serve-stale-data", "no"}, []any{"config", "set", "replica-serve-stale-data", "yes"}},
	} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t)
			admin := server.Client(t)
			ctx := context.Background()
			s := newStore(t, server.Client(t))
			take(t, s, request("rl:a", 10, 1))
			if name == "MASTERDOWN" {
				admin.Do(ctx, "replicaof", "127.0.0.1", "1")
			}
			if err := admin.Do(ctx, test.set...).Err(); err != nil {
				t.Fatal(err)
			}
			_, err := store.Take(ctx, s, []store.Request{request("rl:a", 10, 1)}, true)
			if classOf(err) != store.Unavailable || !strings.Contains(err.Error(), name) {
				t.Errorf("Take = %v, want an error of class %v with %s", err, store.Unavailable, name)
			}
			admin.Do(ctx, test.unset...)
			admin.Do(ctx, "replicaof", "no", "one")
			if out := take(t, s, request("rl:a", 10, 1)); out.Rules[0].Remaining != 8 {
				t.Errorf("%d remaining, want 8: the refused call is not charged", out.Rules[0].Remaining)
			}
		})
	}
}
