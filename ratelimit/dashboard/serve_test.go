package dashboard_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rlgen/rlgen/ratelimit/dashboard"
)

func get(h http.Handler, path string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, "http://shop.example"+path, nil)
	for n := 0; n < len(headers); n += 2 {
		r.Header.Set(headers[n], headers[n+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// The page and its files are served under any prefix, whether that is stripped or not.
func TestPrefixes(t *testing.T) {
	i := newLocal(t)
	for name, h := range map[string]http.Handler{
		"/":                       i.board,
		"/debug/ratelimit/":       i.board,
		"/a/b%20c/d/":             i.board,
		"/stripped/of/its/prefix": http.StripPrefix("/stripped/of/its/prefix", i.board),
	} {
		prefix := strings.TrimSuffix(name, "/") + "/"
		for file, want := range map[string]string{"": "<!doctype html>", "page.css": ":root", "page.js": "// The page"} {
			if got := get(h, prefix+file); got.Code != 200 || !strings.HasPrefix(got.Body.String(), want) {
				t.Errorf("GET %s%s = %d %.40q, want 200 and %q…", prefix, file, got.Code, got.Body, want)
			}
		}
		if got := get(h, prefix+"page.png"); got.Code != 404 {
			t.Errorf("GET %spage.png = %d, want 404", prefix, got.Code)
		}
	}
}

// A path without the slash at its end leads to the one with it, on this host, whatever the path is.
func TestPathWithoutSlash(t *testing.T) {
	i := newLocal(t)
	for path, want := range map[string]string{
		"/debug/ratelimit":        "./ratelimit/",
		"/debug/https:3232235777": "./https:3232235777/",
		"/debug/%5c%5cevil":       "./%5C%5Cevil/",
		"/debug//evil":            "./evil/",
		"/debug/%0d%0aX:y":        "./%0D%0AX:y/",
	} {
		if got := get(i.board, path); got.Code != 307 || got.Header().Get("Location") != want {
			t.Errorf("GET %s = %d to %q, want 307 to %q", path, got.Code, got.Header().Get("Location"), want)
		}
	}
}

// Every answer tells browsers to load nothing but the page's own files, and the page needs nothing else.
func TestPolicy(t *testing.T) {
	i := newLocal(t)
	for _, path := range []string{"/", "/page.js", "/page.css", "/page.png", "/lookup"} {
		h := get(i.board, path).Header()
		policy := h.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'", "require-trusted-types-for 'script'"} {
			if !strings.Contains(policy, want) {
				t.Errorf("GET %s has the policy %q, want %s in it", path, policy, want)
			}
		}
		if strings.Contains(policy, "unsafe") || strings.Contains(policy, "*") {
			t.Errorf("GET %s has the policy %q, want nothing unsafe", path, policy)
		}
		for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY", "Cross-Origin-Resource-Policy": "same-origin", "Cache-Control": "no-store"} {
			if got := h.Get(name); got != want {
				t.Errorf("GET %s has %s: %q, want %q", path, name, got, want)
			}
		}
	}
	for _, file := range []string{"index.html", "page.css", "page.js"} {
		text, err := os.ReadFile("page/" + file)
		if err != nil {
			t.Fatal(err)
		}
		refused := regexp.MustCompile(`(?i)https?://|<script>|<style|\sstyle=|\son\w+="|javascript:|innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|@import|url\(`)
		for _, found := range refused.FindAllString(strings.ReplaceAll(string(text), "http://www.w3.org/2000/svg", ""), -1) {
			t.Errorf("page/%s has %q, want nothing of outside, inline, or that is markup", file, found)
		}
	}
}

// What is not meant for a part is refused, and HEAD opens no stream.
func TestMethods(t *testing.T) {
	i := newLocal(t)
	for _, test := range []struct {
		method, path string
		code         int
		allow        string
	}{
		{"POST", "/", 405, "GET"}, {"PUT", "/change", 405, "POST"}, {"GET", "/change", 405, "POST"}, {"GET", "/lookup", 405, "POST"},
		{"POST", "/events", 405, "GET"}, {"HEAD", "/", 200, ""}, {"HEAD", "/events", 200, ""}, {"DELETE", "/nothing", 404, ""},
	} {
		w := httptest.NewRecorder()
		i.board.ServeHTTP(w, httptest.NewRequest(test.method, test.path, nil))
		if w.Code != test.code || w.Header().Get("Allow") != test.allow {
			t.Errorf("%s %s = %d, Allow %q, want %d, %q", test.method, test.path, w.Code, w.Header().Get("Allow"), test.code, test.allow)
		}
	}
	for _, site := range []string{"cross-site", "same-site"} {
		if got := get(i.board, "/events", "Sec-Fetch-Site", site); got.Code != 403 {
			t.Errorf("GET /events of a %s page = %d, want 403", site, got.Code)
		}
	}
}

// pipes is a listener whose connections have no buffers, so that what a reader does not read is not written.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { close(p.closed); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (p *pipes) dial(context.Context, string, string) (net.Conn, error) {
	server, client := net.Pipe()
	p.conns <- server
	return client, nil
}

// over serves a handler over pipes until the test ends.
func over(t *testing.T, server *http.Server) *pipes {
	p := &pipes{make(chan net.Conn), make(chan struct{})}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(p) }()
	t.Cleanup(func() { server.Close(); <-done })
	return p
}

// open opens a stream over pipes.
func (p *pipes) open(t *testing.T) *http.Response {
	t.Helper()
	transport := &http.Transport{DialContext: p.dial}
	t.Cleanup(transport.CloseIdleConnections)
	resp, err := (&http.Client{Transport: transport}).Get("http://shop.example/events")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

// A page that no longer reads is given up after five seconds, and its place is another's.
func TestSlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newLocal(t, dashboard.WithStreams(1))
		p := over(t, &http.Server{Handler: i.board})
		conn, _ := p.dial(t.Context(), "", "")
		defer conn.Close()
		fmt.Fprint(conn, "GET /events HTTP/1.1\r\nHost: shop.example\r\n\r\n")
		if line, err := bufio.NewReaderSize(conn, 16).ReadString('\n'); err != nil || !strings.Contains(line, "200") {
			t.Fatalf("the stream begins with %q, %v, want 200", line, err)
		}
		time.Sleep(4 * time.Second)
		if resp := p.open(t); resp.StatusCode != 503 || resp.Header.Get("Retry-After") == "" {
			t.Errorf("a second page is answered with %d, want 503 and when to try again", resp.StatusCode)
		}
		time.Sleep(2 * time.Second)
		if page := newReader(t, p.open(t)); !page.next() {
			t.Error("the page behind the one that does not read gets nothing, want a snapshot")
		}
	})
}

// As many pages as may be are open at once, each of which gets each snapshot; one that is closed makes room.
func TestManyStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newLocal(t)
		p := over(t, &http.Server{Handler: i.board})
		var pages []*reader
		for range dashboard.DefaultStreams {
			pages = append(pages, newReader(t, p.open(t)))
		}
		if resp := p.open(t); resp.StatusCode != 503 {
			t.Errorf("one more page is answered with %d, want 503", resp.StatusCode)
		}
		i.calls(5, "Create", "alice")
		for _, page := range pages {
			page.until("the page has the calls", func() bool { return page.sum(creations, allowed) == 3 && page.sum(creations, denied) == 2 })
		}
		pages[0].body.Close()
		time.Sleep(2 * time.Second)
		if resp := p.open(t); resp.StatusCode != 200 {
			t.Errorf("a page in the place of one that is closed is answered with %d, want 200", resp.StatusCode)
		}
	})
}

// The server's time-outs, which are for requests, do not end a stream.
func TestServerTimeouts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newLocal(t)
		p := over(t, &http.Server{Handler: i.board, ReadTimeout: time.Second, WriteTimeout: time.Second, IdleTimeout: time.Second})
		page := newReader(t, p.open(t))
		page.until("twenty events have come", func() bool { return page.events >= 20 })
	})
}

// A stream goes over HTTP/2 as well, several over one connection.
func TestHTTP2(t *testing.T) {
	t.Parallel() // it waits, mostly
	i := newLocal(t)
	server := httptest.NewUnstartedServer(i.board)
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(func() { i.board.Close(); server.CloseClientConnections(); server.Close() })
	var pages []*reader
	for range 2 {
		resp, err := server.Client().Get(server.URL + "/events")
		if err != nil {
			t.Fatal(err)
		}
		if resp.ProtoMajor != 2 {
			t.Fatalf("the stream is over %s, want HTTP/2", resp.Proto)
		}
		pages = append(pages, newReader(t, resp))
	}
	i.calls(1, "Create", "alice")
	for _, page := range pages {
		page.until("the page has the call", func() bool { return page.sum(creations, allowed) == 1 })
	}
}

// mute is a ResponseWriter of a middleware that hides what the server's can.
type mute struct{ http.ResponseWriter }

// wrapped is one that says what it wraps.
type wrapped struct{ http.ResponseWriter }

func (w wrapped) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// A middleware that keeps back what is sent is told of in words; one that can be unwrapped is in nobody's way.
func TestNoFlusher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newLocal(t)
		p := over(t, &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { i.board.ServeHTTP(mute{w}, r) })})
		resp := p.open(t)
		if text, _ := io.ReadAll(resp.Body); resp.StatusCode != 500 || !strings.Contains(string(text), "Unwrap") {
			t.Errorf("without Flush the answer is %d %s, want 500 and what to mend", resp.StatusCode, text)
		}
		p = over(t, &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { i.board.ServeHTTP(wrapped{w}, r) })})
		page := newReader(t, p.open(t))
		page.until("it goes on", func() bool { return page.events > 5 })
	})
}

// Close ends the pages that are open, so that a server's Shutdown need not wait for them, and lets none begin.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newLocal(t)
		server := &http.Server{Handler: i.board}
		server.RegisterOnShutdown(i.board.Close)
		p := over(t, server)
		page := newReader(t, p.open(t))
		page.next()
		ended := make(chan error)
		go func() { ended <- server.Shutdown(context.Background()) }()
		for page.next() {
		}
		if err := <-ended; err != nil {
			t.Errorf("Shutdown = %v, want nil", err)
		}
		if got := get(i.board, "/events"); got.Code != 503 {
			t.Errorf("a page that comes then is answered with %d, want 503", got.Code)
		}
		if err := i.board.Run(context.Background()); err == nil {
			t.Error("Run of a closed dashboard = nil, want an error")
		}
	})
}

// Run ends with its context, and with it the pages.
func TestRunEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newLocal(t)
		p := over(t, &http.Server{Handler: i.board})
		end := i.run()
		page := newReader(t, p.open(t))
		page.until("it is live", func() bool { return page.latest.Now > 0 })
		end()
		for page.next() {
		}
	})
}

func TestRefusedOptions(t *testing.T) {
	i := newLocal(t)
	seen := dashboard.NewObserver()
	for name, opt := range map[string]dashboard.Option{
		`dashboard: found the service name "a b", want 1 to 64 of a-z, A-Z, 0-9, dot, dash and underscore`:                                          dashboard.WithService("a b"),
		`dashboard: a nil client, want one of the Redis that keeps the counts, or no WithRedis`:                                                     dashboard.WithRedis(nil),
		`dashboard: an empty key of overrides, want that of the hash, or no WithOverridesKey for rl:overrides`:                                      dashboard.WithOverridesKey(""),
		`dashboard: a nil func, want one that says who makes a request, or no WithWho`:                                                              dashboard.WithWho(nil),
		`dashboard: no logger: want WithLogger with one, or no WithLogger`:                                                                          dashboard.WithLogger(nil),
		`dashboard: a secret of 3 bytes, want 16 or more`:                                                                                           dashboard.WithSecret([]byte("abc")),
		`dashboard: WithHosts has "a:80", want a name without a port`:                                                                               dashboard.WithHosts("a:80"),
		`dashboard: 0 streams, want 1 or more`:                                                                                                      dashboard.WithStreams(0),
		`dashboard: found the instance name "", want 1 to 64 bytes`:                                                                                 dashboard.WithInstance(""),
		`dashboard: the list of directives cannot be read, want what rlgen list -json prints: invalid character 'x' looking for beginning of value`: dashboard.WithSource([]byte("x")),
	} {
		if _, err := dashboard.New(i.limiter, seen, opt); err == nil || err.Error() != name {
			t.Errorf("New = %v, want %s", err, name)
		}
	}
	if _, err := dashboard.New(nil, seen); err == nil {
		t.Error("New of no limiter = nil, want an error")
	}
	if _, err := dashboard.New(i.limiter, nil); err == nil {
		t.Error("New of no observer = nil, want an error")
	}
	if _, err := dashboard.New(i.limiter, &dashboard.Observer{}); err == nil {
		t.Error("New of the zero observer = nil, want an error")
	}
}
