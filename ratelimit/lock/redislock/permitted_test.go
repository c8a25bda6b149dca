package redislock_test

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/lock"
	"github.com/rlgen/rlgen/ratelimit/lock/redislock"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
)

// commands are those that words of ACL SETUSER permit, such as "evalsha" and "client|setname", in order.
func commands(words []string) (names []string) {
	for _, word := range words {
		if name, ok := strings.CutPrefix(word, "+"); ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// TestNothingElseIsSent has a user with just the permissions that doc.go lists do all that stores do, and reads from MONITOR what the
// server executes meanwhile: each of the commands, no other, and none is refused.
func TestNothingElseIsSent(t *testing.T) {
	server := redistest.Start(t)
	permit(t, server, "locker", acl(t))
	lines := monitor(t, server)
	client := server.Client(t, func(o *redis.Options) { o.Username, o.Password, o.ClientName = "locker", "pw", "locker" })
	s := newStore(t, client)
	if findings, err := s.Check(context.Background(), nil); err != nil || len(findings) > 0 {
		t.Errorf("Check = %v, %v, want nothing", findings, err)
	}
	for _, limit := range []int64{0, 2} {
		redislock.EachWay(t, s, lock.Claim{Name: "name", ID: "a:0", Lease: lock.MaxLease, Limit: limit, Cost: limit})
	}
	if err := client.Ping(context.Background()).Err(); err != nil { // as the listening connection does after three seconds of silence
		t.Error(err)
	}
	admin := server.Client(t)
	if got := admin.Do(context.Background(), "acl", "log").Val(); len(got.([]any)) != 0 {
		t.Errorf("ACL LOG = %v, want nothing refused", got)
	}
	got := executed(t, lines, admin)
	for _, name := range commands(acl(t)) {
		if !slices.Contains(got, name) {
			t.Errorf("the server has not executed %s, which doc.go permits: leave it out there, or do here what needs it", name)
		}
	}
	for _, name := range got {
		if !slices.Contains(commands(acl(t)), name) {
			t.Errorf("the server has executed %s, which doc.go does not permit", name)
		}
	}
}

// TestClusterPermissions holds that the permissions which doc.go lists for a Redis Cluster are enough for all that the store does there.
func TestClusterPermissions(t *testing.T) {
	cluster := redistest.NewCluster(t)
	for _, node := range append(cluster.Masters[:3:3], cluster.Replicas...) {
		permit(t, node, "locker", append(acl(t), clusterACL(t)...))
		t.Cleanup(func() { node.Client(t).Do(context.Background(), "acl", "deluser", "locker") })
	}
	s := newStore(t, cluster.Client(t, func(o *redis.ClusterOptions) { o.Username, o.Password = "locker", "pw" }))
	for _, limit := range []int64{0, 2, 0, 2, 0, 2} { // on several nodes
		redislock.EachWay(t, s, lock.Claim{Name: redistest.Prefix(t), ID: "a:0", Lease: lock.MaxLease, Limit: limit, Cost: limit})
	}
	for _, node := range cluster.Masters {
		if got := node.Client(t).Do(context.Background(), "acl", "log").Val(); len(got.([]any)) != 0 {
			t.Errorf("ACL LOG = %v, want nothing refused", got)
		}
	}
}

// permit makes a user of whom ACL SETUSER says words, on the server.
func permit(t *testing.T, server *redistest.Server, user string, words []string) {
	t.Helper()
	args := []any{"acl", "setuser", user, "reset"}
	for _, word := range words {
		args = append(args, word)
	}
	if err := server.Client(t).Do(context.Background(), args...).Err(); err != nil {
		t.Fatal(err)
	}
}

// command is the command of a line of MONITOR's, and its first argument.
var command = regexp.MustCompile(`\] "([^"]*)"(?: "([^"]*)")?`)

// executed are the commands that a server has executed, and scripts on it, but for those of the admin's.
func executed(t *testing.T, lines interface {
	Scan() bool
	Text() string
}, admin *redis.Client) (names []string) {
	t.Helper()
	if err := admin.Echo(context.Background(), "the end").Err(); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() && !strings.HasSuffix(lines.Text(), `"the end"`) {
		words := command.FindStringSubmatch(lines.Text())
		if words == nil {
			t.Fatalf("MONITOR says %q, want a command", lines.Text())
		}
		name := strings.ToLower(words[1])
		if name == "client" {
			name += "|" + strings.ToLower(words[2])
		}
		if name != "acl" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// called is a command that a script calls.
var called = regexp.MustCompile(`call\('(\w+)'`)

// TestScriptsCallWhatIsPermitted holds that a script calls no command which doc.go does not permit, whichever way it takes.
func TestScriptsCallWhatIsPermitted(t *testing.T) {
	files, err := filepath.Glob("*.lua")
	if err != nil || len(files) == 0 {
		t.Fatalf("scripts %v, %v, want some", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, call := range called.FindAllStringSubmatch(string(text), -1) {
			if name := strings.ToLower(call[1]); !slices.Contains(commands(acl(t)), name) {
				t.Errorf("%s calls %s, which doc.go does not permit", file, name)
			}
		}
	}
}

// readme returns the words of the one line of README.md that begins with some text.
func readme(t *testing.T, begins string) []string {
	t.Helper()
	text, err := os.ReadFile("../../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	var found [][]string
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, begins) {
			found = append(found, strings.Fields(line))
		}
	}
	if len(found) != 1 {
		t.Fatalf("README.md has %d lines that begin with %q, want one", len(found), begins)
	}
	return found[0]
}

// TestPermissionsOfReadme holds that what README.md permits a limiter, and what it adds for locks, are together what doc.go lists and
// what rates need; that it adds nothing twice; and that locks work with it.
func TestPermissionsOfReadme(t *testing.T) {
	base, added := readme(t, "ACL SETUSER limiter ")[3:], readme(t, "&rl:* ")
	rates, extra := commands(base), commands(added)
	for _, name := range extra {
		if slices.Contains(rates, name) {
			t.Errorf("README.md permits %s to every limiter, and adds it for locks", name)
		}
	}
	var want []string
	for _, name := range commands(acl(t)) {
		if !slices.Contains(rates, name) {
			want = append(want, name)
		}
	}
	if !slices.Equal(extra, want) {
		t.Errorf("README.md adds %v for locks, doc.go has %v beside what rates need", extra, want)
	}
	line := strings.Join(readme(t, "and on a Cluster `"), " ")
	if want := "`" + strings.Join(clusterACL(t), " ") + "`"; !strings.Contains(line, want) {
		t.Errorf("README.md says %q, doc.go %s", line, want)
	}
	for _, word := range acl(t) { // keys and channels
		if !strings.HasPrefix(word, "+") && word != ">pw" && !slices.Contains(append(base, added...), word) {
			t.Errorf("README.md does not say %s, doc.go does", word)
		}
	}

	server := redistest.Start(t)
	permit(t, server, "limiter", append(base, added...))
	s := newStore(t, server.Client(t, func(o *redis.Options) { o.Username, o.Password = "limiter", "password" }))
	if findings, err := s.Check(context.Background(), nil); err != nil || len(findings) > 0 {
		t.Errorf("Check = %v, %v, want nothing", findings, err)
	}
	for _, limit := range []int64{0, 2} {
		redislock.EachWay(t, s, lock.Claim{Name: "name", ID: "a:0", Lease: lock.MaxLease, Limit: limit, Cost: limit})
	}
}
