package browser_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/dashboard"
	"github.com/rlgen/rlgen/ratelimit/override"
	"github.com/rlgen/rlgen/ratelimit/override/redisoverride"
	"github.com/rlgen/rlgen/ratelimit/redisstore"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
	"github.com/rlgen/rlgen/rules"
)

// directives are those of a shop.
var directives = map[string][]string{
	"Cancel": {"user 10,1m onfail=closed"},
	"Create": {"user 3,10s 100,1h ban=10m after=50", "ip 1000,1h", "global 500,1s"},
	"Find":   {"user 60,1m plan=free", "user 600,1m plan=pro"},
	"Search": {"user 20,1m missing=allow", "ip 60,1m mode=shadow algo=gcra burst=20"},
}

// list is what rlgen list -json says of them.
const list = `[
	{"type": "orders.Orders", "method": "Create", "limits": [
		{"name": "Create/user", "file": "orders/orders.go", "line": 19}, {"name": "Create/ip", "file": "orders/orders.go", "line": 20}, {"name": "Create/global", "file": "orders/orders.go", "line": 21}]},
	{"type": "orders.Orders", "method": "Search", "limits": [
		{"name": "Search", "file": "orders/orders.go", "line": 26}, {"name": "Search/ip/shadow", "file": "orders/orders.go", "line": 27}]},
	{"type": "orders.Orders", "method": "Find", "limits": [
		{"name": "Find/user/free", "file": "orders/orders.go", "line": 32}, {"name": "Find/user/pro", "file": "orders/orders.go", "line": 33}]},
	{"type": "orders.Orders", "method": "Cancel", "limits": [{"name": "Cancel", "file": "orders/orders.go", "line": 38}]}
]`

// service is an instance of the shop, with its dashboard under a prefix.
type service struct {
	t      *testing.T
	guards map[string]*ratelimit.Guard
	board  *dashboard.Dashboard
	page   *httptest.Server
	away   atomic.Bool // no request is answered
	url    string
}

// serve starts an instance over a server.
func serve(t *testing.T, server *redistest.Server, opts ...dashboard.Option) *service {
	t.Helper()
	browser(t) // skips the test without one
	client := server.Client(t)
	counts, err := redisstore.New(client, redisstore.WithBudget(time.Minute)) // no call fails since the machine is busy
	if err != nil {
		t.Fatal(err)
	}
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	seen := dashboard.NewObserver()
	limiter, err := ratelimit.New(counts, ratelimit.WithObserver(seen), ratelimit.WithLogger(quiet))
	if err != nil {
		t.Fatal(err)
	}
	s := &service{t: t, guards: map[string]*ratelimit.Guard{}}
	for method, lines := range directives {
		s.guards[method] = limiter.Guard(policy(t, method, lines))
	}
	opts = append([]dashboard.Option{
		dashboard.WithService("shop"), dashboard.WithInstance("shop-1"), dashboard.WithRedis(client), dashboard.WithLogger(quiet), dashboard.WithSource([]byte(list)),
	}, opts...)
	if s.board, err = dashboard.New(limiter, seen, opts...); err != nil {
		t.Fatal(err)
	}
	watcher, err := override.New(limiter, []override.Source{redisoverride.New(client)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = s.board.Run(ctx) })
	running.Go(func() { _ = watcher.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	s.listen()
	return s
}

func policy(t *testing.T, method string, lines []string) *rules.Policy {
	t.Helper()
	p := &rules.Policy{Package: "example.com/shop/orders", Type: "orders.Orders", Method: method}
	for _, line := range lines {
		d, err := rules.Parse(rules.Namespace + line)
		if err != nil {
			t.Fatal(err)
		}
		p.Limits = append(p.Limits, d.Limit)
	}
	return p
}

// listen serves the page.
func (s *service) listen() {
	mux := http.NewServeMux()
	mux.Handle("/debug/ratelimit/", s.board)
	s.page = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.away.Load() {
			panic(http.ErrAbortHandler)
		}
		mux.ServeHTTP(w, r)
	}))
	s.t.Cleanup(func() { s.page.CloseClientConnections(); s.page.Close() })
	s.url = s.page.URL + "/debug/ratelimit/"
}

// call calls a method as a user, and says whether it passed.
func (s *service) call(method, user, plan string) bool {
	ctx := ratelimit.WithIP(context.Background(), netip.MustParseAddr("192.0.2.7"))
	_, err := s.guards[method].Take(ratelimit.WithPlan(ratelimit.WithUser(ctx, user), plan))
	return err == nil
}

// post sends JSON to a part of the page, and returns the status of the answer.
func (s *service) post(part, body string) int {
	s.t.Helper()
	resp, err := s.page.Client().Post(s.url+part, "application/json", strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	return resp.StatusCode
}

// order places an order of a user.
func (s *service) order(user string) bool { return s.call("Create", user, "") }

// exhaust places orders of a user until one is denied.
func (s *service) exhaust(user string) {
	for s.order(user) {
	}
}

func quote(text string) string {
	b, _ := json.Marshal(text)
	return strings.TrimSpace(string(b))
}
