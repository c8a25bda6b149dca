package embedded_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rlgen/rlgen/ratelimit/embedded"
	"github.com/rlgen/rlgen/ratelimit/redisstore"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var quiet = embedded.WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil)))

func start(t *testing.T, opts ...embedded.Option) *embedded.Server {
	t.Helper()
	server, err := embedded.Start(append([]embedded.Option{quiet}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	return server
}

func TestKeysExpire(t *testing.T) {
	client := start(t).Client()
	ctx := context.Background()
	begin := time.Now()
	if err := client.Set(ctx, "k", "v", 500*time.Millisecond).Err(); err != nil {
		t.Fatal(err)
	}
	for client.Exists(ctx, "k").Val() == 1 {
		if time.Since(begin) > time.Minute {
			t.Fatal("a key of 500ms has not expired after a minute")
		}
	}
	if lived := time.Since(begin); lived < 200*time.Millisecond {
		t.Errorf("a key of 500ms lived %v", lived)
	}
}

func TestTimeIsTheSystems(t *testing.T) {
	before := time.Now()
	now, err := start(t).Client().Time(context.Background()).Result()
	if err != nil {
		t.Fatal(err)
	}
	if now.Before(before.Truncate(time.Microsecond)) || now.After(time.Now()) {
		t.Errorf("TIME = %v, want between %v and now", now, before)
	}
}

func TestSaysOnceThatItIsNotForProduction(t *testing.T) {
	var log bytes.Buffer
	server := start(t, embedded.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	server.Client().Ping(context.Background())
	if got := log.String(); strings.Count(got, "not for production") != 1 || !strings.Contains(got, "level=WARN") {
		t.Errorf("log = %q, want one warning of what is not for production", got)
	}
}

func TestNilLogger(t *testing.T) {
	if _, err := embedded.Start(embedded.WithLogger(nil)); err == nil {
		t.Error("Start with a nil logger succeeds, want an error")
	}
}

func TestCloseTwice(t *testing.T) {
	server := start(t)
	for range 2 {
		if err := server.Close(); err != nil {
			t.Errorf("Close = %v, want nil", err)
		}
	}
	if err := server.Client().Ping(context.Background()).Err(); err == nil {
		t.Error("Ping after Close succeeds, want an error")
	}
}

func ExampleStart() {
	server, err := embedded.Start(quiet)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()

	limits, err := redisstore.New(server.Client())
	if err != nil {
		fmt.Println(err)
		return
	}
	request := store.Request{
		Key:   "rl:user=alice:orders.Orders-Create",
		Rules: []rules.Rule{{Count: 2, Window: time.Minute}},
		Cost:  1,
	}
	for range 3 {
		out, err := store.Take(context.Background(), limits, []store.Request{request}, false)
		fmt.Println(out.Allowed, err)
	}
	// Output:
	// true <nil>
	// true <nil>
	// false <nil>
}
