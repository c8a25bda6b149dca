package dashboard_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/rlgen/rlgen/ratelimit/dashboard"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
)

// hostile are ids that try to be something else: markup, an event of the stream, another key, more than fits.
var hostile = []string{
	"<script>alert(1)</script>", `"><img src=x onerror=alert(1)>`, "a\n\nevent: limits\ndata: {\"limits\":[]}\n\n", "a\r\n", "\x00", "\xff\xfe\xfd", "\u2028\u2029",
	"a:orders.Orders-Create", "{tag}", "user=alice", "#0123456789abcdef", "%00%zz", "__proto__", "constructor", " ", strings.Repeat("x", 1<<20), "a\x00b|3",
}

// Ids that try to be something else are ids, on the page of the instance that sees them and on that of another.
func TestHostileIDs(t *testing.T) {
	t.Parallel() // it waits, mostly
	server := redistest.Start(t)
	one, two := newShared(t, server.Client(t), dashboard.WithClearIDs()), newShared(t, server.Client(t), dashboard.WithClearIDs())
	for n, id := range hostile {
		one.calls(4+n, "Create", id)
	}
	for _, page := range []*reader{one.watch(), two.watch()} {
		page.until("each of them is listed", func() bool { return len(page.latest.Denied) == len(hostile) && page.latest.Fleet.Scope == "fleet" })
		for n, got := range page.latest.Denied {
			from := len(hostile) - 1 - n
			if got.Limit != perUser || got.Count != int64(1+from) {
				t.Errorf("%d is %+v, want %.80q, denied %d times", n, got, hostile[from], 1+from)
			}
			if whole := strings.ToValidUTF8(hostile[from], "\ufffd"); !strings.HasPrefix(got.ID, "user ~") && !strings.HasPrefix(got.ID, "user \ufffd") && got.ID != "user "+whole {
				t.Errorf("%d is listed as %.80q, want %.80q, or its hash", n, got.ID, whole)
			}
			if len(got.ID) > 200 {
				t.Errorf("an id is listed in %d bytes, want a hash of one that is long", len(got.ID))
			}
		}
		if len(page.limits.Limits) != 5 {
			t.Errorf("the page has %d limits, want those of the program", len(page.limits.Limits))
		}
	}
}

// What others have written into the keys of the page is not believed, and breaks nothing.
func TestHostileKeys(t *testing.T) {
	t.Parallel() // it waits, mostly
	server := redistest.Start(t)
	admin, ctx := server.Client(t), t.Context()
	i := newShared(t, server.Client(t))
	page := i.watch()
	i.calls(4, "Create", "alice")
	page.until("the page is live", func() bool { return page.latest.Fleet.Scope == "fleet" && len(page.latest.Denied) == 1 })
	for _, text := range []string{"", "{", "null", `{"id":"x","name":"<script>","rules":"\n","started":-1}`, "\xff"} {
		if err := admin.Do(ctx, "zadd", "rl:{dashboard:shop}:instances", "9e18", text).Err(); err != nil {
			t.Fatal(err)
		}
		admin.LPush(ctx, "rl:{dashboard:shop}:changes", text)
		admin.Do(ctx, "zadd", "rl:{dashboard:shop}:bans", "9e15", text)
	}
	i.calls(4, "Create", "bob")
	page.until("bob is on it, beside what others wrote", func() bool { return len(page.latest.Denied) == 2 && page.latest.Fleet.Scope == "fleet" })
}

// Behind a proxy that has the page under another prefix and another host, all of it works.
func TestBehindProxy(t *testing.T) {
	t.Parallel() // it waits, mostly
	i := newLocal(t, dashboard.WithWrites())
	i.serve()
	behind, err := url.Parse(i.url)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	proxy := httptest.NewServer(&httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(behind)
		r.Out.URL.Path = behind.Path + strings.TrimPrefix(r.In.URL.Path, "/team/tools/limits/")
	}})
	t.Cleanup(func() { proxy.CloseClientConnections(); proxy.Close(); transport.CloseIdleConnections() })
	i.url = proxy.URL + "/team/tools/limits/"
	page := i.watch()
	i.calls(4, "Create", "alice")
	page.until("calls are on it", func() bool { return page.sum(creations, denied) == 1 })
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, i.url+"change", strings.NewReader(`{"do":"reset","method":"Create","kind":"user","id":"alice"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Origin", proxy.URL)
	req.Header.Set("Sec-Fetch-Site", "same-origin")
	resp, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("a reset by way of the proxy = %d, want 200", resp.StatusCode)
	}
	page.until("and so is what was changed", func() bool { return len(page.latest.Changes) == 1 })
}

// The log calls an id what lists call it, however it was written and however long it is: an address by its network, a long id by its hash.
func TestLogNamesIDsAsListsDo(t *testing.T) {
	long, runes := strings.Repeat("x", 10_000), strings.Repeat("\U0001F600", 10_000)
	for name, opts := range map[string][]dashboard.Option{"hashed": nil, "clear": {dashboard.WithClearIDs()}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				i := newLocal(t, append(opts, dashboard.WithWrites())...)
				for n, user := range []string{"alice", long, runes} {
					i.calls(4+n, "Create", user)
				}
				page := newReader(t, over(t, &http.Server{Handler: i.board}).open(t))
				page.until("the three are listed", func() bool { return len(page.latest.Denied) == 3 })
				for n, user := range []string{runes, long, "alice"} {
					if got := i.lookUp("Create", "user", user)[0].Remaining; got != 0 {
						t.Errorf("%.20q has %d left, want 0", user, got)
					}
					i.change(`{"do":"reset","method":"Create","kind":"user","id":"` + user + `"}`)
					listed := page.latest.Denied[n].ID
					if want := fmt.Sprintf("reset %s of Create", listed); !strings.Contains(i.log.String(), want) {
						t.Errorf("the log does not say %q, as the list of who is denied does:\n%.2000s", want, i.log)
					}
				}
				for _, address := range []string{"2001:db8:0:1::1", "2001:db8:0:1::2"} {
					i.change(`{"do":"reset","method":"Find","kind":"ip","id":"` + address + `"}`)
				}
				lines := strings.Split(strings.TrimSpace(i.log.String()), "\n")
				what := regexp.MustCompile(`"what":"reset ip [^"]*"`)
				one, two := what.FindString(lines[len(lines)-1]), what.FindString(lines[len(lines)-2])
				if one == "" || one != two {
					t.Errorf("the log has %s and %s, want one name of two addresses that count as one", one, two)
				}
			})
		})
	}
}
