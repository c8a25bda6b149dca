package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/memstore"
	"github.com/rlgen/rlgen/ratelimit/otellimit"
	"github.com/rlgen/rlgen/ratelimit/ratelimittest"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ids are in every identity that the tests make.
var ids = []string{"alice@example.com", "127.0.0.1", "rl:"}

// scrape makes calls of every kind, and returns the page as Prometheus gets it.
func scrape(t *testing.T) string {
	t.Helper()
	observer, page, err := newMetrics()
	if err != nil {
		t.Fatal(err)
	}
	limiter, _ := ratelimittest.New(ratelimit.WithObserver(observer))
	server := httptest.NewServer(newHandler(limiter, page))
	defer server.Close()
	defer server.Client().CloseIdleConnections()
	for i, want := range []int{201, 201, 429} {
		if got, _ := request(t, server, http.MethodPost, "/cart/tea"); got != want {
			t.Errorf("call %d is answered %d, want %d", i, got, want)
		}
	}
	exercise(t, observer)
	status, text := request(t, server, http.MethodGet, "/metrics")
	if status != http.StatusOK {
		t.Fatalf("the page is answered %d: %s", status, text)
	}
	return text
}

func request(t *testing.T, server *httptest.Server, method, path string) (status int, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

// exercise makes the calls that the server alone never makes: those that wait, that hold something, and whose store is down.
func exercise(t *testing.T, observer *otellimit.Observer) {
	t.Helper()
	waits := rules.Limit{Kind: rules.User, Rules: []rules.Rule{{Count: 1, Window: time.Millisecond}}, Wait: time.Minute}
	policy := &rules.Policy{
		Package: "example.com/shop", Type: "shop.Orders", Method: "Create",
		Limits: []rules.Limit{waits, {Kind: rules.Concurrency, Count: 1}},
	}
	working, _ := ratelimittest.New(ratelimit.WithObserver(observer))
	waiting, err := ratelimit.New(memstore.New(), ratelimit.WithObserver(observer))
	if err != nil {
		t.Fatal(err)
	}
	rate := *policy
	rate.Limits = policy.Limits[:1]
	for _, g := range []*ratelimit.Guard{
		waiting.Guard(&rate),
		working.Guard(policy),
		ratelimittest.Failing(store.Unavailable, ratelimit.WithObserver(observer)).Guard(policy),
		ratelimittest.Failing(store.Misconfigured, ratelimit.WithObserver(observer)).Guard(policy),
	} {
		for range 4 {
			ctx := ratelimit.WithUser(t.Context(), ids[0])
			if _, permit, err := g.Hold(ctx); err == nil {
				permit.Done(nil)
			}
			_, _, _ = g.Hold(context.Background())
		}
	}
	observer.Reloaded(t.Context(), nil)
	observer.Reloaded(t.Context(), errors.New("line 3"))
}

func TestPage(t *testing.T) {
	page := scrape(t)
	for _, want := range []string{
		`rate_limiting_requests_total{code_function_name="shop.Carts.Add",[^}]*rate_limiting_mode="enforce",rate_limiting_policy="Add",rate_limiting_result="acquired",rate_limiting_source="store"} 2`,
		`rate_limiting_requests_total{code_function_name="shop.Carts.Add",[^}]*rate_limiting_mode="enforce",rate_limiting_policy="Add",rate_limiting_result="rejected",rate_limiting_source="store"} 1`,
		`rate_limiting_check_duration_seconds_count{code_function_name="shop.Carts.Add",[^}]*rate_limiting_result="acquired"} 2`,
		`rate_limiting_store_errors_total{error_type="unavailable",[^}]*} [1-9]`,
		`rate_limiting_fallbacks_total{code_function_name="shop.Orders.Create",[^}]*rate_limiting_source="local"} [1-9]`,
		`rate_limiting_active_request_leases{code_function_name="shop.Orders.Create",[^}]*rate_limiting_policy="Create/concurrency"} 0`,
		`rate_limiting_request_time_in_queue_seconds_count{code_function_name="shop.Orders.Create",[^}]*} [1-9]`,
	} {
		if !regexp.MustCompile(`(?m)^` + want).MatchString(page) {
			t.Errorf("no line is %s in\n%s", want, page)
		}
	}
	for _, id := range ids {
		if strings.Contains(page, id) {
			t.Errorf("%q is on the page\n%s", id, page)
		}
	}
}

// A limit that an override has switched off is on no line of what nobody could decide.
func TestLimitsThatAreOff(t *testing.T) {
	observer, page, err := newMetrics()
	if err != nil {
		t.Fatal(err)
	}
	limiter := ratelimittest.Failing(store.Misconfigured, ratelimit.WithObserver(observer))
	rate := []rules.Rule{{Count: 1, Window: time.Minute}}
	guard := limiter.Guard(&rules.Policy{
		Package: "example.com/shop", Type: "shop.Orders", Method: "Create", Limits: []rules.Limit{{Kind: rules.User, Rules: rate}, {Kind: rules.Global, Rules: rate}},
	})
	if err := limiter.Override(t.Context(), []rules.Override{{Name: "Create/global", Text: "off"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := guard.Take(ratelimit.WithUser(t.Context(), ids[0])); !errors.Is(err, ratelimit.ErrMisconfigured) {
		t.Fatalf("Take = %v, want ErrMisconfigured", err)
	}
	answer := httptest.NewRecorder()
	page.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	text := answer.Body.String()
	if want := `rate_limiting_policy="Create/user",rate_limiting_result="error"} 1`; !strings.Contains(text, want) || strings.Contains(text, "Create/global") {
		t.Errorf("the page is\n%s\nwant %s, and nothing of the limit that is off", text, want)
	}
}

// Names in PromQL, once the strings are gone: those in braces and after by are labels.
var (
	texts  = regexp.MustCompile(`"[^"]*"`)
	labels = regexp.MustCompile(`\{[^}]*\}|\bby \([^)]*\)`)
	names  = regexp.MustCompile(`\b[a-z]+_[a-z_]+\b`)
)

func TestDashboardAsksForWhatIsOnThePage(t *testing.T) {
	page := scrape(t)
	exprs := dashboard(t)
	asked := map[string]bool{}
	for _, expr := range exprs {
		expr = strings.ReplaceAll(texts.ReplaceAllString(expr, ""), "$__rate_interval", "")
		for _, clause := range labels.FindAllString(expr, -1) {
			for _, label := range names.FindAllString(clause, -1) {
				if !strings.Contains(page, label+`="`) {
					t.Errorf("%s asks for the label %s, which is not on the page", expr, label)
				}
			}
		}
		for _, metric := range names.FindAllString(labels.ReplaceAllString(expr, ""), -1) {
			if metric == "histogram_quantile" {
				continue
			}
			asked[metric] = true
			if !strings.Contains(page, "\n"+metric+"{") {
				t.Errorf("%s asks for %s, which is not on the page", expr, metric)
			}
		}
	}
	for _, line := range regexp.MustCompile(`(?m)^# TYPE (rate_limiting_\w+) (\w+)$`).FindAllStringSubmatch(page, -1) {
		if name := line[1]; !asked[name] && !asked[name+"_bucket"] {
			t.Errorf("no panel shows %s, which is on the page", name)
		}
	}
}

// What shadows would deny is no denial: whoever asks for denials says whose.
func TestDashboardTellsShadowsApart(t *testing.T) {
	asked := map[string]bool{}
	for _, expr := range dashboard(t) {
		for _, clause := range regexp.MustCompile(`rate_limiting_requests_total\{[^}]*rejected[^}]*\}`).FindAllString(expr, -1) {
			mode := regexp.MustCompile(`rate_limiting_mode="(enforce|shadow)"`).FindStringSubmatch(clause)
			if mode == nil {
				t.Errorf("%s asks for denials of shadows and of others at once, want one rate_limiting_mode", expr)
				continue
			}
			asked[mode[1]] = true
		}
	}
	if !asked["enforce"] || !asked["shadow"] {
		t.Errorf("the dashboard asks for denials of the modes %v, want enforce and shadow", asked)
	}
}

// dashboard returns the expressions of the dashboard's panels.
func dashboard(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	var exprs []string
	for _, p := range d.Panels {
		if len(p.Targets) == 0 {
			t.Errorf("the panel %q shows nothing", p.Title)
		}
		for _, target := range p.Targets {
			exprs = append(exprs, target.Expr)
		}
	}
	if len(exprs) == 0 {
		t.Fatal("the dashboard has no expression")
	}
	return exprs
}
