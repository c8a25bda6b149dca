package redisstore_test

import (
	"errors"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/redisstore"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/ratelimit/storetest"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
)

// aclLine is README's.
var aclLine = regexp.MustCompile(`(?m)^ACL SETUSER limiter .*$`)

// documented are the commands that README's line permits, such as "zadd" and "script|load".
func documented(t *testing.T) []string {
	t.Helper()
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	var commands []string
	for _, word := range strings.Fields(aclLine.FindString(string(readme))) {
		if command, ok := strings.CutPrefix(word, "+"); ok {
			commands = append(commands, command)
		}
	}
	if len(commands) == 0 {
		t.Fatal("README.md has no line that permits commands, want one of ACL SETUSER limiter")
	}
	return commands
}

// commandIn is the command of a line of MONITOR's, and its first argument.
var commandIn = regexp.MustCompile(`\] "([^"]*)"(?: "([^"]*)")?`)

// names are the commands that were executed, in lower case; one that has subcommands with its own.
func names(t *testing.T, lines []string) []string {
	t.Helper()
	found := map[string]bool{}
	for _, line := range lines {
		words := commandIn.FindStringSubmatch(line)
		if words == nil {
			t.Fatalf("MONITOR says %q, want a command", line)
		}
		name := strings.ToLower(words[1])
		if name == "client" || name == "script" || name == "cluster" {
			name += "|" + strings.ToLower(words[2])
		}
		found[name] = true
	}
	return slices.Sorted(maps.Keys(found))
}

// asked are permitted to programs that use the client themselves: the store sends neither.
var asked = []string{"ping", "script|load"}

// TestNothingElseIsSent lets a store whose user may do anything do all that stores do, and reads from MONITOR what the server
// has executed meanwhile: what README's line permits, and INFO, which the check does without if it must.
func TestNothingElseIsSent(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client(t, sensible, func(o *redis.Options) { o.ClientName = "limiter" })
	got := names(t, executed(t, server, func() { doAll(t, newStore(t, client)) }))
	permitted := documented(t)
	for _, name := range got {
		if !slices.Contains(permitted, name) && name != "info" {
			t.Errorf("the server has executed %s, which README's line does not permit", name)
		}
	}
	for _, name := range permitted {
		if !slices.Contains(got, name) && !slices.Contains(asked, name) {
			t.Errorf("the server has not executed %s, which README's line permits: leave it out there, or do here what needs it", name)
		}
	}
}

// doAll has a store do everything, under every algorithm.
func doAll(t *testing.T, s *redisstore.Store) {
	t.Helper()
	if _, err := s.Check(t.Context(), nil); err != nil {
		t.Error(err)
	}
	attend(t, s, "rl", "a member")
	for _, count := range []int64{10, 10_000} { // a long log is kept otherwise than a short one
		for _, window := range []time.Duration{time.Millisecond, time.Hour} {
			for _, req := range storetest.Requests(t, "rl:", count, window) {
				doAllTo(t, s, req)
				req.Ban, req.After = time.Minute, 2
				doAllTo(t, s, req)
			}
		}
	}
}

func doAllTo(t *testing.T, s *redisstore.Store, req store.Request) {
	t.Helper()
	var taken []store.Receipt
	half := req.Rules[0].Count / 2
	for _, req.Cost = range []int64{0, half, 1, 1, half, half, half} {
		out := take(t, s, req)
		if out.Allowed {
			taken = append(taken, out.Receipt)
		}
	}
	errs := []error{s.Peek(t.Context(), []store.Request{req}, new(store.Outcome)), s.Grant(t.Context(), []store.Request{req})}
	for _, receipt := range taken {
		errs = append(errs, s.GiveBack(t.Context(), receipt))
	}
	if req.Ban > 0 {
		errs = append(errs, s.Ban(t.Context(), []store.Request{req}, time.Minute))
	}
	if err := errors.Join(append(errs, s.Reset(t.Context(), []store.Request{req}))...); err != nil {
		t.Errorf("%s: %v", req.Key, err)
	}
}
