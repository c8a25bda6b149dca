package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"
	"go.uber.org/fx"
	"go.uber.org/goleak"

	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
)

var errNotBack = errors.New("the Redis that has come back counts no order, or the log does not say that it is back")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// buffer is a log that a test can read while the program writes it.
type buffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// running is the program, as main starts it but for logger and address.
type running struct {
	t   *testing.T
	url string
	log *buffer
}

func start(t *testing.T, redisURL string) *running {
	t.Helper()
	log := &buffer{}
	app := fx.New(
		fx.NopLogger,
		fx.Supply(slog.New(slog.NewTextHandler(log, nil)), listen("127.0.0.1:0")),
		shop(redisURL),
	)
	if err := app.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		if err := app.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	found := regexp.MustCompile(`url=(http://\S+)`).FindStringSubmatch(log.String())
	if found == nil {
		t.Fatalf("the log does not say where the program serves:\n%s", log)
	}
	return &running{t, found[1], log}
}

// order orders tea for a user, and returns the status and Retry-After.
func (r *running) order(user string) (status int, retryAfter string) {
	r.t.Helper()
	resp := r.post(user)
	return resp.StatusCode, resp.Header.Get("Retry-After")
}

// post orders tea for a user, and returns the answer without its body.
func (r *running) post(user string) *http.Response {
	r.t.Helper()
	req, err := http.NewRequest("POST", r.url+"/orders", strings.NewReader(`{"item":"tea"}`))
	if err != nil {
		r.t.Fatal(err)
	}
	if user != "" {
		req.Header.Set("X-User", user)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	resp.Body.Close()
	return resp
}

// fourOrders orders four times where three are allowed in ten seconds.
func (r *running) fourOrders(user string) {
	r.t.Helper()
	for i := range 4 {
		want := http.StatusCreated
		if i == 3 {
			want = http.StatusTooManyRequests
		}
		status, retry := r.order(user)
		if status != want {
			r.t.Errorf("order %d of %s: status %d, want %d", i+1, user, status, want)
		}
		if (status == http.StatusTooManyRequests) != (retry != "") {
			r.t.Errorf("order %d of %s: status %d with Retry-After %q", i+1, user, status, retry)
		}
	}
}

func TestShop(t *testing.T) {
	shop := start(t, "")
	shop.fourOrders("alice")
	shop.fourOrders("bob")
	if status, _ := shop.order(""); status != http.StatusUnauthorized {
		t.Errorf("order of nobody: status %d, want 401", status)
	}
}

// Every answer says what is left, as Structured Fields, and a denial says for how long.
func TestQuotas(t *testing.T) {
	shop := start(t, "")
	for i := range 4 {
		resp := shop.post("alice")
		fields, err := httpsfv.UnmarshalList(resp.Header.Values("RateLimit"))
		if err != nil {
			t.Fatal(err)
		}
		if len(fields) != 4 {
			t.Fatalf("order %d: RateLimit %q, want two rules by user, one by ip and one by all", i+1, resp.Header.Values("RateLimit"))
		}
		first := fields[0].(httpsfv.Item)
		left, _ := first.Params.Get("r")
		if first.Value != "Create/user 10s" || left != max(0, int64(2-i)) {
			t.Errorf("order %d: %v has %v left, want Create/user 10s with %d", i+1, first.Value, left, max(0, 2-i))
		}
		wait, _ := first.Params.Get("t")
		if i == 3 && fmt.Sprint(wait) != resp.Header.Get("Retry-After") {
			t.Errorf("denied: t=%v with Retry-After %s, want the same", wait, resp.Header.Get("Retry-After"))
		}
	}
}

// Redis goes and comes back while the shop serves: no order waits longer than the budget or fails for it, each user's
// limit holds, the log says so once, and no restart is needed.
func TestRedisStopsAndStarts(t *testing.T) {
	server := redistest.Start(t)
	shop := start(t, "redis://"+server.Addr()+"?read_timeout=5s") // on a busy machine, the check at the start takes its time
	shop.fourOrders("before")

	server.Kill(t)
	var longest time.Duration
	for _, user := range []string{"u1", "u2", "u3", "u4", "u5"} {
		begin := time.Now()
		shop.fourOrders(user)
		longest = max(longest, time.Since(begin)/4)
	}
	t.Logf("without Redis: an order took %v on average at most", longest)
	if n := strings.Count(shop.log.String(), "cannot decide"); n != 1 {
		t.Errorf("the log says %d times that the store cannot decide, want once:\n%s", n, shop.log)
	}

	server.Restart(t)
	client := server.Client(t)
	err := redistest.Poll(func() error {
		shop.order("after")
		if client.DBSize(context.Background()).Val() == 0 || !strings.Contains(shop.log.String(), "decides again") {
			return errNotBack
		}
		return nil
	})
	if err != nil {
		t.Fatalf("%v:\n%s", err, shop.log)
	}
	shop.fourOrders("later")
	if n := strings.Count(shop.log.String(), "\n"); n != 4 {
		t.Errorf("the log has %d lines, want that the client waits for long, where it serves, that Redis is down, and that it is back:\n%s", n, shop.log)
	}
}
