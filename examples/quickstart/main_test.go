package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// answers takes the column ANSWER out of the table.
func answers(out string) []string {
	var list []string
	for line := range strings.Lines(out) {
		if fields := strings.Fields(line); len(fields) > 3 && (fields[0] == "alice" || fields[0] == "bob") {
			answer := fields[3]
			if answer == "denied" {
				answer += " " + fields[5]
			}
			list = append(list, fields[0]+" "+answer)
		}
	}
	return list
}

var want = []string{
	"alice allowed", "alice allowed", "alice allowed", "alice denied user",
	"bob allowed", "bob denied ip", "bob allowed", "alice denied user",
}

func TestEmbedded(t *testing.T) {
	var out, log bytes.Buffer
	if err := run(context.Background(), &out, &log, ""); err != nil {
		t.Fatal(err)
	}
	if got := answers(out.String()); !slices.Equal(got, want) {
		t.Errorf("answers = %q, want %q:\n%s", got, want, &out)
	}
	if n := strings.Count(log.String(), "not for production"); n != 1 {
		t.Errorf("the log says %d times that the embedded Redis is not for production, want once:\n%s", n, &log)
	}
}

func TestRedis(t *testing.T) {
	server := redistest.Start(t)
	var out bytes.Buffer
	if err := run(context.Background(), &out, io.Discard, "redis://"+server.Addr()); err != nil {
		t.Fatal(err)
	}
	if got := answers(out.String()); !slices.Equal(got, want) {
		t.Errorf("answers = %q, want %q:\n%s", got, want, &out)
	}

	// What each key is charged is what was allowed, and no more: the denied calls are in none of them.
	ctx, client := context.Background(), server.Client(t)
	defer func() {
		out.Reset()
		if err := run(ctx, &out, io.Discard, "redis://"+server.Addr()); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), "5 keys of an earlier run") {
			t.Errorf("a second run does not say that the counts of the first are there:\n%s", &out)
		}
	}()
	charged := map[string]int64{
		"rl:user=alice:shop.Orders-Create":      3,
		"rl:user=bob:shop.Orders-Create":        2,
		"rl:ip=203.0.113.7:shop.Orders-Create":  4,
		"rl:ip=198.51.100.9:shop.Orders-Create": 1,
		"rl:global:shop.Orders-Create":          5,
	}
	keys, err := client.Keys(ctx, "rl:*:*").Result()
	if err != nil {
		t.Fatal(err)
	}
	if len(keys) != len(charged) {
		t.Errorf("keys = %q, want %d of them", keys, len(charged))
	}
	for key, n := range charged {
		if got := client.ZCard(ctx, key).Val(); got != n {
			t.Errorf("%s has %d calls, want %d", key, got, n)
		}
		if ttl := client.PTTL(ctx, key).Val(); ttl <= 0 {
			t.Errorf("%s has the time to live %v, want one", key, ttl)
		}
	}
}

func TestNoRedisAtURL(t *testing.T) {
	for _, test := range []struct{ url, want string }{
		{"redis://127.0.0.1:1", "no Redis at REDIS_URL"},
		{"127.0.0.1:6379", "want redis://host:port"},
		{"redis://user:se cret@127.0.0.1:x", "want redis://host:port"},
	} {
		t.Run(test.url, func(t *testing.T) {
			err := run(context.Background(), io.Discard, os.Stderr, test.url)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("run = %v, want an error with %q", err, test.want)
			}
			if strings.Contains(err.Error(), "cret") {
				t.Errorf("run = %v, which has the password", err)
			}
		})
	}
}
