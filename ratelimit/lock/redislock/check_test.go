package redislock_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/lock"
	"github.com/rlgen/rlgen/ratelimit/lock/redislock"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
)

// checkRefuses fails the test unless a check fails as misconfigured, with every want in the message.
func checkRefuses(t *testing.T, s *redislock.Store, claims []lock.Claim, wants ...string) {
	t.Helper()
	_, err := s.Check(context.Background(), claims)
	if classOf(err) != store.Misconfigured {
		t.Fatalf("Check = %v, want an error of class %v", err, store.Misconfigured)
	}
	for _, want := range wants {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("Check = %v, want %q in it", err, want)
		}
	}
}

// TestCheck holds that a check finds nothing where there is nothing to find, and leaves nothing held or waited for.
func TestCheck(t *testing.T) {
	for name, client := range map[string]redis.UniversalClient{
		"standalone": redistest.Standalone(t).Client(t),
		"cluster":    redistest.NewCluster(t).Client(t),
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t, client)
			name := redistest.Prefix(t)
			for range 2 {
				findings, err := s.Check(context.Background(), []lock.Claim{{Name: name}, {Name: name, Limit: 3, Cost: 1}})
				if err != nil || len(findings) > 0 {
					t.Errorf("Check = %v, %v, want nothing", findings, err)
				}
			}
		})
	}
}

// TestCheckOfPermissions holds that a check asks about every command that doc.go lists, says how to permit those that are
// missing, and sends none that a user with just these may not.
func TestCheckOfPermissions(t *testing.T) {
	server := redistest.Start(t)
	admin := server.Client(t)
	user := func(words []string) *redislock.Store {
		t.Helper()
		permit(t, server, "locker", words)
		return newStore(t, server.Client(t, func(o *redis.Options) { o.Username, o.Password = "locker", "pw" }))
	}
	words := acl(t)
	if findings, err := user(words).Check(context.Background(), nil); err != nil || len(findings) > 0 {
		t.Fatalf("Check with the permissions of doc.go = %v, %v, want nothing", findings, err)
	}
	if got := admin.Do(context.Background(), "acl", "log").Val(); len(got.([]any)) != 0 {
		t.Errorf("ACL LOG = %v, want nothing refused", got)
	}
	own := []string{"+hello", "+ping", "+client|setname"} // the client's
	for _, word := range words {
		if word[0] != '+' || slices.Contains(own, word) {
			continue
		}
		t.Run(word, func(t *testing.T) {
			want := word
			if word == "+evalsha" {
				want = "'evalsha'" // nothing can be asked without it, and Redis says so itself
			}
			checkRefuses(t, user(append(slices.Clone(words), "-"+word[1:])), nil, want)
		})
	}
	replace := func(from, to string) []string {
		words := slices.Clone(words)
		words[slices.Index(words, from)] = to
		return words
	}
	checkRefuses(t, user(replace("~rl:*", "~other:*")), nil, `"rl"`, "~rl:*")
	checkRefuses(t, user(replace("&rl:*", "&other:*")), nil, "+publish", "+subscribe", "&rl:*")
}

func TestCheckOfAKeyOfAnotherProgram(t *testing.T) {
	client, name := redistest.Standalone(t).Client(t), redistest.Prefix(t)
	s := newStore(t, client)
	for key, claim := range map[string]lock.Claim{"rl:lock:{" + name + "}": {Name: name}, "rl:sem:{" + name + "}": {Name: name, Limit: 1, Cost: 1}} {
		client.Set(context.Background(), key, "theirs", 0)
		t.Cleanup(func() { client.Del(context.Background(), key) })
		checkRefuses(t, s, []lock.Claim{claim}, "WRONGTYPE", key)
	}
}

func TestCheckOfADeadServer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := newStore(t, server.Client(t, func(o *redis.Options) { o.DialerRetries = 1 }))
	server.Kill(t)
	if _, err := s.Check(context.Background(), nil); err == nil || classOf(err) == store.Misconfigured {
		t.Errorf("Check of a dead server = %v, want an error of another class than %v", err, store.Misconfigured)
	}
}
