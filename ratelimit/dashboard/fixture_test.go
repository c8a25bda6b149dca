package dashboard_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/dashboard"
	"github.com/rlgen/rlgen/ratelimit/lock"
	"github.com/rlgen/rlgen/ratelimit/memstore"
	"github.com/rlgen/rlgen/ratelimit/redisstore"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// directives are those of a shop.
var directives = map[string][]string{
	"Create": {"user 3,1h ban=10m after=100", "global 10000,1h"},
	"Find":   {"ip 5,1h mode=shadow"},
	"Login":  {"user 3,1h ban=10m after=1"},
	"Ship":   {"concurrency 4 per=user"},
}

// The lanes of some of them.
const (
	creations = "orders.Orders.Create"
	perUser   = "orders.Orders.Create Create/user"
)

// instance is one process of the shop, as far as its limits go.
type instance struct {
	t       *testing.T
	limiter *ratelimit.Limiter
	guards  map[string]*ratelimit.Guard
	board   *dashboard.Dashboard
	log     *buffer
	url     string // where httptest serves the page; empty before serve
}

// newInstance returns an instance over a store.
func newInstance(t *testing.T, counts store.Store, opts ...dashboard.Option) *instance {
	t.Helper()
	i := &instance{t: t, guards: map[string]*ratelimit.Guard{}, log: &buffer{}}
	log := slog.New(slog.NewJSONHandler(i.log, nil))
	seen := dashboard.NewObserver()
	limiter, err := ratelimit.New(counts, ratelimit.WithObserver(seen), ratelimit.WithLogger(log), ratelimit.WithLocks(lock.NewMemory()))
	if err != nil {
		t.Fatal(err)
	}
	i.limiter = limiter
	for method, lines := range directives {
		i.guards[method] = limiter.Guard(policy(t, method, lines))
	}
	opts = append([]dashboard.Option{dashboard.WithService("shop"), dashboard.WithLogger(log), dashboard.WithHosts("shop.example", "example.com")}, opts...)
	if i.board, err = dashboard.New(limiter, seen, opts...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(i.board.Close)
	return i
}

// newLocal returns an instance that counts in its process.
func newLocal(t *testing.T, opts ...dashboard.Option) *instance {
	t.Helper()
	return newInstance(t, memstore.New(), opts...)
}

// newShared returns an instance that counts in a Redis, tells the others of it by the same client, and is served.
func newShared(t *testing.T, client redis.UniversalClient, opts ...dashboard.Option) *instance {
	t.Helper()
	counts, err := redisstore.New(client, redisstore.WithBudget(2*time.Second)) // for a busy machine
	if err != nil {
		t.Fatal(err)
	}
	i := newInstance(t, counts, append([]dashboard.Option{dashboard.WithRedis(client)}, opts...)...)
	i.run()
	i.serve()
	return i
}

// dialOnce has a client of a server that is down fail at its first attempt to connect.
func dialOnce(o *redis.Options) { o.DialerRetries = 1 }

// run runs the dashboard until the test ends, or what it returns is called.
func (i *instance) run() (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = i.board.Run(ctx) })
	end = func() { cancel(); running.Wait() }
	i.t.Cleanup(end)
	return end
}

// serve serves the page until the test ends.
func (i *instance) serve() {
	mux := http.NewServeMux()
	mux.Handle("/debug/ratelimit/", i.board)
	server := httptest.NewServer(mux)
	i.t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	i.url = server.URL + "/debug/ratelimit/"
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

// call calls a method as a user, and returns what the limiter says.
func (i *instance) call(method, user string) error {
	ctx := ratelimit.WithIP(context.Background(), netip.MustParseAddr("192.0.2.7"))
	_, err := i.guards[method].Take(ratelimit.WithUser(ctx, user))
	return err
}

// calls calls a method as a user n times.
func (i *instance) calls(n int, method, user string) {
	for range n {
		_ = i.call(method, user)
	}
}

// post sends JSON to the page's part, with headers of pairs.
func (i *instance) post(part, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "http://shop.example/debug/ratelimit/"+part, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	for n := 0; n < len(headers); n += 2 {
		r.Header.Set(headers[n], headers[n+1])
	}
	w := httptest.NewRecorder()
	i.board.ServeHTTP(w, r)
	return w
}

// buffer is a log that may be read while it is written.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// counted is what a snapshot says of lanes: by second from From on, by kind.
type counted struct {
	From  int64
	Lanes map[string][][]uint32
	Trips [2][]float64
}

// snapshot is what a tick says, as far as tests ask.
type snapshot struct {
	counted
	Now       int64
	Fleet     struct{ Scope, Text string }
	Store     struct{ State, Title, Text, Breaker, Breaking string }
	Overrides struct {
		Count   int
		Refused string
	}
	Latency   [2]float64
	Instances []struct {
		Name, Rules string
		Self        bool
	}
	Denied []struct {
		Limit, ID string
		Count     int64
	}
	Bans []struct {
		Limit, ID string
		Left      float64
	}
	Changes []struct {
		When      int64
		Who, What string
	}
	Others []string
}

// reader is an open page: it takes in events as the page's script does.
type reader struct {
	t      *testing.T
	body   io.ReadCloser
	lines  *bufio.Scanner
	limits struct {
		Service, Instance, Rules string
		Writes, Overrides        bool
		Limits                   []struct{ ID, At, Directive, Now, Override, From, Mode, Plan string }
	}
	latest snapshot
	lanes  map[string]map[int]map[int64]uint32
	events int
}

// patience is how long a test waits for what a busy machine may take long for.
const patience = 30 * time.Second

// watch opens the page of an instance that is served.
func (i *instance) watch() *reader {
	i.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	i.t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, i.url+"events", nil)
	if err != nil {
		i.t.Fatal(err)
	}
	transport := &http.Transport{}
	i.t.Cleanup(transport.CloseIdleConnections)
	resp, err := transport.RoundTrip(req)
	if err != nil {
		i.t.Fatal(err)
	}
	return newReader(i.t, resp)
}

func newReader(t *testing.T, resp *http.Response) *reader {
	t.Helper()
	if kind := resp.Header.Get("Content-Type"); resp.StatusCode != http.StatusOK || kind != "text/event-stream" {
		t.Fatalf("the stream is %d of %q, want 200 of text/event-stream", resp.StatusCode, kind)
	}
	r := &reader{t: t, body: resp.Body, lines: bufio.NewScanner(resp.Body), lanes: map[string]map[int]map[int64]uint32{}}
	r.lines.Buffer(nil, 1<<24)
	t.Cleanup(func() { r.body.Close() })
	return r
}

// next takes in one event, and reports whether there was one.
func (r *reader) next() bool {
	r.t.Helper()
	name := ""
	for r.lines.Scan() {
		line := r.lines.Text()
		if event, ok := strings.CutPrefix(line, "event: "); ok {
			name = event
		}
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			r.take(name, data)
			r.events++
			return true
		}
	}
	return false
}

func (r *reader) take(name, data string) {
	r.t.Helper()
	switch name {
	case "limits":
		r.decode(data, &r.limits)
	case "history":
		r.lanes = map[string]map[int]map[int64]uint32{}
		var c counted
		r.decode(data, &c)
		r.enter(c)
	case "tick":
		r.latest = snapshot{}
		r.decode(data, &r.latest)
		r.enter(r.latest.counted)
	default:
		r.t.Fatalf("event %q, want limits, history or tick", name)
	}
}

func (r *reader) decode(data string, into any) {
	r.t.Helper()
	if err := json.Unmarshal([]byte(data), into); err != nil {
		r.t.Fatalf("%v in %s", err, data)
	}
}

func (r *reader) enter(c counted) {
	for name, columns := range c.Lanes {
		if r.lanes[name] == nil {
			r.lanes[name] = map[int]map[int64]uint32{}
		}
		for kind, column := range columns {
			if r.lanes[name][kind] == nil {
				r.lanes[name][kind] = map[int64]uint32{}
			}
			for n, count := range column {
				r.lanes[name][kind][c.From+int64(n)] = count
			}
		}
	}
}

// The kinds of counts of a lane.
const (
	allowed = iota
	denied
	degraded
	failed
	shadowed
)

// sum is how many of a kind the page knows of a lane.
func (r *reader) sum(lane string, kind int) (n uint32) {
	for _, count := range r.lanes[lane][kind] {
		n += count
	}
	return n
}

// until takes in events until the page says what is wanted.
func (r *reader) until(what string, is func() bool) {
	r.t.Helper()
	for !is() {
		if !r.next() {
			text, _ := json.Marshal(r.latest)
			r.t.Fatalf("the stream ended before %s: %v; the last tick was %s, the counts were %v", what, r.lines.Err(), text, r.lanes)
		}
	}
}
