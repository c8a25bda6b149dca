package main

import (
	"context"
	"errors"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/lock/redislock"
	"github.com/rlgen/rlgen/ratelimit/redisstore"
	"github.com/rlgen/rlgen/ratelimit/redisurl"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
	"github.com/rlgen/rlgen/rules"
)

// secret is the password of every Redis of the scripts that has one. Nothing that rlgen prints holds it.
const secret = "hunter2/%"

// operationsLab is what one script has besides its files.
type operationsLab struct {
	t        testing.TB
	clients  []redis.UniversalClient // of the servers, for an administrator
	releases []func()
}

// TestOperations runs the scripts of testdata/operations. Besides the commands of scriptCommands there are
//
//	redis server|password|limited|tls|cluster|sentinel   starts one, and has REDIS_URL lead to it
//	call number method id                        calls a method of limits.json, as a program does; the calls may be denied
//	hold method id                               begins a call that goes on until the script ends
//	hset key field [value]                       sets a field of a hash, or removes it where there is no value; \n, \e, \a and \u009b are those characters
//	listen channel                               listens as a program does
//	config name value                            changes the configuration of the servers
//	mute                                         has REDIS_URL lead to it as a user who may tell nobody anything
//	harmless stdout|stderr ...                   fails if the last command has printed something that is no letter
//	executed                                     fails if a server has searched for keys
//	unspoiled file                               fails if a file holds the password
func TestOperations(t *testing.T) {
	params := scriptParams(t, "operations")
	setup := params.Setup
	params.Setup = func(env *testscript.Env) error {
		lab := &operationsLab{t: env.T().(testing.TB)}
		env.Values["lab"] = lab
		env.Defer(lab.close)
		return setup(env)
	}
	maps.Copy(params.Cmds, map[string]func(*testscript.TestScript, bool, []string){
		"redis": func(ts *testscript.TestScript, _ bool, args []string) { labOf(ts).start(ts, args[0]) },
		"call": func(ts *testscript.TestScript, _ bool, args []string) {
			n, err := strconv.Atoi(args[0])
			ts.Check(err)
			guard, ctx := labOf(ts).guard(ts, args[1], args[2])
			for range n {
				_, permit, err := guard.Hold(ctx)
				if err != nil && !errors.Is(err, ratelimit.ErrExceeded) {
					ts.Fatalf("call: %v", err)
				}
				permit.Done(nil)
			}
		},
		"hold": func(ts *testscript.TestScript, _ bool, args []string) {
			guard, ctx := labOf(ts).guard(ts, args[0], args[1])
			_, permit, err := guard.Hold(ctx)
			ts.Check(err)
			labOf(ts).releases = append(labOf(ts).releases, func() { permit.Done(nil) })
		},
		"listen": func(ts *testscript.TestScript, _ bool, args []string) {
			channel := labOf(ts).clients[0].Subscribe(context.Background(), args[0])
			labOf(ts).releases = append(labOf(ts).releases, func() { channel.Close() })
			_, err := channel.Receive(context.Background())
			ts.Check(err)
		},
		"mute": func(ts *testscript.TestScript, _ bool, _ []string) {
			ts.Check(labOf(ts).clients[0].Do(context.Background(), "acl", "setuser", "mute", "on", ">pw", "~*", "resetchannels", "+@all").Err())
			ts.Setenv("REDIS_URL", strings.Replace(ts.Getenv("REDIS_URL"), "redis://", "redis://mute:pw@", 1))
		},
		"config": func(ts *testscript.TestScript, _ bool, args []string) {
			for _, client := range labOf(ts).clients {
				ts.Check(client.ConfigSet(context.Background(), args[0], args[1]).Err())
			}
		},
		"executed":  func(ts *testscript.TestScript, _ bool, _ []string) { labOf(ts).searched(ts) },
		"unspoiled": unspoiled,
		"hset":      hset,
		"harmless": func(ts *testscript.TestScript, _ bool, args []string) {
			for _, file := range args {
				if text := ts.ReadFile(file); strings.ContainsFunc(text, moves) {
					ts.Fatalf("%s has more than letters in it: %q", file, text)
				}
			}
		},
	})
	testscript.Run(t, params)
}

func labOf(ts *testscript.TestScript) *operationsLab { return ts.Value("lab").(*operationsLab) }

func (lab *operationsLab) close() {
	for _, release := range slices.Backward(lab.releases) {
		release()
	}
}

// start starts a Redis.
func (lab *operationsLab) start(ts *testscript.TestScript, kind string) {
	url := ""
	switch kind {
	case "server":
		server := redistest.Start(lab.t)
		lab.clients, url = []redis.UniversalClient{server.Client(lab.t)}, "redis://"+server.Addr()
	case "password":
		server := redistest.Start(lab.t, "--requirepass", secret)
		lab.clients = []redis.UniversalClient{server.Client(lab.t, func(o *redis.Options) { o.Password = secret })}
		url = "redis://:hunter2%2F%25@" + server.Addr()
		ts.Setenv("REDIS_ADDR", server.Addr())
	case "limited":
		server := redistest.Start(lab.t)
		lab.clients, url = []redis.UniversalClient{server.Client(lab.t)}, "redis://desk:pw@"+server.Addr()
		words := []any{"acl", "setuser", "desk", "on", ">pw", "~rl:*", "~shop:*", "resetchannels", "-@all"}
		for _, word := range strings.Fields(permitted(ts)) {
			words = append(words, word)
		}
		ts.Check(lab.clients[0].Do(context.Background(), words...).Err())
	case "tls":
		secure := redistest.StartTLS(lab.t)
		lab.clients, url = []redis.UniversalClient{secure.Server.Client(lab.t)}, "rediss://"+secure.Addr()
		ts.Setenv("AUTHORITY", secure.Authority)
		ts.Setenv("TLS_ADDR", secure.Addr())
		ts.Setenv("PLAIN_ADDR", redistest.Start(lab.t).Addr())
	case "cluster":
		cluster := redistest.StartCluster(lab.t)
		for _, master := range cluster.Masters {
			lab.clients = append(lab.clients, master.Client(lab.t))
		}
		url = "redis+cluster://" + strings.Join(cluster.Addrs(), ",")
	case "sentinel":
		sentinel := redistest.StartSentinel(lab.t)
		lab.clients = []redis.UniversalClient{sentinel.Master.Client(lab.t)}
		url = "redis+sentinel://" + sentinel.Sentinels[0].Addr() + "," + sentinel.Sentinels[1].Addr() + "/" + redistest.MasterName
	default:
		ts.Fatalf("redis %s, want server, password, limited, tls, cluster or sentinel", kind)
	}
	ts.Setenv("REDIS_URL", url)
	ts.Setenv("REDIS_DEAD", "redis://:hunter2%2F%25@"+deadAddr(ts))
}

// hset changes a hash behind the commands' back.
func hset(ts *testscript.TestScript, _ bool, args []string) {
	for i, arg := range args {
		args[i] = strings.NewReplacer(`\n`, "\n", `\e`, "\x1b", `\a`, "\a", `\u009b`, "\u009b").Replace(arg)
	}
	client := labOf(ts).clients[0]
	if len(args) == 2 {
		ts.Check(client.HDel(context.Background(), args[0], args[1]).Err())
		return
	}
	ts.Check(client.HSet(context.Background(), args[0], args[1], args[2]).Err())
}

// permitted are the words of the lines that permit what the limiter and its locks send, and of the help, which names what is needed besides.
func permitted(ts *testscript.TestScript) (words string) {
	for file, begins := range map[string]string{"redisstore/doc.go": "//\ton >pw", "lock/redislock/doc.go": "//\ton >pw"} {
		text, err := os.ReadFile(filepath.Join("..", "..", "ratelimit", file))
		ts.Check(err)
		for line := range strings.Lines(string(text)) {
			if _, rest, ok := strings.Cut(line, "-@all"); ok && strings.HasPrefix(line, begins) {
				words += " " + rest
			}
		}
	}
	for word := range strings.FieldsSeq(redisHelp) {
		if strings.HasPrefix(word, "+") || strings.HasPrefix(word, "&") {
			words += " " + strings.TrimRight(word, ".,")
		}
	}
	return words
}

// deadAddr is where nothing listens.
func deadAddr(ts *testscript.TestScript) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	defer l.Close()
	return l.Addr().String()
}

// guard is that of a method of limits.json, and the context of calls by an id such as user=42.
func (lab *operationsLab) guard(ts *testscript.TestScript, method, id string) (*ratelimit.Guard, context.Context) {
	policies, err := readPolicies(ts.MkAbs("limits.json"))
	ts.Check(err)
	url := ts.Getenv("REDIS_URL")
	if strings.HasPrefix(url, "rediss:") {
		url += "?skip_verify=true" // the authority is known to the commands alone
	}
	client, err := redisurl.Open(url)
	ts.Check(err)
	counts, err := redisstore.New(client, redisstore.WithBudget(patience))
	ts.Check(err)
	locks, err := redislock.New(client, redislock.WithBudget(patience))
	ts.Check(err)
	lab.releases = append(lab.releases, func() { client.Close() }, func() { locks.Close() })
	limiter, err := ratelimit.New(counts, ratelimit.WithLocks(locks), ratelimit.WithInstances(1))
	ts.Check(err)
	for _, p := range policies {
		if _, err := limiter.Prepare(p); err != nil {
			ts.Fatalf("%v", err)
		}
	}
	guard, err := limiter.Find(method)
	ts.Check(err)
	who, err := ratelimit.ParseID(id)
	ts.Check(err)
	return guard, callerOf(who)
}

// patience is how long a call waits for a server on a busy machine.
const patience = 20 * time.Second

// callerOf is the context of calls by an id, and by others of the other kinds.
func callerOf(id ratelimit.ID) context.Context {
	ctx := ratelimit.WithUser(ratelimit.WithIP(context.Background(), netip.MustParseAddr("192.0.2.99")), "somebody")
	switch id.Kind {
	case rules.User:
		return ratelimit.WithUser(ctx, id.Text)
	case rules.IP:
		return ratelimit.WithIP(ctx, netip.MustParseAddr(id.Text))
	}
	return ctx
}

// searched fails if a server has executed a command that looks through keys.
func (lab *operationsLab) searched(ts *testscript.TestScript) {
	for _, client := range lab.clients {
		stats, err := client.Info(context.Background(), "commandstats").Result()
		ts.Check(err)
		for _, name := range []string{"keys", "scan", "randomkey", "dbsize"} {
			if strings.Contains(stats, "cmdstat_"+name+":") {
				ts.Fatalf("a server has executed %s:\n%s", name, stats)
			}
		}
	}
}

// unspoiled fails if a file has the password in any form.
func unspoiled(ts *testscript.TestScript, _ bool, args []string) {
	for _, file := range args {
		if text := ts.ReadFile(file); strings.Contains(text, "hunter2") {
			ts.Fatalf("%s has the password in it:\n%s", file, text)
		}
	}
}
