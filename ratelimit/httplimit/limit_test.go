package httplimit_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/httplimit"
	"github.com/rlgen/rlgen/ratelimit/lock"
	"github.com/rlgen/rlgen/ratelimit/memstore"
	"github.com/rlgen/rlgen/ratelimit/ratelimittest"
	"github.com/rlgen/rlgen/rules"
)

// guardOf guards a route.
func guardOf(limits ...rules.Limit) *ratelimit.Guard {
	limiter, _ := ratelimittest.New()
	return limiter.Guard(policy("shop.Routes", "Checkout", limits...))
}

// ask is the answer of h to a request of ctx's.
func ask(ctx context.Context, h http.Handler) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "POST", "/orders/42", nil))
	return w
}

// What a request holds it holds until its handler ends, however that ends.
func TestLimitHoldsWhileTheHandlerRuns(t *testing.T) {
	for _, limit := range []rules.Limit{
		{Kind: rules.Lock},
		{Kind: rules.Concurrency, Count: 1, Per: rules.PerUser},
	} {
		for name, end := range map[string]func(w http.ResponseWriter, leave func()){
			"returns":          func(http.ResponseWriter, func()) {},
			"fails":            func(w http.ResponseWriter, _ func()) { w.WriteHeader(http.StatusInternalServerError) },
			"panics":           func(http.ResponseWriter, func()) { panic(http.ErrAbortHandler) },
			"client goes away": func(_ http.ResponseWriter, leave func()) { leave() },
		} {
			t.Run(limit.Kind.String()+" "+name, func(t *testing.T) {
				ctx, leave := context.WithCancel(alice())
				defer leave()
				within := 0
				var h http.Handler
				h = httplimit.Limit(guardOf(limit))(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if within++; within > 1 {
						return
					}
					got := ask(alice(), h)
					if got.Code != http.StatusTooManyRequests || got.Header().Get("Retry-After") != "1" || within > 1 {
						t.Errorf("another request meanwhile: %d %v, want 429 and to come again after 1 second", got.Code, got.Header())
					}
					end(w, leave)
					if ctx.Err() != nil && r.Context().Err() == nil {
						t.Error("the context of the request is not done, and its client is gone")
					}
				}))
				func() {
					defer func() {
						if v := recover(); v != nil && v != http.ErrAbortHandler {
							panic(v)
						}
					}()
					ask(ctx, h)
				}()
				if got := ask(alice(), h); got.Code != http.StatusOK || within != 2 {
					t.Errorf("the next request: %d, want 200", got.Code)
				}
			})
		}
	}
}

// forgetful is a lock store that no longer has what it is to renew.
type forgetful struct{ *lock.Memory }

func (forgetful) Renew(context.Context, lock.Claim) (lock.Answer, error) { return lock.Answer{}, nil }

func TestLostLockEndsTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter, err := ratelimit.New(memstore.New(), ratelimit.WithLocks(forgetful{lock.NewMemory()}))
		if err != nil {
			t.Fatal(err)
		}
		guard := limiter.Guard(policy("shop.Routes", "Checkout", rules.Limit{Kind: rules.Lock}))
		ask(alice(), httplimit.Limit(guard)(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			if cause := context.Cause(r.Context()); !errors.Is(cause, lock.ErrLost) {
				t.Errorf("the request's context ended by %v, want %v", cause, lock.ErrLost)
			}
		})))
	})
}

func TestRequestThatEndsWhileItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter, err := ratelimit.New(memstore.New(), ratelimit.WithLocks(lock.NewMemory()))
		if err != nil {
			t.Fatal(err)
		}
		guard := limiter.Guard(policy("shop.Routes", "Checkout", rules.Limit{Kind: rules.Lock, Wait: time.Minute}))
		_, permit, err := guard.Hold(alice())
		if err != nil {
			t.Fatal(err)
		}
		defer permit.Done(nil)
		ctx, cancel := context.WithTimeout(alice(), time.Second)
		defer cancel()
		got := ask(ctx, httplimit.Limit(guard)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			t.Error("the request is served")
		})))
		if got.Code != http.StatusServiceUnavailable || got.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("%d %v, want 503 and a problem", got.Code, got.Header())
		}
	})
}

// A rate that is charged by outcome takes an answer of 400 and more, and a panic, for an error.
func TestLimitChargesByOutcome(t *testing.T) {
	for name, test := range map[string]struct {
		write   func(w http.ResponseWriter)
		isError bool
	}{
		"nothing written": {func(http.ResponseWriter) {}, false},
		"200":             {func(w http.ResponseWriter) { io.WriteString(w, "ok") }, false},
		"303":             {func(w http.ResponseWriter) { w.WriteHeader(http.StatusSeeOther) }, false},
		"103 and 200":     {func(w http.ResponseWriter) { w.WriteHeader(http.StatusEarlyHints); io.WriteString(w, "ok") }, false},
		"401":             {func(w http.ResponseWriter) { w.WriteHeader(http.StatusUnauthorized) }, true},
		"503":             {func(w http.ResponseWriter) { w.WriteHeader(http.StatusServiceUnavailable) }, true},
		"panic":           {func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, true},
	} {
		for _, charge := range []rules.Charge{rules.ChargeAlways, rules.ChargeSuccess, rules.ChargeError} {
			t.Run(fmt.Sprint(name, " charge=", charge), func(t *testing.T) {
				limit := user(per(1, time.Hour))
				limit.Charge = charge
				guard := guardOf(limit)
				func() {
					defer func() { _ = recover() }()
					ask(alice(), httplimit.Limit(guard)(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { test.write(w) })))
				}()
				want := http.StatusOK
				if charge == rules.ChargeAlways || (charge == rules.ChargeError) == test.isError {
					want = http.StatusTooManyRequests
				}
				if got := ask(alice(), httplimit.Limit(guard)(http.NotFoundHandler())).Code; got != want && !(want == http.StatusOK && got == http.StatusNotFound) {
					t.Errorf("the next request: %d, want %d", got, want)
				}
			})
		}
	}
}

// TestLimitChargesClientsWhoLeave tests that a request whose client goes away is charged, whatever
// the handler answers.
func TestLimitChargesClientsWhoLeave(t *testing.T) {
	for _, charge := range []rules.Charge{rules.ChargeAlways, rules.ChargeSuccess, rules.ChargeError} {
		for _, status := range []int{http.StatusOK, http.StatusServiceUnavailable} {
			limit := user(per(3, time.Hour))
			limit.Charge = charge
			guard, handled := guardOf(limit), 0
			for range 30 {
				ctx, cancel := context.WithCancel(alice())
				ask(ctx, httplimit.Limit(guard)(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					handled++
					cancel()
					w.WriteHeader(status)
				})))
			}
			if handled != 3 {
				t.Errorf("charge=%v, %d: %d of 30 requests were handled, want 3", charge, status, handled)
			}
		}
	}
}

func TestWithInputs(t *testing.T) {
	guard := guardOf(rules.Limit{Kind: rules.Lock, By: "id"})
	id := httplimit.WithInputs(func(r *http.Request) []ratelimit.Input {
		in := make([]ratelimit.Input, 1)
		in[0].By(r.Header.Get("Order"))
		return in
	})
	post := func(order string, h http.HandlerFunc) int {
		w, r := httptest.NewRecorder(), httptest.NewRequest("POST", "/", nil)
		r.Header.Set("Order", order)
		httplimit.Limit(guard, id)(h).ServeHTTP(w, r)
		return w.Code
	}
	ok := func(http.ResponseWriter, *http.Request) {}
	post("42", func(http.ResponseWriter, *http.Request) {
		for order, want := range map[string]int{"42": 429, "43": 200, "": 401} {
			if got := post(order, ok); got != want {
				t.Errorf("order %q while 42 is held: %d, want %d", order, got, want)
			}
		}
	})
	if got := ask(alice(), httplimit.Limit(guard)(http.HandlerFunc(ok))).Code; got != http.StatusInternalServerError {
		t.Errorf("without inputs: %d, want 500", got)
	}
}

// route serves a handler behind a lock, for as long as a test runs.
type route struct {
	*httptest.Server
	t     *testing.T
	ended chan struct{} // receives when a request that is not for / has let go
}

func behindALock(t *testing.T, h http.Handler) route {
	ended := make(chan struct{}, 1)
	limited := httplimit.Limit(guardOf(rules.Limit{Kind: rules.Lock}))(h)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		limited.ServeHTTP(w, r)
		if r.URL.Path != "/" {
			ended <- struct{}{}
		}
	}))
	t.Cleanup(srv.Close)
	t.Cleanup(srv.Client().CloseIdleConnections)
	return route{srv, t, ended}
}

// wantStatus asks for /.
func (s route) wantStatus(want int) {
	s.t.Helper()
	res, err := s.Client().Get(s.URL)
	if err != nil {
		s.t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != want {
		s.t.Errorf("another request: %d, want %d", res.StatusCode, want)
	}
}

// Handlers flush and take over connections as they do without the middleware, and hold meanwhile.
func TestLimitedHandlersFlushAndHijack(t *testing.T) {
	goOn := make(chan struct{})
	mux := http.NewServeMux()
	mux.HandleFunc("/flush", func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "first\n")
		w.(http.Flusher).Flush()
		<-goOn
	})
	mux.HandleFunc("/hijack", func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		io.WriteString(conn, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nfirst\n")
		<-goOn
	})
	mux.HandleFunc("/", func(http.ResponseWriter, *http.Request) {})
	for _, path := range []string{"/flush", "/hijack"} {
		t.Run(path, func(t *testing.T) {
			srv := behindALock(t, mux)
			res, err := srv.Client().Get(srv.URL + path)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			if line, err := bufio.NewReader(res.Body).ReadString('\n'); line != "first\n" {
				t.Errorf("%q, %v, want the first line before the handler ends", line, err)
			}
			srv.wantStatus(http.StatusTooManyRequests)
			goOn <- struct{}{}
			<-srv.ended
			srv.wantStatus(http.StatusOK)
		})
	}
}

// TestClientGoesAway holds that a request whose client has gone holds nothing any more, though its handler has waited for what never comes.
func TestClientGoesAway(t *testing.T) {
	served := make(chan struct{}, 1)
	srv := behindALock(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			served <- struct{}{}
			<-r.Context().Done()
		}
	}))
	ctx, leave := context.WithCancel(t.Context())
	go func() { <-served; leave() }()
	req, err := http.NewRequestWithContext(ctx, "GET", srv.URL+"/slow", nil)
	if err != nil {
		t.Fatal(err)
	}
	if res, err := srv.Client().Do(req); err == nil {
		res.Body.Close()
		t.Error("the request is answered though its client is gone")
	}
	<-srv.ended
	srv.wantStatus(http.StatusOK)
}

func TestLimitWithoutAGuard(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("Limit(nil) is accepted")
		}
	}()
	httplimit.Limit(nil)
}
