package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/rlgen/rlgen/examples/quickstart/shop"
	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/httplimit"
	"github.com/rlgen/rlgen/ratelimit/ratelimittest"
	"github.com/rlgen/rlgen/ratelimit/redisstore"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
	"github.com/rlgen/rlgen/rules"
)

func TestMain(m *testing.M) {
	code := redistest.Main(m)
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// site is a router that serves, and a client of it that is its proxy.
type site struct {
	t      *testing.T
	server *httptest.Server
}

// serving calls test with a site of each router. The site serves what svc returns.
func serving(t *testing.T, svc func() shop.Orders, test func(t *testing.T, s *site)) {
	for name, router := range routers {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(router(svc()))
			defer server.Close()
			defer server.Client().CloseIdleConnections()
			test(t, &site{t, server})
		})
	}
}

// order sends an order as the proxy does for a client. The header is what the client has sent.
func (s *site) order(user, client string, header http.Header) (*http.Response, []byte) {
	s.t.Helper()
	r, err := http.NewRequest(http.MethodPost, s.server.URL+"/orders/tea", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	for name, values := range header {
		r.Header[name] = values
	}
	if client != "" {
		r.Header.Add("X-Forwarded-For", client)
	}
	if user != "" {
		r.Header.Set("Authorization", "Bearer "+user+"-secret")
	}
	return s.do(r)
}

func (s *site) do(r *http.Request) (*http.Response, []byte) {
	s.t.Helper()
	res, err := s.server.Client().Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return res, body
}

// quotas are the fields of an answer that tell of limits.
func quotas(res *http.Response) []string {
	var found []string
	for _, name := range []string{"Retry-After", "RateLimit-Policy", "RateLimit"} {
		if values := res.Header.Values(name); len(values) > 0 {
			found = append(found, name+": "+strings.Join(values, " | "))
		}
	}
	return found
}

const policies = `RateLimit-Policy: "Create/user 10s";q=3;w=10, "Create/user 1h";q=100;w=3600, "Create/ip";q=4;w=60, "Create/global";q=1000;w=1`

// A client is told what is left, is turned away when nothing is, and is let in once it has waited as it was told to.
func TestClient(t *testing.T) {
	var clock *ratelimittest.Clock
	counted := func() shop.Orders {
		var limiter *ratelimit.Limiter
		limiter, clock = ratelimittest.New()
		return shop.NewRateLimitedOrders(new(shop.Service), limiter)
	}
	serving(t, counted, func(t *testing.T, s *site) {
		for i := range 3 {
			res, body := s.order("alice", "203.0.113.7", nil)
			if want := fmt.Sprintf(`{"id":"tea-%d"}`, i+1); res.StatusCode != http.StatusCreated || strings.TrimSpace(string(body)) != want {
				t.Errorf("order %d: %d %s, want 201 %s", i+1, res.StatusCode, body, want)
			}
			want := []string{policies, fmt.Sprintf(`RateLimit: "Create/user 10s";r=%d;t=10, "Create/user 1h";r=%d;t=3600, "Create/ip";r=%d;t=60, "Create/global";r=%d;t=1`,
				2-i, 99-i, 3-i, 999-i)}
			if diff := cmp.Diff(want, quotas(res)); diff != "" {
				t.Errorf("order %d (-want +got):\n%s", i+1, diff)
			}
		}

		res, body := s.order("alice", "203.0.113.7", nil)
		want := []string{"Retry-After: 10", policies, `RateLimit: "Create/user 10s";r=0;t=10, "Create/user 1h";r=97, "Create/ip";r=1, "Create/global";r=997`}
		if diff := cmp.Diff(want, quotas(res)); diff != "" {
			t.Errorf("denied (-want +got):\n%s", diff)
		}
		var got httplimit.Problem
		if err := json.Unmarshal(body, &got); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		problem := httplimit.Problem{
			Type: httplimit.QuotaExceeded, Title: "Quota Exceeded", Status: 429, Detail: "The rate limit is exceeded.",
			Limit: "Create/user", ViolatedPolicies: []string{"Create/user 10s"}, RetryAfter: 10,
		}
		if diff := cmp.Diff(problem, got); diff != "" || res.StatusCode != 429 || res.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("denied: %d %s (-want +got):\n%s", res.StatusCode, res.Header.Get("Content-Type"), diff)
		}

		wait, err := strconv.Atoi(res.Header.Get("Retry-After"))
		if err != nil {
			t.Fatal(err)
		}
		clock.Advance(time.Duration(wait) * time.Second)
		if res, body := s.order("alice", "203.0.113.7", nil); res.StatusCode != http.StatusCreated {
			t.Errorf("after a wait of %d s: %d %s, want 201", wait, res.StatusCode, body)
		}
	})
}

// Who is nobody is told so, and nothing of quotas; what is not limited says nothing of limits.
func TestNobodyAndNoLimit(t *testing.T) {
	limited := func() shop.Orders {
		return shop.NewRateLimitedOrders(new(shop.Service), ratelimittest.AllowAll())
	}
	serving(t, limited, func(t *testing.T, s *site) {
		for _, user := range []string{"", "mallory"} {
			if res, body := s.order(user, "203.0.113.7", nil); res.StatusCode != http.StatusUnauthorized || quotas(res) != nil {
				t.Errorf("%q: %d %s %q, want 401 without quotas", user, res.StatusCode, body, quotas(res))
			}
		}
		r, err := http.NewRequest(http.MethodGet, s.server.URL+"/orders", nil)
		if err != nil {
			t.Fatal(err)
		}
		if res, body := s.do(r); res.StatusCode != http.StatusOK || strings.TrimSpace(string(body)) != `{"orders":0}` || quotas(res) != nil {
			t.Errorf("%d %s %q, want the number of orders, 200 without quotas", res.StatusCode, body, quotas(res))
		}
	})
}

// failing is a service whose calls end as it says.
type failing func(ctx context.Context) error

func (f failing) Create(ctx context.Context, _ string) (string, error) { return "", f(ctx) }
func (f failing) Count(ctx context.Context) (int, error)               { return 0, f(ctx) }

// A store that is down is no quota that is exceeded, and an error of the service is neither.
func TestErrors(t *testing.T) {
	closed := ratelimittest.Failing(store.Unavailable).Guard(&rules.Policy{
		Package: "example.com/shop", Type: "shop.Orders", Method: "Create",
		Limits: []rules.Limit{{Kind: rules.User, OnFail: rules.FailClosed, Rules: []rules.Rule{{Count: 1, Window: time.Second}}}},
	})
	for _, test := range []struct {
		name string
		err  failing
		want int
	}{
		{"the store is down", func(ctx context.Context) error { _, err := closed.Take(ctx); return err }, http.StatusServiceUnavailable},
		{"the service fails", func(context.Context) error { return errors.New("dial tcp 10.0.0.9: no such shelf") }, http.StatusInternalServerError},
	} {
		t.Run(test.name, func(t *testing.T) {
			serving(t, func() shop.Orders { return test.err }, func(t *testing.T, s *site) {
				res, body := s.order("alice", "203.0.113.7", nil)
				if res.StatusCode != test.want || quotas(res) != nil {
					t.Errorf("%d with %q, want %d without quotas", res.StatusCode, quotas(res), test.want)
				}
				if strings.Contains(string(body), "10.0.0.9") {
					t.Errorf("the body %s says what only the log may", body)
				}
			})
		})
	}
}

// Where Redis goes away while a router serves, a limit that is closed then answers 503 without quotas, to whoever was let in before.
func TestRedisThatGoes(t *testing.T) {
	redis := redistest.Start(t)
	client := redis.Client(t)
	closed := rules.Policy{
		Package: "example.com/shop", Type: "shop.Orders", Method: "Create",
		Limits: []rules.Limit{{Kind: rules.User, OnFail: rules.FailClosed, Rules: []rules.Rule{{Count: 1000, Window: time.Hour}}}},
	}
	counted := func() shop.Orders {
		counts, err := redisstore.New(client, redisstore.WithBudget(5*time.Second)) // for a busy machine
		if err != nil {
			t.Fatal(err)
		}
		limiter, err := ratelimit.New(counts, ratelimit.WithLogger(slog.New(slog.DiscardHandler)))
		if err != nil {
			t.Fatal(err)
		}
		guard := limiter.Guard(&closed)
		return failing(func(ctx context.Context) error { _, err := guard.Take(ctx); return err })
	}
	var sites []*site
	for _, router := range routers {
		server := httptest.NewServer(router(counted()))
		defer server.Close()
		defer server.Client().CloseIdleConnections()
		s := &site{t, server}
		if res, body := s.order("alice", "203.0.113.7", nil); res.StatusCode != http.StatusCreated || len(quotas(res)) == 0 {
			t.Errorf("while Redis is there: %d %s %q, want 201 with quotas", res.StatusCode, body, quotas(res))
		}
		sites = append(sites, s)
	}
	redis.Kill(t)
	for _, s := range sites {
		res, body := s.order("alice", "203.0.113.7", nil)
		if res.StatusCode != http.StatusServiceUnavailable || quotas(res) != nil || strings.Contains(string(body), redis.Addr()) {
			t.Errorf("without Redis: %d %s %q, want 503 without quotas, nor a word of where it was", res.StatusCode, body, quotas(res))
		}
	}
}

// Whatever headers a client sends, it counts as the address that the proxy has seen: it neither has a count of its own each time,
// nor spends another's.
func TestSpoofedHeadersChangeNobodysCount(t *testing.T) {
	counted := func() shop.Orders {
		limiter, _ := ratelimittest.New()
		return shop.NewRateLimitedOrders(new(shop.Service), limiter)
	}
	header := func(value string) http.Header {
		h := make(http.Header)
		for _, name := range []string{
			"X-Forwarded-For", "X-Real-Ip", "True-Client-Ip", "Cf-Connecting-Ip", "X-Client-Ip", "X-Appengine-Remote-Addr",
			"X-Forwarded", "Forwarded-For", "Client-Ip",
		} {
			h.Set(name, value)
		}
		h.Set("Forwarded", "for="+value)
		return h
	}
	serving(t, counted, func(t *testing.T, s *site) {
		for i, user := range []string{"alice", "alice", "bob", "bob"} { // 4 in a minute for one address
			if res, body := s.order(user, "203.0.113.7", header(fmt.Sprintf("198.51.100.%d", i))); res.StatusCode != http.StatusCreated {
				t.Errorf("order %d: %d %s, want 201", i+1, res.StatusCode, body)
			}
		}
		for _, spoofed := range []string{"198.51.100.9", "127.0.0.1", "unknown", "::1", "203.0.113.8, 127.0.0.1", strings.Repeat("127.0.0.1,", 500)} {
			if res, _ := s.order("bob", "203.0.113.7", header(spoofed)); res.StatusCode != http.StatusTooManyRequests {
				t.Errorf("%.40q: %d, want 429: the address has had its orders", spoofed, res.StatusCode)
			}
		}
		if res, body := s.order("bob", "198.51.100.9", nil); res.StatusCode != http.StatusCreated {
			t.Errorf("the address that was claimed: %d %s, want 201", res.StatusCode, body)
		}
	})
}
