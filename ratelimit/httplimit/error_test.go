package httplimit_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/httplimit"
	"github.com/rlgen/rlgen/ratelimit/memstore"
	"github.com/rlgen/rlgen/ratelimit/ratelimittest"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

func createPolicy(onFail rules.OnFail) *rules.Policy {
	return &rules.Policy{
		Package: "example.com/shop", Type: "shop.Orders", Method: "Create",
		Limits: []rules.Limit{{
			Kind: rules.User, Rules: []rules.Rule{{Count: 2, Window: time.Minute}}, OnFail: onFail,
		}},
	}
}

// taken is the error of a call of cost that limiter decides.
func taken(ctx context.Context, limiter *ratelimit.Limiter, onFail rules.OnFail, cost int64) error {
	var in ratelimit.Input
	in.Cost(cost)
	_, err := limiter.Guard(createPolicy(onFail)).Take(ctx, in)
	return err
}

const userID = "alice@example.com"

func alice() context.Context { return ratelimit.WithUser(context.Background(), userID) }

// secret is a store whose errors say what no answer may.
type secret struct {
	store.Store
	class store.Class
}

func (s secret) Take(context.Context, []store.Request, bool, *store.Outcome) error {
	return &store.Error{Class: s.class, Err: errors.New("dial redis.internal:6379: NOAUTH hunter2")}
}

func leaky(t *testing.T, class store.Class) *ratelimit.Limiter {
	t.Helper()
	l, err := ratelimit.New(secret{memstore.New(), class}, ratelimit.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func exceededProblem(retryAfter int64) httplimit.Problem {
	return httplimit.Problem{
		Type: httplimit.QuotaExceeded, Title: "Quota Exceeded", Status: 429, Detail: "The rate limit is exceeded.",
		Limit: "Create", ViolatedPolicies: []string{"Create"}, RetryAfter: retryAfter,
	}
}

func TestWriteError(t *testing.T) {
	allow := ratelimittest.AllowAll()
	const exceeded, tooMuch = "The rate limit is exceeded.", "The request asks for what the rate limit never allows, however long it waits."
	never := exceededProblem(0)
	never.Detail = tooMuch
	for _, tt := range []struct {
		name  string
		err   error
		retry string
		want  httplimit.Problem
	}{
		{
			"exceeded", taken(alice(), ratelimittest.DenyAll(90*time.Second), 0, 1), "90",
			exceededProblem(90),
		},
		{
			"exceeded for 1µs", taken(alice(), ratelimittest.DenyAll(time.Microsecond), 0, 1), "1",
			exceededProblem(1),
		},
		{
			"exceeded for 2s and 1ns", taken(alice(), ratelimittest.DenyAll(2*time.Second+1), 0, 1), "3",
			exceededProblem(3),
		},
		{
			"exceeded for ever", taken(alice(), ratelimittest.DenyAll(store.Never), 0, 1), "",
			never,
		},
		{
			"exceeded, without a number", ratelimit.ErrExceeded, "",
			httplimit.Problem{Title: "Too Many Requests", Status: 429, Detail: exceeded},
		},
		{
			"cost", taken(alice(), allow, 0, 3), "",
			costProblem("The request has cost 3. The rate limit allows 0 to 2."),
		},
		{
			"cost below 0", taken(alice(), allow, 0, -1), "",
			costProblem("The request has cost -1. The rate limit allows 0 to 2."),
		},
		{
			"cost, without a limit", ratelimit.ErrCost, "",
			httplimit.Problem{
				Title: "Unprocessable Entity", Status: 422,
				Detail: "The rate limit never allows the cost of the request.",
			},
		},
		{
			"banned", banned(t, 90*time.Minute), "5400",
			httplimit.Problem{
				Type: httplimit.AbnormalUsageDetected, Title: "Abnormal Usage Detected", Status: 429,
				Detail: "The rate limit was exceeded too often, and denies everything until the time in Retry-After is over.",
				Limit:  "Create", ViolatedPolicies: []string{"Create"}, RetryAfter: 5400, Banned: true,
			},
		},
		{
			"no identity", taken(context.Background(), allow, 0, 1), "",
			httplimit.Problem{Title: "Unauthorized", Status: 401, Detail: "The request does not say who is calling."},
		},
		{
			"unknown plan", takenOnPlan(t, "gold"), "",
			httplimit.Problem{Title: "Forbidden", Status: 403, Detail: "The caller's plan is unknown."},
		},
		{
			"unavailable", taken(alice(), leaky(t, store.Unavailable), rules.FailClosed, 1), "",
			httplimit.Problem{Title: "Service Unavailable", Status: 503, Detail: "Rate limits cannot be checked at the moment."},
		},
		{
			"misconfigured", taken(alice(), leaky(t, store.Misconfigured), rules.FailOpen, 1), "",
			httplimit.Problem{Title: "Internal Server Error", Status: 500, Detail: "Rate limiting does not work."},
		},
	} {
		for _, wrapped := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/wrapped=%t", tt.name, wrapped), func(t *testing.T) {
				err := tt.err
				if err == nil {
					t.Fatal("the call passed, want an error")
				}
				if wrapped {
					err = errors.Join(errors.New("first"), fmt.Errorf("create: %w", err))
				}
				res := serve(t, func(w http.ResponseWriter, r *http.Request) {
					// What a handler may have set for the answer that it now does not give.
					w.Header().Set("Content-Length", "3")
					w.Header().Set("Content-Encoding", "gzip")
					w.Header().Set("ETag", `"1"`)
					w.Header().Set("Cache-Control", "max-age=60")
					w.Header().Set("Retry-After", "7")
					w.Header().Set("X-Request-Id", "42")
					if !httplimit.WriteError(w, r, err) {
						t.Error("WriteError = false, want true")
					}
				})
				want := http.Header{
					"Content-Type":           {"application/problem+json"},
					"X-Content-Type-Options": {"nosniff"},
					"X-Request-Id":           {"42"},
				}
				if tt.retry != "" {
					want.Set("Retry-After", tt.retry)
				}
				res.header.Del("Date")
				res.header.Del("Content-Length")
				if diff := cmp.Diff(want, res.header); diff != "" {
					t.Errorf("header (-want +got):\n%s", diff)
				}
				if res.status != tt.want.Status {
					t.Errorf("status = %d, want %d", res.status, tt.want.Status)
				}
				var got httplimit.Problem
				dec := json.NewDecoder(strings.NewReader(res.body))
				dec.DisallowUnknownFields()
				if err := dec.Decode(&got); err != nil {
					t.Fatalf("body %q: %v", res.body, err)
				}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("body (-want +got):\n%s", diff)
				}
				for _, word := range []string{"alice", "redis", "hunter2", "NOAUTH", "rl:"} {
					if strings.Contains(strings.ToLower(res.body), strings.ToLower(word)) {
						t.Errorf("body %s holds %q", res.body, word)
					}
				}
			})
		}
	}
}

func costProblem(detail string) httplimit.Problem {
	return httplimit.Problem{Title: "Unprocessable Entity", Status: 422, Detail: detail, Limit: "Create"}
}

// takenOnPlan returns the error of a caller on plan where the only limit is for plan free.
func takenOnPlan(t *testing.T, plan string) error {
	t.Helper()
	limiter, _ := ratelimittest.New()
	p := createPolicy(0)
	p.Limits[0].Plan = "free"
	_, err := limiter.Guard(p).Take(ratelimit.WithPlan(alice(), plan))
	return err
}

// banned is the error of the call by which an id comes to be banned.
func banned(t *testing.T, ban time.Duration) error {
	t.Helper()
	limiter, _ := ratelimittest.New()
	p := createPolicy(0)
	p.Limits[0].Ban, p.Limits[0].After = ban, 1
	guard := limiter.Guard(p)
	for range 2 {
		if _, err := guard.Take(alice()); err != nil {
			t.Fatal(err)
		}
	}
	_, err := guard.Take(alice())
	return err
}

func TestWriteErrorLeavesOtherErrors(t *testing.T) {
	done, cancel := context.WithCancelCause(alice())
	cancel(errors.New("gone"))
	late, cancelLate := context.WithDeadline(alice(), time.Unix(0, 0))
	defer cancelLate()
	for name, err := range map[string]error{
		"nil":                nil,
		"the service's":      errors.New("no such order"),
		"io.EOF":             io.EOF,
		"canceled":           context.Canceled,
		"canceled by Take":   taken(done, ratelimittest.DenyAll(time.Second), rules.FailClosed, 1),
		"deadline by Take":   taken(late, ratelimittest.DenyAll(time.Second), rules.FailClosed, 1),
		"a store's, by hand": &store.Error{Class: store.Unavailable, Err: io.EOF},
	} {
		t.Run(name, func(t *testing.T) {
			res := serve(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("ETag", `"1"`)
				if httplimit.WriteError(w, r, err) {
					t.Errorf("WriteError(%v) = true, want false", err)
				}
				w.WriteHeader(http.StatusTeapot)
			})
			if res.status != http.StatusTeapot || res.header.Get("ETag") == "" || res.body != "" {
				t.Errorf("answer = %+v, want what the handler wrote", res)
			}
		})
	}
}

func TestWriteErrorAnswersHEADWithoutBody(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		httplimit.WriteError(w, r, ratelimit.ErrUnavailable)
	}))
	defer srv.Close()
	defer srv.Client().CloseIdleConnections()
	res, err := srv.Client().Head(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(res.Body)
	res.Body.Close()
	if res.StatusCode != http.StatusServiceUnavailable || len(body) != 0 || err != nil {
		t.Errorf("HEAD = %d %q, %v, want 503 without a body", res.StatusCode, body, err)
	}
}

type answer struct {
	status int
	header http.Header
	body   string
}

// serve returns what a real server makes of h.
func serve(t *testing.T, h http.HandlerFunc) answer {
	t.Helper()
	srv := httptest.NewServer(h)
	defer srv.Close()
	defer srv.Client().CloseIdleConnections()
	res, err := srv.Client().Get(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{res.StatusCode, res.Header, string(body)}
}
