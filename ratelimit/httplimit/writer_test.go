package httplimit_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/httplimit"
	"github.com/rlgen/rlgen/ratelimit/ratelimittest"
)

// limited is h behind Headers, called with a method that takes one of three permits per minute.
func limited(t *testing.T, h func(w http.ResponseWriter, r *http.Request, take func())) http.Handler {
	limiter, _ := ratelimittest.New()
	guard := limiter.Guard(policy("shop.Orders", "Create", user(per(3, time.Minute))))
	return httplimit.Headers()(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h(w, r, func() {
			if _, err := guard.Take(ratelimit.WithUser(context.WithoutCancel(r.Context()), userID)); err != nil {
				t.Error(err)
			}
		})
	}))
}

const ours = `"Create";r=2;t=60`

// However an answer begins, over whatever protocol, its header says what the calls before said.
func TestHeadersAreWrittenWithTheFirstByte(t *testing.T) {
	for _, test := range []struct {
		name  string
		write func(w http.ResponseWriter)
		body  string
	}{
		{"WriteHeader", func(w http.ResponseWriter) { w.WriteHeader(http.StatusOK) }, ""},
		{"Write", func(w http.ResponseWriter) { w.Write([]byte("ok")) }, "ok"},
		{"WriteString", func(w http.ResponseWriter) { io.WriteString(w, "ok") }, "ok"},
		{"ReadFrom", func(w http.ResponseWriter) { io.Copy(w, io.LimitReader(strings.NewReader("okay"), 2)) }, "ok"},
		{"Flush", func(w http.ResponseWriter) { w.(http.Flusher).Flush(); io.WriteString(w, "ok") }, "ok"},
		{"a controller's Flush", func(w http.ResponseWriter) {
			if err := http.NewResponseController(w).Flush(); errors.Is(err, http.ErrNotSupported) {
				t.Error(err)
			}
			io.WriteString(w, "ok")
		}, "ok"},
		{"a controller's deadline", func(w http.ResponseWriter) {
			if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(time.Hour)); err != nil {
				t.Error(err)
			}
			io.WriteString(w, "ok")
		}, "ok"},
		{"twice", func(w http.ResponseWriter) { io.WriteString(w, "o"); io.WriteString(w, "k") }, "ok"},
	} {
		for _, http2 := range []bool{false, true} {
			for _, method := range []string{http.MethodGet, http.MethodHead} {
				t.Run(fmt.Sprintf("%s/http2=%t/%s", test.name, http2, method), func(t *testing.T) {
					srv := httptest.NewUnstartedServer(limited(t, func(w http.ResponseWriter, _ *http.Request, take func()) {
						take()
						test.write(w)
						take() // too late to be told of
					}))
					srv.EnableHTTP2 = http2
					srv.StartTLS()
					defer srv.Close()
					defer srv.Client().CloseIdleConnections()
					req, err := http.NewRequest(method, srv.URL, nil)
					if err != nil {
						t.Fatal(err)
					}
					res, err := srv.Client().Do(req)
					if err != nil {
						t.Fatal(err)
					}
					body, err := io.ReadAll(res.Body)
					res.Body.Close()
					if err != nil {
						t.Fatal(err)
					}
					want := test.body
					if method == http.MethodHead {
						want = ""
					}
					if string(body) != want || (res.ProtoMajor == 2) != http2 {
						t.Errorf("%s %q, want %q over HTTP/2: %t", res.Proto, body, want, http2)
					}
					if diff := cmp.Diff([]string{ours}, res.Header.Values("RateLimit")); diff != "" {
						t.Errorf("RateLimit (-want +got):\n%s", diff)
					}
				})
			}
		}
	}
}

// An answer that a handler leaves to the server begins when the handler ends.
func TestHeadersWhereNothingIsWritten(t *testing.T) {
	srv := httptest.NewServer(limited(t, func(_ http.ResponseWriter, _ *http.Request, take func()) {
		take()
		take()
	}))
	defer srv.Close()
	defer srv.Client().CloseIdleConnections()
	res, err := srv.Client().Get(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if got, want := res.Header.Get("RateLimit"), `"Create";r=1;t=60`; res.StatusCode != 200 || got != want {
		t.Errorf("%d with RateLimit %s, want 200 with %s", res.StatusCode, got, want)
	}
}

// An answer of status 103 is not the answer yet.
func TestHeadersAfterEarlyHints(t *testing.T) {
	srv := httptest.NewServer(limited(t, func(w http.ResponseWriter, _ *http.Request, take func()) {
		w.Header().Set("Link", "</style.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		take()
		w.WriteHeader(http.StatusCreated)
	}))
	defer srv.Close()
	defer srv.Client().CloseIdleConnections()
	hints := 0
	ctx := httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{
		Got1xxResponse: func(code int, header textproto.MIMEHeader) error {
			hints++
			if header.Get("RateLimit") != "" || header.Get("Link") == "" {
				t.Errorf("%d with %v, want the link alone", code, header)
			}
			return nil
		},
	})
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, srv.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := srv.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusCreated || hints != 1 || res.Header.Get("RateLimit") != ours {
		t.Errorf("%d after %d hints, RateLimit %s, want 201 after one, and %s", res.StatusCode, hints, res.Header.Get("RateLimit"), ours)
	}
}

// A handler may take the connection over, as servers of websockets do.
func TestHijack(t *testing.T) {
	for name, hijack := range map[string]func(w http.ResponseWriter) (net.Conn, *bufio.ReadWriter, error){
		"Hijacker": func(w http.ResponseWriter) (net.Conn, *bufio.ReadWriter, error) { return w.(http.Hijacker).Hijack() },
		"controller": func(w http.ResponseWriter) (net.Conn, *bufio.ReadWriter, error) {
			return http.NewResponseController(w).Hijack()
		},
	} {
		t.Run(name, func(t *testing.T) {
			srv := httptest.NewServer(limited(t, func(w http.ResponseWriter, _ *http.Request, take func()) {
				take()
				conn, buffered, err := hijack(w)
				if err != nil {
					t.Error(err)
					return
				}
				defer conn.Close()
				fmt.Fprint(buffered, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\ntaken")
				buffered.Flush()
			}))
			defer srv.Close()
			defer srv.Client().CloseIdleConnections()
			res, err := srv.Client().Get(srv.URL)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(res.Body)
			res.Body.Close()
			if string(body) != "taken" || err != nil || res.Header.Get("RateLimit") != "" {
				t.Errorf("%q with %v, %v, want what the handler wrote to the connection", body, res.Header, err)
			}
		})
	}
}

type (
	plain    struct{ http.ResponseWriter }
	flusher  struct{ http.ResponseWriter }
	hijacker struct{ flusher }
	server1  struct{ hijacker }
	server2  struct{ flusher }
)

func (flusher) Flush()                                           {}
func (hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error)    { return nil, nil, nil }
func (server1) CloseNotify() <-chan bool                         { return nil }
func (server2) CloseNotify() <-chan bool                         { return nil }
func (server2) Push(target string, opts *http.PushOptions) error { return nil }

// A handler finds those optional interfaces that the server has, and no others.
func TestOptionalInterfaces(t *testing.T) {
	type found struct{ Flusher, Hijacker, Pusher, CloseNotifier bool }
	for name, under := range map[string]http.ResponseWriter{
		"none":                     plain{httptest.NewRecorder()},
		"flushing":                 flusher{httptest.NewRecorder()},
		"a middleware over HTTP/1": hijacker{flusher{httptest.NewRecorder()}},
		"HTTP/1":                   server1{hijacker{flusher{httptest.NewRecorder()}}},
		"HTTP/2":                   server2{flusher{httptest.NewRecorder()}},
	} {
		t.Run(name, func(t *testing.T) {
			look := func(w http.ResponseWriter) (f found) {
				_, f.Flusher = w.(http.Flusher)
				_, f.Hijacker = w.(http.Hijacker)
				_, f.Pusher = w.(http.Pusher)
				_, f.CloseNotifier = w.(interface{ CloseNotify() <-chan bool })
				return f
			}
			var got found
			limited(t, func(w http.ResponseWriter, _ *http.Request, _ func()) {
				got = look(w)
				if u, ok := w.(interface{ Unwrap() http.ResponseWriter }); !ok || u.Unwrap() != under {
					t.Error("Unwrap does not return the answer underneath")
				}
			}).ServeHTTP(under, httptest.NewRequest(http.MethodGet, "/", nil))
			if diff := cmp.Diff(look(under), got); diff != "" {
				t.Errorf("interfaces (-want +got):\n%s", diff)
			}
		})
	}
}

// A handler that panics has given no answer; whoever recovers gives one of its own.
func TestPanicIsNotAnswered(t *testing.T) {
	w := httptest.NewRecorder()
	func() {
		defer func() {
			if recover() != http.ErrAbortHandler {
				t.Error("the panic is lost")
			}
		}()
		limited(t, func(_ http.ResponseWriter, _ *http.Request, take func()) {
			take()
			panic(http.ErrAbortHandler)
		}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	}()
	if got := w.Header().Get("RateLimit"); got != "" {
		t.Errorf("RateLimit = %s, want none", got)
	}
}
