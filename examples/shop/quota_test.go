package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/dunglas/httpsfv"
	"github.com/redis/go-redis/v9"
	"go.uber.org/fx"

	"github.com/rlgen/rlgen/ratelimit/redisstore"
	"github.com/rlgen/rlgen/ratelimit/store"
)

// list is a List of Structured Fields of an answer: by the name of a rule, its parameters.
func list(t *testing.T, resp *http.Response, field string) map[string]map[string]int64 {
	t.Helper()
	members, err := httpsfv.UnmarshalList(resp.Header.Values(field))
	if err != nil {
		t.Fatalf("%s: %q: %v", field, resp.Header.Values(field), err)
	}
	found := map[string]map[string]int64{}
	for _, m := range members {
		item := m.(httpsfv.Item)
		of := map[string]int64{}
		for _, name := range item.Params.Names() {
			value, _ := item.Params.Get(name)
			of[name] = value.(int64)
		}
		found[item.Value.(string)] = of
	}
	return found
}

// Every answer says what is left, as Structured Fields, and a denial says for how long: the fourth order is denied a second before what
// Retry-After says, and passes then.
func TestQuotas(t *testing.T) {
	clock, counted := clocked()
	shop := start(t, config{}, counted)
	for i := range 3 {
		resp := shop.post("alice")
		left := list(t, resp, "RateLimit")
		if resp.StatusCode != http.StatusCreated || len(left) != 4 || left["Create/user 10s"]["r"] != int64(2-i) || left["Create/ip"]["r"] != int64(999-i) {
			t.Errorf("order %d: status %d, RateLimit %v, want it placed with %d and %d left", i+1, resp.StatusCode, left, 2-i, 999-i)
		}
		clock.Advance(1500 * time.Millisecond)
	}
	policy := list(t, shop.post("bob"), "RateLimit-Policy")
	want := map[string]map[string]int64{
		"Create/user 10s": {"q": 3, "w": 10}, "Create/user 1h": {"q": 100, "w": 3600},
		"Create/ip": {"q": 1000, "w": 3600}, "Create/global": {"q": 500, "w": 1},
	}
	if got := fmt.Sprint(policy); got != fmt.Sprint(want) {
		t.Errorf("RateLimit-Policy has %v, want %v", got, want)
	}

	denied := shop.post("alice")
	wait, err := strconv.Atoi(denied.Header.Get("Retry-After"))
	if denied.StatusCode != http.StatusTooManyRequests || err != nil || wait != 6 {
		t.Fatalf("order 4: status %d, Retry-After %q, want 429 and 6: the first order was 4.5s ago", denied.StatusCode, denied.Header.Get("Retry-After"))
	}
	if left := list(t, denied, "RateLimit"); left["Create/user 10s"]["t"] != int64(wait) || left["Create/user 10s"]["r"] != 0 {
		t.Errorf("denied: RateLimit %v, want Create/user 10s with r=0 and t=%d", left, wait)
	}
	clock.Advance(time.Duration(wait-1) * time.Second)
	if status, again := shop.order("alice"); status != http.StatusTooManyRequests || again != "1" {
		t.Errorf("a second before Retry-After: status %d, Retry-After %q, want 429 and 1", status, again)
	}
	clock.Advance(time.Second)
	if status, _ := shop.order("alice"); status != http.StatusCreated {
		t.Errorf("after Retry-After: status %d, want 201", status)
	}
}

// frozen counts in a Redis whose clock the test sets, which here has all the time to answer.
func frozen(t *testing.T) (*miniredis.Miniredis, fx.Option) {
	server := miniredis.RunT(t)
	return server, fx.Provide(func(lc fx.Lifecycle) (store.Store, error) {
		client := redis.NewClient(&redis.Options{Addr: server.Addr(), DialTimeout: time.Minute, ReadTimeout: time.Minute, WriteTimeout: time.Minute})
		lc.Append(fx.StopHook(client.Close))
		return redisstore.New(client, redisstore.WithBudget(time.Minute))
	})
}

// Whoever waits for as long as Retry-After says is let in by a Redis, too, and by a limiter that remembers what it has denied.
func TestRetryAfterIsTrue(t *testing.T) {
	t.Parallel() // it waits, mostly
	server, counted := frozen(t)
	now := time.Now()
	server.SetTime(now)
	shop := start(t, config{overrides: limits(t, "Create/user: 2,1s")}, counted)
	for round := range 2 {
		if err := shop.ordered("alice", 2); err != nil {
			t.Error(err)
		}
		status, retryAfter := shop.order("alice")
		if status != http.StatusTooManyRequests || retryAfter != "1" {
			t.Fatalf("order 4: status %d, Retry-After %q, want 429 and 1", status, retryAfter)
		}
		<-time.After(time.Second)
		server.SetTime(now.Add(time.Duration(round+1) * time.Second))
	}
	if status, _ := shop.order("alice"); status != http.StatusCreated {
		t.Errorf("after Retry-After: status %d, want 201", status)
	}
}

// The body of a denial says what denied, and of nobody.
func TestProblem(t *testing.T) {
	_, counted := clocked()
	shop := start(t, config{}, counted)
	for range 3 {
		shop.post("alice")
	}
	resp, body := shop.ask("POST", "/orders", `{"item":"tea"}`, by("alice"))
	var problem struct {
		Type, Title, Limit string
		Status             int
		Violated           []string `json:"violated-policies"`
		RetryAfter         int      `json:"retry_after"`
	}
	if err := json.Unmarshal([]byte(body), &problem); err != nil {
		t.Fatal(err)
	}
	if got := resp.Header.Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("Content-Type is %q, want application/problem+json", got)
	}
	if problem.Status != 429 || problem.Limit != "Create/user" || fmt.Sprint(problem.Violated) != "[Create/user 10s]" || problem.RetryAfter != 10 {
		t.Errorf("the body is %s, want status 429 of Create/user 10s with retry_after 10", body)
	}
	if strings.Contains(body, "alice") || strings.Contains(body, "127.0.0.1") {
		t.Errorf("the body names the caller: %s", body)
	}
}

// Who is not known is told so, and not of quotas.
func TestNobodyHasNoQuota(t *testing.T) {
	_, counted := clocked()
	resp := start(t, config{}, counted).post("")
	if resp.StatusCode != http.StatusUnauthorized || resp.Header.Get("RateLimit") != "" || resp.Header.Get("RateLimit-Policy") != "" {
		t.Errorf("an order of nobody: status %d with RateLimit %q, want 401 without", resp.StatusCode, resp.Header.Get("RateLimit"))
	}
}
