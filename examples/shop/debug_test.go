package main

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"
)

var limitsAt = regexp.MustCompile(`limits=(http://\S+)`)

// tick is what the page is told each second, as far as this test asks.
type tick struct {
	Fleet     struct{ Scope string }
	Instances []struct{ Name string }
	Denied    []struct {
		Limit string
		Count int64
	}
}

// board opens the page's stream at url, and returns a func that waits for a tick.
func board(t *testing.T, client *http.Client, url string) (await func(what string, is func(tick) bool)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"events", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<22)
	return func(what string, is func(tick) bool) {
		t.Helper()
		event := ""
		for lines.Scan() {
			if name, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
				event = name
			}
			data, ok := strings.CutPrefix(lines.Text(), "data: ")
			var now tick
			if !ok || event != "tick" || json.Unmarshal([]byte(data), &now) != nil {
				continue
			}
			if is(now) {
				return
			}
		}
		t.Fatalf("the page ended before %s: %v", what, lines.Err())
	}
}

// Whoever is denied is on the team's page, where it says in which line the limit stands; what the page changes holds for the next order.
func TestTeamsPage(t *testing.T) {
	shop := start(t, config{debugAddr: "127.0.0.1:0"}, counts(""))
	found := limitsAt.FindStringSubmatch(shop.log.String())
	if found == nil {
		t.Fatalf("the log does not say where the page is:\n%s", shop.log)
	}
	for status := 0; status != http.StatusTooManyRequests; {
		status, _ = shop.order("alice")
	}
	await := board(t, shop.client, found[1])
	await("alice is on it", func(now tick) bool {
		return now.Fleet.Scope == "fleet" && len(now.Instances) == 1 && len(now.Denied) > 0 && now.Denied[0].Limit == "orders.Orders.Create Create/user"
	})
	resp, err := shop.client.Post(found[1]+"change", "application/json", strings.NewReader(`{"do":"override","limit":"orders.Orders.Create/user","text":"500,10s"}`))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if status, _ := shop.order("alice"); resp.StatusCode != http.StatusOK || status != http.StatusCreated {
		t.Errorf("the override is answered with %d, and the order behind it with %d, want 200 and 201", resp.StatusCode, status)
	}
	resp, err = shop.client.Get(strings.TrimSuffix(found[1], "ratelimit/") + "pprof/")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("pprof is answered with %d, want 200", resp.StatusCode)
	}
	if resp, _ := shop.ask("GET", "/debug/ratelimit/", "", nil); resp.StatusCode == http.StatusOK {
		t.Error("the page is on the port of the world, want it on its own alone")
	}
}

// A page of another name that leads to the port gets nothing there, and changes nothing: who has it open may be of the team.
func TestTeamsPageHost(t *testing.T) {
	shop := start(t, config{debugAddr: "127.0.0.1:0"}, counts(""))
	url := limitsAt.FindStringSubmatch(shop.log.String())[1]
	ask := func(method, url, host string) int {
		t.Helper()
		req, err := http.NewRequest(method, url, strings.NewReader(`{"do":"override","limit":"orders.Orders.Create/user","text":"off"}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Origin", "http://"+host)
		resp, err := shop.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	for _, path := range []string{"", "limits", "change", "../pprof/"} {
		if got := ask("POST", url+path, "rebound.example:8082"); got != http.StatusMisdirectedRequest {
			t.Errorf("%q is answered with %d under another name, want 421", path, got)
		}
	}
	for range 3 {
		shop.order("alice")
	}
	if status, _ := shop.order("alice"); status != http.StatusTooManyRequests {
		t.Errorf("the fourth order is answered with %d, want 429: the limit is as it was", status)
	}
	for _, host := range []string{"localhost:8082", "LOCALHOST", "[::1]:8082", "[::1]", "10.1.2.3"} {
		if got := ask("GET", url, host); got != http.StatusOK {
			t.Errorf("the page is answered with %d under %s, want 200", got, host)
		}
	}
}

// The page is for its own name, where the address to serve it on has one.
func TestOwnHost(t *testing.T) {
	for _, test := range []struct {
		host, addr string
		want       bool
	}{
		{"debug.internal", "debug.internal:8082", true},
		{"Debug.Internal:80", "debug.internal:8082", true},
		{"debug.internal.rebound.example", "debug.internal:8082", false},
		{"localhost.rebound.example", "localhost:8082", false},
		{"127.0.0.1.rebound.example:8082", "127.0.0.1:8082", false},
		{"", ":8082", false},
		{":8082", ":8082", false},
	} {
		if got := ownHost(test.host, test.addr); got != test.want {
			t.Errorf("ownHost(%q, %q) = %v, want %v", test.host, test.addr, got, test.want)
		}
	}
}
