package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/fx"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/rlgen/rlgen/ratelimit/memstore"
	"github.com/rlgen/rlgen/ratelimit/ratelimittest"
	"github.com/rlgen/rlgen/ratelimit/store"
)

// page is what Prometheus gets.
func (r *running) page() string {
	r.t.Helper()
	resp, text := r.ask("GET", "/metrics", "", nil)
	if resp.StatusCode != http.StatusOK {
		r.t.Fatalf("GET /metrics: status %d, want 200:\n%s", resp.StatusCode, text)
	}
	return text
}

// series is a line of the page: what it measures, its labels in the page's order, and its value, a regular expression.
func series(name, value string, labels ...string) string {
	return `(?m)^` + name + `\{[^}]*` + strings.Join(labels, `[^}]*`) + `[^}]*\} ` + value + `$`
}

// requests is a series of calls, by what became of them.
func requests(method, policy, mode, result, value string) string {
	return series("rate_limiting_requests_total", value, `code_function_name="`+method+`"`, `rate_limiting_mode="`+mode+`"`,
		`rate_limiting_policy="`+policy+`"`, `rate_limiting_result="`+result+`"`)
}

// buckets are the lines of a page that say little.
var buckets = regexp.MustCompile(`(?m)^.*_bucket\{.*\n`)

// has expects a line of the page.
func has(t *testing.T, page, want string) {
	t.Helper()
	if !regexp.MustCompile(want).MatchString(page) {
		t.Errorf("no line is %s in\n%s", want, buckets.ReplaceAllString(page, ""))
	}
}

// breakable is a store that can be down.
type breakable struct {
	store.Store
	down atomic.Bool
}

func (b *breakable) Take(ctx context.Context, reqs []store.Request, detail bool, out *store.Outcome) error {
	if b.down.Load() {
		return &store.Error{Class: store.Unavailable, Err: errors.New("made to fail")}
	}
	return b.Store.Take(ctx, reqs, detail, out)
}

// The page has what was allowed and what each limit denied, how long decisions took, and the store's errors; and neither it nor the log has an id of anybody.
func TestPage(t *testing.T) {
	clock := new(ratelimittest.Clock)
	counts := &breakable{Store: memstore.New(memstore.WithClock(clock.Now))}
	shop := start(t, config{proxies: "127.0.0.0/8"}, fx.Provide(func() store.Store { return counts }))
	client := shop.dial()
	header := http.Header{"X-User": {"somebody@example.com"}, "X-Forwarded-For": {"203.0.113.77"}}
	somebody := calling(t, "x-user", "somebody@example.com", "x-forwarded-for", "203.0.113.77")
	for range 4 {
		shop.ask("POST", "/orders", `{"item":"camomile"}`, header)
	}
	if _, err := client.Create(somebody, tea); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("an order over gRPC: %v, want ResourceExhausted", err)
	}
	for range 6 {
		shop.ask("POST", "/login", "name=mallory&password=hunter2", http.Header{"X-Forwarded-For": {"203.0.113.77"}, "Content-Type": {"application/x-www-form-urlencoded"}})
	}
	shop.ask("DELETE", "/orders/o-17", "", header)
	shop.ask("DELETE", "/orders/o-17", "", header)
	counts.down.Store(true)
	if resp, _ := shop.ask("DELETE", "/orders/o-18", "", header); resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("without a store, where onfail is closed: status %d, want 503", resp.StatusCode)
	}
	shop.ask("POST", "/orders", `{"item":"camomile"}`, header)

	page := shop.page()
	has(t, page, requests("orders.Orders.Create", "Create/user", "enforce", "acquired", "3"))
	has(t, page, requests("orders.Orders.Create", "Create/user", "enforce", "rejected", "2"))
	has(t, page, requests("accounts.Accounts.Login", "Login", "enforce", "acquired", "5"))
	has(t, page, requests("accounts.Accounts.Login", "Login", "enforce", "rejected", "1"))
	has(t, page, requests("orders.Orders.Cancel", "Cancel/key", "enforce", "rejected", "1"))
	has(t, page, series("rate_limiting_check_duration_seconds_count", "[0-9]+", `code_function_name="orders.Orders.Create"`, `rate_limiting_result="acquired"`))
	has(t, page, series("rate_limiting_store_errors_total", "2", `error_type="unavailable"`))
	has(t, page, series("rate_limiting_fallbacks_total", "1", `code_function_name="orders.Orders.Create"`, `rate_limiting_policy="Create/ip"`, `rate_limiting_source="local"`))

	for what, text := range map[string]string{"page": page, "log": shop.log.String()} {
		for _, id := range []string{"somebody", "example.com", "203.0.113", "mallory", "hunter2", "camomile", "o-17", "o-18", "rl:", "made to fail"} {
			if strings.Contains(text, id) && (what == "page" || id != "made to fail") { // the log says why the store is down
				t.Errorf("the %s has %q:\n%s", what, id, text)
			}
		}
	}
}

// What a shadow would deny is on the page and in the log, and in no answer.
func TestShadow(t *testing.T) {
	clock, counted := clocked()
	shop := start(t, config{}, counted)
	client, alice := shop.dial(), calling(t, "x-user", "alice")
	answers := &strings.Builder{}
	for i := range 22 { // of 20 in an hour, by the shadow, and no faster than the other limit lets
		if i%2 == 0 {
			resp, body := shop.ask("POST", "/orders", `{"item":"tea"}`, by("alice"))
			if resp.StatusCode != http.StatusCreated {
				t.Errorf("order %d: status %d, want 201", i+1, resp.StatusCode)
			}
			fmt.Fprintln(answers, resp.Header, body)
		} else {
			var head, trailer metadata.MD
			order, err := client.Create(alice, tea, grpc.Header(&head), grpc.Trailer(&trailer))
			if err != nil {
				t.Errorf("order %d, over gRPC: %v, want it placed", i+1, err)
			}
			fmt.Fprintln(answers, head, trailer, order)
		}
		clock.Advance(4 * time.Second)
	}
	for range 3 {
		resp, body := shop.ask("POST", "/orders", `{"item":"tea"}`, by("alice"))
		fmt.Fprintln(answers, resp.Header, body)
	}
	var trailer metadata.MD
	_, err := client.Create(alice, tea, grpc.Trailer(&trailer))
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("an order too many: %v, want ResourceExhausted", err)
	}
	fmt.Fprintln(answers, trailer, status.Convert(err).Proto())
	if text := strings.ToLower(answers.String()); strings.Contains(text, "candidate") || strings.Contains(text, "shadow") {
		t.Errorf("an answer tells of the shadow:\n%s", text)
	}

	page := shop.page()
	has(t, page, requests("orders.Orders.Create", "Create/candidate", "shadow", "acquired", "20"))
	has(t, page, requests("orders.Orders.Create", "Create/candidate", "shadow", "rejected", "6"))
	has(t, page, requests("orders.Orders.Create", "Create/user", "enforce", "rejected", "3"))
	line := regexp.MustCompile(`(?m)^.*would deny a call.*limit=Create/candidate.*mode=shadow.*$`)
	if lines := line.FindAllString(shop.log.String(), -1); len(lines) == 0 || strings.Contains(fmt.Sprint(lines), "alice") {
		t.Errorf("the log has the lines %q of the shadow, want one or more, of nobody:\n%s", lines, shop.log)
	}
}
