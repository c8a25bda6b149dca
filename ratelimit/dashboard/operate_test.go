package dashboard_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/dashboard"
	"github.com/rlgen/rlgen/ratelimit/override"
	"github.com/rlgen/rlgen/ratelimit/override/redisoverride"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
	"github.com/rlgen/rlgen/rules"
)

// rule is what the page is told of one rule of an id.
type rule struct {
	Limit, Rule      string
	Count, Remaining int64
	Banned           float64 `json:",omitempty"`
	Note             string
}

// lookUp asks how an id stands.
func (i *instance) lookUp(method, kind, id string) (rules []rule) {
	i.t.Helper()
	body, _ := json.Marshal(map[string]string{"method": method, "kind": kind, "id": id})
	w := i.post("lookup", string(body))
	var found struct{ Rules []rule }
	if err := json.Unmarshal(w.Body.Bytes(), &found); w.Code != 200 || err != nil {
		i.t.Fatalf("lookup of %s %s of %s: %d %s", kind, id, method, w.Code, w.Body)
	}
	return found.Rules
}

// change asks for a change, and expects it to be done.
func (i *instance) change(body string, headers ...string) {
	i.t.Helper()
	if w := i.post("change", body, headers...); w.Code != 200 {
		i.t.Fatalf("change %s: %d %s", body, w.Code, w.Body)
	}
}

// A lookup says how each rule stands that counts by the id, and changes nothing.
func TestLookUp(t *testing.T) {
	i := newLocal(t)
	i.calls(2, "Create", "alice")
	for _, test := range []struct {
		method, kind, id string
		want             []rule
	}{
		{"orders.Orders.Create", "user", "alice", []rule{{"Create/user", "3,1h", 3, 1, 0, ""}}},
		{"Create", "user", "alice", []rule{{"Create/user", "3,1h", 3, 1, 0, ""}}},
		{"orders.Orders.Create", "user", "<script>alert(1)</script>", []rule{{"Create/user", "3,1h", 3, 3, 0, ""}}},
		{"orders.Orders.Create", "user", "bob:orders.Orders-Create{x}%00\n", []rule{{"Create/user", "3,1h", 3, 3, 0, ""}}},
		{"orders.Orders.Create", "global", "", []rule{{"Create/global", "10000,1h", 10000, 9998, 0, ""}}},
		{"orders.Orders.Find", "ip", "192.0.2.7", []rule{{"Find/ip/shadow", "5,1h", 5, 5, 0, "shadow"}}},
		{"orders.Orders.Ship", "user", "alice", []rule{{"Ship", "concurrency 4 per=user", 4, 4, 0, ""}}},
	} {
		for range 2 {
			if diff := cmp.Diff(test.want, i.lookUp(test.method, test.kind, test.id)); diff != "" {
				t.Errorf("lookup of %s %s of %s (-want +got):\n%s", test.kind, test.id, test.method, diff)
			}
		}
	}
}

// What cannot be is refused in words, and nothing of it is done.
func TestRefused(t *testing.T) {
	i := newLocal(t, dashboard.WithWrites())
	for _, test := range []struct{ part, body, want string }{
		{"lookup", `{"method":"orders.Orders.Creat","kind":"user","id":"a"}`, "400 .*did you mean.*orders.Orders.Create"},
		{"lookup", `{"method":"Create","kind":"planet","id":"a"}`, "400 .*want user=42, ip=192.0.2.1, key=text or global"},
		{"lookup", `{"method":"Create","kind":"user","id":""}`, "400 "},
		{"lookup", `{"method":"Find","kind":"ip","id":"not an address"}`, "400 "},
		{"lookup", `{"method":"Create","kind":"ip","id":"192.0.2.7"}`, "4.. .*"},
		{"lookup", `[`, "400 .*not what the page sends"},
		{"lookup", `{"id":"` + strings.Repeat("a", 1<<16) + `"}`, "400 .*more than 65536 bytes"},
		{"change", `{}`, "400 "},
		{"change", `{"method":"Create","kind":"user","id":"a","do":"dance"}`, `400 .*found the change "dance", want reset, grant, ban, unban or override`},
		{"change", `{"method":"Create","kind":"user","id":"a","do":"ban","for":"soon"}`, `400 dashboard: for how long to ban: found "soon", want a duration`},
		{"change", `{"method":"Create","kind":"user","id":"a","do":"ban","for":"-1s"}`, `400 .*want a duration`},
		{"change", `{"method":"Create","kind":"user","id":"a","do":"ban","for":"99999999h"}`, `4..`},
		{"change", `{"method":"Find","kind":"ip","id":"192.0.2.7","do":"ban","for":"1m"}`, `400 dashboard: found no limit by ip of orders.Orders.Find that has ban=, want one`},
		{"change", `{"method":"Create","kind":"ip","id":"192.0.2.7","do":"unban"}`, `400 dashboard: found no limit by ip of orders.Orders.Create that has ban=, want one`},
		{"change", `{"method":"Create","kind":"key","id":"a","do":"grant","permits":1}`, `400 dashboard: found no limit by key of orders.Orders.Create that counts and is no queue, want one`},
		{"change", `{"method":"Create","kind":"key","id":"a","do":"reset"}`, `400 dashboard: found no limit by key of orders.Orders.Create that counts, want one`},
		{"change", `{"method":"Create","kind":"user","id":"a","do":"grant"}`, `400 dashboard: found a grant of 0 permits, want 1 or more`},
		{"change", `{"method":"Create","kind":"user","id":"a","do":"grant","permits":-1}`, `400 dashboard: found a grant of -1 permits, want 1 or more`},
		{"change", `{"method":"Create","kind":"user","id":"a","do":"grant","permits":1000000}`, `400 dashboard: found a grant of 1000000 permits, want 1 to \d+`},
		{"change", `{"do":"override","limit":"orders.Orders.Create/user","text":"5,1s"}`, "400 .*want WithRedis"},
	} {
		w := i.post(test.part, test.body)
		if got := fmt.Sprintf("%d %s", w.Code, w.Body); !regexp.MustCompile("(?s)^" + test.want).MatchString(got) {
			t.Errorf("%s %.80s = %s, want %s", test.part, test.body, got, test.want)
		}
	}
	if strings.Contains(i.log.String(), "were changed by hand") {
		t.Errorf("the log has changes that were refused:\n%s", i.log)
	}
}

// An order that is refused is in the log as well, by whom it was given and why it was refused, and no more of an id than elsewhere.
func TestRefusedIsLogged(t *testing.T) {
	for body, what := range map[string]string{
		`{"method":"Create","kind":"user","id":"alice","do":"ban","for":"soon"}`:                 "ban user of Create",
		`{"method":"Creat","kind":"user","id":"alice","do":"reset"}`:                             "reset user of Creat",
		`{"method":"Create","kind":"user","id":"alice","do":"grant","permits":-1}`:               "grant user of Create",
		`{"method":"` + strings.Repeat("a", 1000) + `","kind":"user","id":"alice","do":"reset"}`: "reset user of " + strings.Repeat("a", 186) + "… (and 814 bytes more)",
		`{"do":"override","limit":"orders.Orders.Creat/user","text":"5,1s"}`:                     "override orders.Orders.Creat/user",
	} {
		i := newLocal(t, dashboard.WithWrites(), dashboard.WithWho(func(r *http.Request) string { return "bob" }))
		w := i.post("change", body)
		var line struct{ Msg, Who, What, Error string }
		err := json.Unmarshal([]byte(i.log.String()), &line)
		if err != nil || line.Msg != "rate limits could not be changed by hand" || line.Who != "bob" || line.What != what || len(line.Error) > 540 || !strings.HasPrefix(strings.TrimSpace(w.Body.String()), regexp.MustCompile(`… \(and \d+ bytes more\)$`).ReplaceAllString(line.Error, "")) {
			t.Errorf("%.80s is logged as %+v (%v), want bob's %q with %q", body, line, err, what, w.Body)
		}
		if strings.Contains(i.log.String(), "alice") {
			t.Errorf("the log has the id:\n%s", i.log)
		}
	}
}

// Pages of other origins change and read nothing, whatever they send.
// TestOtherHosts tests that requests for live data, and those that change something, are refused under names that may be
// somebody else's.
func TestOtherHosts(t *testing.T) {
	i := newLocal(t, dashboard.WithWrites(), dashboard.WithHosts("Debug.internal"))
	ask := func(method, part, host string) int {
		r := httptest.NewRequest(method, "http://shop.example/debug/ratelimit/"+part, strings.NewReader("{}"))
		r.Host = host
		ctx, cancel := context.WithCancel(r.Context())
		cancel() // a stream ends at once
		w := httptest.NewRecorder()
		i.board.ServeHTTP(w, r.WithContext(ctx))
		return w.Code
	}
	for _, host := range []string{"rebound.example", "127.0.0.1.rebound.example:80", "localhost.rebound.example", "debug.internal.rebound.example", ""} {
		for _, request := range [][2]string{{"POST", "change"}, {"POST", "lookup"}, {"GET", "events"}} {
			if got := ask(request[0], request[1], host); got != http.StatusMisdirectedRequest {
				t.Errorf("%s %s under %q: %d, want %d", request[0], request[1], host, got, http.StatusMisdirectedRequest)
			}
		}
	}
	for _, host := range []string{"shop.example", "debug.internal:8080", "DEBUG.internal", "localhost:1", "[::1]:1", "10.0.0.1", "[::1]"} {
		for _, request := range [][2]string{{"POST", "change"}, {"GET", "events"}} {
			if got := ask(request[0], request[1], host); got == http.StatusMisdirectedRequest {
				t.Errorf("%s %s under %q is refused, want it served", request[0], request[1], host)
			}
		}
	}
}

func TestOtherOrigins(t *testing.T) {
	i := newLocal(t, dashboard.WithWrites())
	i.calls(2, "Create", "alice")
	const reset = `{"do":"reset","method":"Create","kind":"user","id":"alice"}`
	for _, headers := range [][]string{
		{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Origin", "https://evil.example"}, {"Origin", "null"},
		{"Sec-Fetch-Site", "cross-site", "Origin", "http://shop.example"},
	} {
		for _, part := range []string{"change", "lookup"} {
			if w := i.post(part, reset, headers...); w.Code != http.StatusForbidden {
				t.Errorf("POST %s with %q = %d, want 403", part, headers, w.Code)
			}
		}
	}
	for _, kind := range []string{"text/plain", "application/x-www-form-urlencoded", ""} { // which forms can send
		if w := i.post("change", reset, "Content-Type", kind); w.Code != http.StatusBadRequest {
			t.Errorf("POST of %q = %d, want 400", kind, w.Code)
		}
	}
	if got := i.lookUp("Create", "user", "alice"); got[0].Remaining != 1 {
		t.Errorf("alice has %d left, want 1: nothing was reset", got[0].Remaining)
	}
	i.change(reset, "Sec-Fetch-Site", "same-origin", "Origin", "http://shop.example")
	if got := i.lookUp("Create", "user", "alice"); got[0].Remaining != 3 {
		t.Errorf("behind the page's own reset alice has %d left, want 3", got[0].Remaining)
	}
}

// Unless the team says so, the page reads.
func TestReadOnly(t *testing.T) {
	i := newLocal(t)
	i.calls(2, "Create", "alice")
	for _, do := range []string{"reset", "grant", "ban", "unban", "override", "dance"} {
		body := fmt.Sprintf(`{"do":%q,"method":"Create","kind":"user","id":"alice","permits":1,"for":"10m","limit":"orders.Orders.Create/user","text":"off"}`, do)
		if w := i.post("change", body); w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), "WithWrites") {
			t.Errorf("%s = %d %s, want 403 and what to say for it", do, w.Code, w.Body)
		}
	}
	if got := i.lookUp("Create", "user", "alice"); got[0].Remaining != 1 {
		t.Errorf("alice has %d left, want 1", got[0].Remaining)
	}
}

// What the page does to an id is done at once.
func TestChangesOfAnID(t *testing.T) {
	i := newLocal(t, dashboard.WithWrites())
	i.calls(4, "Create", "alice")
	i.change(`{"do":"grant","method":"Create","kind":"user","id":"alice","permits":2}`)
	if got := i.lookUp("Create", "user", "alice")[0].Remaining; got != 2 {
		t.Errorf("behind a grant of 2 alice has %d left, want 2", got)
	}
	i.change(`{"do":"reset","method":"Create","kind":"user","id":"alice"}`)
	if got := i.lookUp("Create", "user", "alice")[0].Remaining; got != 3 {
		t.Errorf("behind a reset alice has %d left, want 3", got)
	}
	i.change(`{"do":"ban","method":"Create","kind":"user","id":"alice","for":"1h"}`)
	if got := i.lookUp("Create", "user", "alice")[0].Banned; got < 3000 || got > 3600 {
		t.Errorf("alice is banned for %v s, want an hour", got)
	}
	if err := i.call("Create", "alice"); err == nil {
		t.Error("a call of alice, who is banned, passed")
	}
	i.change(`{"do":"ban","method":"Create","kind":"user","id":"alice","for":"1d"}`)
	if got := i.lookUp("Create", "user", "alice")[0].Banned; got < 80_000 || got > 86_400 {
		t.Errorf("alice is banned for %v s, want a day", got)
	}
	i.change(`{"do":"unban","method":"Create","kind":"user","id":"alice"}`)
	if err := i.call("Create", "alice"); err != nil {
		t.Errorf("a call of alice, who is banned no more: %v", err)
	}
}

// Each change is in the log, and on the page, with who and when; of an id a hash.
func TestLogOfChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newLocal(t, dashboard.WithWrites(), dashboard.WithWho(func(r *http.Request) string { return r.Header.Get("X-Team") }))
		p := over(t, &http.Server{Handler: i.board})
		begin := time.Now()
		i.change(`{"do":"reset","method":"orders.Orders.Create","kind":"user","id":"alice@shop.example"}`, "X-Team", "bob")
		time.Sleep(time.Minute)
		i.change(`{"do":"grant","method":"orders.Orders.Create","kind":"global","permits":1}`, "X-Team", strings.Repeat("c", 300))
		page := newReader(t, p.open(t))
		page.until("both changes are listed", func() bool { return len(page.latest.Changes) == 2 })
		latest, first := page.latest.Changes[0], page.latest.Changes[1]
		if want := regexp.MustCompile(`^reset user #[0-9a-f]{16} of orders.Orders.Create$`); !want.MatchString(first.What) || first.Who != "bob" || first.When != begin.UnixMilli() {
			t.Errorf("the first change is %+v, want bob's %v at %v", first, want, begin.UnixMilli())
		}
		if latest.What != "grant 1 permit to all callers of orders.Orders.Create" || len(latest.Who) > 230 || latest.When != begin.Add(time.Minute).UnixMilli() {
			t.Errorf("the latest change is %+v, want the grant a minute later, by whoever has a long name, cut", latest)
		}
		if strings.Contains(i.log.String(), "alice") {
			t.Errorf("the log has the id:\n%s", i.log)
		}
		var line struct {
			Time             time.Time
			Msg, Who, What   string
			Instance, Source string
		}
		if err := json.Unmarshal([]byte(strings.SplitN(i.log.String(), "\n", 2)[0]), &line); err != nil || line.Msg != "rate limits were changed by hand" || line.Who != "bob" || line.What != first.What || !line.Time.Equal(begin) {
			t.Errorf("the log has %+v, %v, want who did what and when", line, err)
		}
	})
}

// A change of which it is not known whether it was done is logged as such, and is no change on the page.
func TestChangeThatFails(t *testing.T) {
	t.Parallel() // it waits, mostly
	server := redistest.Start(t)
	i := newShared(t, server.Client(t, dialOnce), dashboard.WithWrites())
	server.Kill(t)
	if w := i.post("change", `{"do":"reset","method":"Create","kind":"user","id":"alice"}`); w.Code != http.StatusServiceUnavailable {
		t.Errorf("a reset without Redis = %d %s, want 503", w.Code, w.Body)
	}
	if !strings.Contains(i.log.String(), "rate limits could not be changed by hand") {
		t.Errorf("the log does not have the change that failed:\n%s", i.log)
	}
	if w := i.post("lookup", `{"method":"Create","kind":"user","id":"alice"}`); w.Code != http.StatusServiceUnavailable {
		t.Errorf("a lookup without Redis = %d %s, want 503", w.Code, w.Body)
	}
}

// The page of one service sets its own hash, where several share a Redis.
func TestOverrideOfAService(t *testing.T) {
	t.Parallel() // it waits, mostly
	client := redistest.Start(t).Client(t)
	i := newShared(t, client, dashboard.WithWrites(), dashboard.WithOverridesKey("rl:overrides:shop"))
	watch(t, i, client, redisoverride.WithKey("rl:overrides:shop"))
	i.change(`{"do":"override","limit":"orders.Orders.Create/user","text":"20,1h"}`)
	if n := client.Exists(t.Context(), "rl:overrides").Val(); n != 0 {
		t.Error("the page has written rl:overrides, want the service's own hash alone")
	}
	if text := client.HGet(t.Context(), "rl:overrides:shop", "orders.Orders.Create/user").Val(); text != "20,1h" {
		t.Errorf("the service's hash has %q, want 20,1h", text)
	}
	i.change(`{"do":"override","limit":"orders.Orders.Create/user"}`)
	if n := client.Exists(t.Context(), "rl:overrides:shop").Val(); n != 0 {
		t.Error("the service's hash is there still, want nothing in it")
	}
}

// An override that the page makes holds for the next call, and each of its forms does what it says.
func TestOverride(t *testing.T) {
	t.Parallel() // it waits, mostly
	server := redistest.Start(t)
	client := server.Client(t)
	i := newShared(t, client, dashboard.WithWrites())
	watch(t, i, client)
	i.calls(4, "Create", "alice")
	put := func(text string) {
		t.Helper()
		i.change(fmt.Sprintf(`{"do":"override","limit":"orders.Orders.Create/user","text":%q}`, text))
	}
	passes := func(want bool, when string) {
		t.Helper()
		if err := i.call("Create", "alice"); (err == nil) != want {
			t.Errorf("%s a call of alice = %v, want passed: %v", when, err, want)
		}
	}
	passes(false, "as written")
	put("20,1h")
	passes(true, "with 20,1h")
	put("2,1h")
	passes(false, "with 2,1h")
	put("shadow")
	passes(true, "with a shadow")
	if fields := client.HGetAll(t.Context(), "rl:overrides").Val(); fields["orders.Orders.Create/user"] != "2,1h mode=shadow" {
		t.Errorf("the overrides are %q, want the rules and the mode", fields)
	}
	put("enforce")
	passes(false, "enforced")
	put("off")
	passes(true, "off")
	put("")
	passes(false, "as written again")
	for text, want := range map[string]string{"20 pieces": "nothing is changed", "10,1s onfail": "nothing is changed"} {
		w := i.post("change", fmt.Sprintf(`{"do":"override","limit":"orders.Orders.Create/user","text":%q}`, text))
		if w.Code != 400 || !strings.Contains(w.Body.String(), want) {
			t.Errorf("override by %q = %d %s, want 400 and %s", text, w.Code, w.Body, want)
		}
	}
	if w := i.post("change", `{"do":"override","limit":"orders.Orders.Nothing","text":"off"}`); w.Code != 400 {
		t.Errorf("override of no limit = %d %s, want 400", w.Code, w.Body)
	}
	if got := client.HGetAll(t.Context(), "rl:overrides").Val(); len(got) != 0 {
		t.Errorf("the overrides are %q, want none", got)
	}
}

// meddler does something before the overrides are written, and something then.
type meddler struct{ do, then atomic.Pointer[func()] }

func (m *meddler) DialHook(next redis.DialHook) redis.DialHook { return next }

func (m *meddler) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if slices.Contains([]any{"eval", "hset", "hdel"}, cmd.Args()[0]) && slices.Contains(cmd.Args(), any("rl:overrides")) {
			if do := m.do.Swap(nil); do != nil {
				(*do)()
			}
			if then := m.then.Swap(nil); then != nil {
				defer (*then)()
			}
		}
		return next(ctx, cmd)
	}
}

func (m *meddler) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// What somebody at a shell changes while the page does is not lost: the page judges it with its own, and makes no mode of a text that is not there any more.
func TestOverrideMeetsAnother(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	shell, client, other := server.Client(t), server.Client(t), new(meddler)
	client.AddHook(other)
	sets := func(name string) {
		do := func() { shell.HSet(context.Background(), "rl:overrides", name, "5,1h") }
		other.do.Store(&do)
	}
	i := newShared(t, client, dashboard.WithWrites())
	watch(t, i, shell)
	i.change(`{"do":"override","limit":"orders.Orders.Create/user","text":"20,1h"}`)
	sets("orders.Orders.Create/user")
	w := i.post("change", `{"do":"override","limit":"orders.Orders.Create/user","text":"shadow"}`)
	if want := `overridden by "5,1h" meanwhile, want "20,1h"`; w.Code != 400 || !strings.Contains(w.Body.String(), want) {
		t.Errorf("a shadow of what is another meanwhile = %d %s, want 400 and %s", w.Code, w.Body, want)
	}
	i.change(`{"do":"override","limit":"orders.Orders.Create/user"}`)
	sets("Create/user")
	i.change(`{"do":"override","limit":"orders.Orders.Create/user","text":"6,1h"}`)
	if fields := shell.HGetAll(t.Context(), "rl:overrides").Val(); len(fields) != 1 || fields["Create/user"] != "6,1h" {
		t.Errorf("the overrides are %q, want one of the limit, by the name that it has", fields)
	}
	sets("Gone")
	if w := i.post("change", `{"do":"override","limit":"orders.Orders.Create/user","text":"7,1h"}`); w.Code != 400 || !strings.Contains(w.Body.String(), "Gone") {
		t.Errorf("override beside a wrong one of another = %d %s, want 400 and what is wrong", w.Code, w.Body)
	}
}

// TestOverrideOvertaken checks what is said of an override that is written, and then overtaken by another or not applied
// by this instance: the answer, the log and the list of changes say so.
func TestOverrideOvertaken(t *testing.T) {
	t.Parallel()
	const name = "orders.Orders.Create/user"
	for text, test := range map[string]struct {
		meddle func(context.Context, *redis.Client)
		want   string
	}{
		"20,1h": {
			func(ctx context.Context, shell *redis.Client) { shell.HSet(ctx, "rl:overrides", name, "5,1h") },
			`it was overtaken by "5,1h", which somebody has written since`,
		},
		"21,1h": {
			func(ctx context.Context, shell *redis.Client) { shell.HDel(ctx, "rl:overrides", name) },
			"it was overtaken: somebody has taken it away since",
		},
		"22,1h": {func(context.Context, *redis.Client) {}, "this instance does not heed it yet: does it run override.New"},
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			shell, client, other := server.Client(t), server.Client(t), new(meddler)
			client.AddHook(other)
			i := newShared(t, client, dashboard.WithWrites(), dashboard.WithWho(func(*http.Request) string { return "bob" }))
			then := func() { test.meddle(context.Background(), shell) }
			other.then.Store(&then)
			w := i.post("change", fmt.Sprintf(`{"do":"override","limit":%q,"text":%q}`, name, text))
			if got := fmt.Sprintf("%d %s", w.Code, w.Body); !strings.HasPrefix(got, "409 dashboard: the override is written; "+test.want) {
				t.Errorf("override by %s = %s, want 409 and that %s", text, got, test.want)
			}
			want := fmt.Sprintf("override %s by %q: %s", name, text, test.want)
			if log := i.log.String(); !strings.Contains(log, `"rate limits were changed by hand","who":"bob","what":`+strings.TrimSuffix(strconv.Quote(want), `"`)) {
				t.Errorf("the log does not have %s:\n%s", want, log)
			}
			page := i.watch()
			page.until("the change is listed", func() bool {
				return len(page.latest.Changes) > 0 && strings.HasPrefix(page.latest.Changes[0].What, want)
			})
		})
	}
}

// Who is refused is told how it is done, where it can be done otherwise, and nothing of what does not matter to him.
func TestOverrideRefusedSaysHow(t *testing.T) {
	client := redistest.Start(t).Client(t)
	i := newShared(t, client, dashboard.WithWrites())
	for _, line := range []string{"One", "Two"} {
		d, err := rules.Parse("//ratelimit:user 3,1h bucket=pool name=" + line)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := i.limiter.Prepare(&rules.Policy{Package: "shop/pool", Type: "pool.Pool", Method: line, Limits: []rules.Limit{d.Limit}}); err != nil {
			t.Fatal(err)
		}
	}
	const bucket, away = "; limits that share a bucket are changed together by rlgen override", `; what is wrong in rl:overrides is taken away by rlgen override remove`
	for _, test := range []struct{ limit, text, has, want string }{
		{"orders.Orders.Create/user", "nonsense", "", ""},
		{"pool.Pool.One", "4,1h", "", bucket},
		{"orders.Orders.Create/user", "6,1h", "\x00", away + ` ""`},
		{"orders.Orders.Create/user", "6,1h", "Gone", away + ` Gone`},
	} {
		client.Del(t.Context(), "rl:overrides")
		if test.has != "" {
			client.HSet(t.Context(), "rl:overrides", strings.Trim(test.has, "\x00"), "5,1h")
		}
		w := i.post("change", fmt.Sprintf(`{"do":"override","limit":%q,"text":%q}`, test.limit, test.text))
		body := strings.TrimSpace(w.Body.String())
		if w.Code != 400 || !strings.HasPrefix(body, "dashboard: nothing is changed: ") || !strings.HasSuffix(body, test.want) {
			t.Errorf("override of %s by %s beside %q = %d %s, want 400 and %q at its end", test.limit, test.text, test.has, w.Code, body, test.want)
		}
		for _, hint := range []string{bucket, away} {
			if strings.Contains(body, hint) != (strings.Contains(test.want, hint)) {
				t.Errorf("override of %s by %s beside %q = %s, want %q alone", test.limit, test.text, test.has, body, test.want)
			}
		}
	}
}

// However long a text is, the log, the page and its answers have the beginning, and how much more there is.
func TestLongTexts(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client(t)
	i := newShared(t, client, dashboard.WithWrites())
	watch(t, i, client)
	const n = 45_000
	blanks, junk := "20,1h"+strings.Repeat(" ", n)+"mode=shadow", strings.Repeat("x", n)
	if err := redisoverride.Set(t.Context(), client, "orders.Orders.Create/user", blanks); err != nil {
		t.Fatal(err)
	}
	page := i.watch()
	page.until("the override is shown", func() bool { return len(page.limits.Limits) > 0 && page.limits.Limits[0].Override != "" })
	if got := page.limits.Limits[0].Override; len(got) > 1100 || !strings.HasSuffix(got, " bytes more)") {
		t.Errorf("the page has %d bytes of the override, want 1100 at most, and how many more there are", len(got))
	}
	for text, want := range map[string]string{junk: " bytes more)", "21,1h" + strings.Repeat(" ", n) + "mode=shadow": `by \"21,1h mode=shadow\"`} { // spaces hide nothing
		w := i.post("change", fmt.Sprintf(`{"do":"override","limit":"orders.Orders.Create/user","text":%q}`, text))
		if body := w.Body.String(); len(body) > 5000 || !strings.Contains(body, want) {
			t.Errorf("override by %d bytes is answered by %d, want %s: %.5000s", len(text), len(body), want, body)
		}
	}
	if err := redisoverride.Set(t.Context(), client, "orders.Orders.Create/user", junk); err != nil {
		t.Fatal(err)
	}
	page.until("the override is refused", func() bool { return page.latest.Overrides.Refused != "" })
	if got := page.latest.Overrides.Refused; len(got) > 5000 {
		t.Errorf("the page has %d bytes of what is wrong with overrides, want 5000 at most", len(got))
	}
	for line := range strings.Lines(i.log.String()) {
		if len(line) > 6000 {
			t.Errorf("a line of the log has %d bytes: %.200s", len(line), line)
		}
	}
}

// What the page sets and takes away is judged together with the file that the program heeds beside the hash.
func TestOverrideBesideAFile(t *testing.T) {
	t.Parallel() // it waits, mostly
	client := redistest.Start(t).Client(t)
	i := newShared(t, client, dashboard.WithWrites())
	for _, method := range []string{"One", "Two"} {
		d, err := rules.Parse("//ratelimit:user 3,1h bucket=pool name=" + method)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := i.limiter.Prepare(&rules.Policy{Package: "shop/pool", Type: "pool.Pool", Method: method, Limits: []rules.Limit{d.Limit}}); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(t.TempDir(), "limits.yaml")
	if err := os.WriteFile(file, []byte("limits:\n  One: 5,1h\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := redisoverride.Set(t.Context(), client, "pool.Pool.Two", "5,1h"); err != nil {
		t.Fatal(err)
	}
	heed(t, i, override.File(file), redisoverride.New(client))
	i.change(`{"do":"override","limit":"pool.Pool.Two","text":"5,1h mode=shadow"}`)
	for _, text := range []string{"", "4,1h"} {
		w := i.post("change", fmt.Sprintf(`{"do":"override","limit":"pool.Pool.Two","text":%q}`, text))
		if w.Code != 400 || !strings.Contains(w.Body.String(), "nothing is changed") {
			t.Errorf("override by %q of a limit whose bucket the file has changed = %d %s, want 400, and nothing changed", text, w.Code, w.Body)
		}
	}
	if text := client.HGet(t.Context(), "rl:overrides", "pool.Pool.Two").Val(); text != "5,1h mode=shadow" {
		t.Errorf("the hash has %q, want what was set", text)
	}
}

// Limits are shown as they are written, where, and as they are now.
func TestLimitsAreShown(t *testing.T) {
	t.Parallel() // it waits, mostly
	server := redistest.Start(t)
	client := server.Client(t)
	i := newShared(t, client, dashboard.WithWrites(), dashboard.WithSource([]byte(`[{"file":"orders.go","line":7,"type":"orders.Orders","method":"Create","limits":[{"name":"Create/user"},{"name":"Create/global","file":"orders.go","line":3}]}]`)))
	watch(t, i, client)
	page := i.watch()
	i.change(`{"do":"override","limit":"orders.Orders.Create/user","text":"20,1h"}`)
	page.until("the override is shown", func() bool { return len(page.limits.Limits) == 5 && page.limits.Limits[0].Override != "" })
	for n, want := range []struct{ id, at, directive, now, mode string }{
		{"orders.Orders.Create Create/user", "orders.go:7", "user 3,1h ban=10m after=100", "user 20,1h ban=10m after=100", "enforce"},
		{"orders.Orders.Create Create/global", "orders.go:3", "global 10000,1h", "", "enforce"},
		{"orders.Orders.Find Find/ip/shadow", "", "ip 5,1h mode=shadow", "", "shadow"},
		{"orders.Orders.Login Login", "", "user 3,1h ban=10m after=1", "", "enforce"},
		{"orders.Orders.Ship Ship", "", "concurrency 4 per=user", "", "enforce"},
	} {
		if got := page.limits.Limits[n]; got.ID != want.id || got.At != want.at || got.Directive != want.directive || got.Now != want.now || got.Mode != want.mode {
			t.Errorf("limit %d is %+v, want %+v", n, got, want)
		}
	}
	if first := page.limits.Limits[0]; first.From != "rl:overrides" || page.latest.Overrides.Count > 1 {
		t.Errorf("the override is %+v of %d, want one of rl:overrides", first, page.latest.Overrides.Count)
	}
}

// Ids are hashed unless the team says otherwise; in the clear they are text, whatever they are.
func TestIDs(t *testing.T) {
	const hostile = "<script>alert(1)</script>"
	for name, test := range map[string]struct {
		opts []dashboard.Option
		want string
	}{
		"hashed": {nil, `^user #[0-9a-f]{16}$`},
		"keyed":  {[]dashboard.Option{dashboard.WithSecret([]byte("0123456789abcdef"))}, `^user #[0-9a-f]{16}$`},
		"clear":  {[]dashboard.Option{dashboard.WithClearIDs()}, `^user ` + regexp.QuoteMeta(hostile) + `$`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				i := newLocal(t, test.opts...)
				p := over(t, &http.Server{Handler: i.board})
				resp := p.open(t)
				page := newReader(t, resp)
				i.calls(4, "Create", hostile)
				page.until("it is listed", func() bool { return len(page.latest.Denied) == 1 })
				if got := page.latest.Denied[0].ID; !regexp.MustCompile(test.want).MatchString(got) {
					t.Errorf("the id is shown as %q, want %s", got, test.want)
				}
				if strings.Contains(page.lines.Text(), "<script>") {
					t.Errorf("the stream has the id as markup: %s", page.lines.Text())
				}
			})
		})
	}
}
