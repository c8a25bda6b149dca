package redislock_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/lock"
	"github.com/rlgen/rlgen/ratelimit/lock/redislock"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
)

// acl are the words of the line of permissions that doc.go has.
func acl(t *testing.T) []string { return documented(t, "on") }

// clusterACL are those that it has for a Redis Cluster besides.
func clusterACL(t *testing.T) []string { return documented(t, "+cluster|slots") }

// documented are the words of doc.go's line that begins with one.
func documented(t *testing.T, first string) []string {
	t.Helper()
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(doc)) {
		if words := strings.Fields(line); len(words) > 2 && words[1] == first && strings.HasPrefix(line, "//\t") {
			return words[1:]
		}
	}
	t.Fatalf("doc.go has no line of permissions that begins with %q", first)
	return nil
}

// TestPermissions holds that the permissions which doc.go lists are enough for all that the store does.
func TestPermissions(t *testing.T) {
	server := redistest.Start(t)
	admin := server.Client(t)
	permit(t, server, "locker", acl(t))
	client := server.Client(t, func(o *redis.Options) { o.Username, o.Password = "locker", "pw" })
	s := newStore(t, client)
	for _, semaphore := range []bool{false, true} {
		h := holder{t, s, semaphore}
		first := h.must("name", 0, lock.WithLease(300*time.Millisecond))
		if _, err := first.ttl(context.Background()); err != nil {
			t.Error(err)
		}
		next := make(chan error)
		go func() {
			got, err := h.hold("name", 20*time.Second)
			if err == nil {
				err = got.unlock()
			}
			next <- err
		}()
		until(t, func() bool {
			return admin.Exists(context.Background(), "rl:lock:{name}:queue", "rl:sem:{name}:queue").Val() == 1
		})
		if err := first.unlock(); err != nil && !errors.Is(err, lock.ErrLost) {
			t.Error(err)
		}
		if err := <-next; err != nil {
			t.Error(err)
		}
	}
	if got := admin.Do(context.Background(), "acl", "log").Val(); len(got.([]any)) != 0 {
		t.Errorf("ACL LOG = %v, want nothing refused", got)
	}
}

func TestNew(t *testing.T) {
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"one": "127.0.0.1:1"}})
	defer ring.Close()
	for name, client := range map[string]redis.UniversalClient{"nil": nil, "nil client": (*redis.Client)(nil), "ring": ring} {
		if _, err := redislock.New(client); err == nil {
			t.Errorf("New of %s succeeds, want an error", name)
		}
	}
	client := redistest.Standalone(t).Client(t)
	for name, opt := range map[string]redislock.Option{
		"no budget":         redislock.WithBudget(0),
		"no prefix":         redislock.WithPrefix(""),
		"prefix with brace": redislock.WithPrefix("a{b"),
	} {
		if _, err := redislock.New(client, opt); err == nil {
			t.Errorf("New with %s succeeds, want an error", name)
		}
	}
}

// TestNamesDoNotMeet holds that no name is another's, whatever is in it, and that every key expires.
func TestNamesDoNotMeet(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client(t)
	l := newLocker(t, newStore(t, client))
	names := []string{"", "a", "a}", "a}{b", "{a}", "%7Ba%7D", "a:token", "a}:token", "a b", "\x00", "ü", "~", strings.Repeat("x", 200), strings.Repeat("x", 201)}
	var holds []*lock.Hold
	for _, name := range names {
		_, hold, err := l.TryLock(context.Background(), name)
		if err != nil {
			t.Errorf("TryLock(%q) = %v, want nil", name, err)
			continue
		}
		holds = append(holds, hold)
	}
	for _, key := range client.Keys(context.Background(), "*").Val() {
		if ttl := client.PTTL(context.Background(), key).Val(); ttl <= 0 || ttl > lock.DefaultLease+5*time.Minute {
			t.Errorf("PTTL(%q) = %v, want up to the lease and five minutes", key, ttl)
		}
		if strings.Count(key, "{") != 1 || strings.Count(key, "}") != 1 {
			t.Errorf("key %q, want one tag", key)
		}
	}
	for _, hold := range holds {
		if err := hold.Unlock(); err != nil {
			t.Error(err)
		}
	}
}
