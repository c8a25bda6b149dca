package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"

	"go.uber.org/fx"
	"go.uber.org/goleak"

	"github.com/rlgen/rlgen/ratelimit/memstore"
	"github.com/rlgen/rlgen/ratelimit/ratelimittest"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
)

var errNotBack = errors.New("the Redis that has come back counts no order, or the log does not say that it is back")

// programEnv makes the test binary the shop, so that tests need not build it.
const programEnv = "SHOP_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(programEnv) != "" {
		main()
		os.Exit(0)
	}
	// The tests that run in parallel wait for servers and for a file to be read.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

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

// running is the program, as main starts it but for the log and the config.
type running struct {
	t      *testing.T
	url    string // of HTTP
	grpc   string // its address
	log    *buffer
	client *http.Client
}

// start starts the program with what it counts in.
func start(t *testing.T, c config, counted fx.Option) *running {
	t.Helper()
	log := &buffer{}
	c.addr, c.grpcAddr = "127.0.0.1:0", "127.0.0.1:0"
	app := fx.New(fx.NopLogger, fx.Supply(slog.New(slog.NewTextHandler(log, nil)), c), counted, shop(c), readOften(c))
	if err := app.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := app.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	found := servesAt.FindStringSubmatch(log.String())
	served := servesCallsAt.FindStringSubmatch(log.String())
	if found == nil || served == nil {
		t.Fatalf("the log does not say where the program serves:\n%s", log)
	}
	return &running{t, found[1], served[1], log, newClient(t)}
}

var servesCallsAt = regexp.MustCompile(`grpc=(\S+)`)

// clocked counts in the process, by a clock that the test holds.
func clocked() (*ratelimittest.Clock, fx.Option) {
	clock := new(ratelimittest.Clock)
	return clock, fx.Provide(func() store.Store { return memstore.New(memstore.WithClock(clock.Now)) })
}

// ask makes a request, and returns the answer and its body.
func (r *running) ask(method, path, body string, header http.Header) (*http.Response, string) {
	r.t.Helper()
	req, err := http.NewRequest(method, r.url+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	if header != nil {
		req.Header = header.Clone()
	}
	resp, err := r.client.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return resp, string(text)
}

// by is the header of a user, and of nobody if the name is empty.
func by(user string) http.Header {
	h := http.Header{}
	if user != "" {
		h.Set("X-User", user)
	}
	return h
}

// order orders tea for a user, and returns the status and Retry-After.
func (r *running) order(user string) (status int, retryAfter string) {
	r.t.Helper()
	resp := r.post(user)
	return resp.StatusCode, resp.Header.Get("Retry-After")
}

// post orders tea for a user.
func (r *running) post(user string) *http.Response {
	r.t.Helper()
	resp, _ := r.ask("POST", "/orders", `{"item":"tea"}`, by(user))
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
	shop := start(t, config{}, counts(""))
	shop.fourOrders("alice")
	shop.fourOrders("bob")
	if status, _ := shop.order(""); status != http.StatusUnauthorized {
		t.Errorf("order of nobody: status %d, want 401", status)
	}
}

// TestRedisStopsAndStarts checks that a shop serves without its Redis: no order fails, and each user's limit holds. The log
// has one line for the outage, and one for its end. No restart is needed. On a slow machine there may be more outages.
func TestRedisStopsAndStarts(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	shop := start(t, config{}, counts("redis://"+server.Addr()+"?read_timeout=5s")) // for the check at the start
	shop.ordersWithinBudget("before")
	began, over := shop.log.outages()

	server.Kill(t)
	for _, user := range []string{"u1", "u2", "u3", "u4", "u5"} {
		shop.fourOrders(user)
	}
	if now, nowOver := shop.log.outages(); now-nowOver != 1 || now != began+1 && began == over {
		t.Errorf("the log has %d outages after %d, and %d of them are over, want one more that is not:\n%s", now, began, nowOver, shop.log)
	}

	server.Restart(t)
	client := server.Client(t)
	err := redistest.Poll(func() error {
		shop.order("after")
		if began, over := shop.log.outages(); client.DBSize(t.Context()).Val() == 0 || began != over {
			return errNotBack
		}
		return nil
	})
	if err != nil {
		t.Fatalf("%v:\n%s", err, shop.log)
	}
	shop.ordersWithinBudget("later")
	began, over = shop.log.outages()
	if n := strings.Count(shop.log.String(), "rate limit store"); n != 1+began+over {
		t.Errorf("the log has %d lines of the store, want one of the client's timeout and %d of outages:\n%s", n, began+over, shop.log)
	}
}

// ordersWithinBudget checks that one user may place three orders and no more. Where the store missed its budget meanwhile, it
// tries the next user.
func (r *running) ordersWithinBudget(user string) {
	r.t.Helper()
	tries := 0
	if err := redistest.Poll(func() error {
		tries++
		before, _ := r.log.outages()
		wrong := r.ordered(fmt.Sprint(user, tries), 3)
		if began, over := r.log.outages(); began != before || began != over {
			return errors.New("the machine is too slow for the budget")
		}
		if wrong != nil {
			r.t.Error(wrong)
		}
		return nil
	}); err != nil {
		r.t.Error(err)
	}
}
