package main

import (
	"fmt"
	"net/http"
	"net/url"
	"testing"
	"time"
)

// Of two customers with different plans each has the searches of his own, and somebody without a name those of his address.
func TestPlans(t *testing.T) {
	_, counted := clocked()
	shop := start(t, config{}, counted)
	left := func(user string) map[string]map[string]int64 {
		resp, _ := shop.ask("GET", "/orders?item=tea&pages=2", "", by(user))
		if resp.StatusCode != http.StatusOK {
			t.Errorf("a search of %q: status %d, want 200", user, resp.StatusCode)
		}
		return list(t, resp, "RateLimit")
	}
	for user, want := range map[string]int64{"alice": 18, "paula": 198, "somebody new": 18} {
		found := left(user)
		delete(found, "Search/ip")
		if len(found) != 1 {
			t.Errorf("%s has %v left, want what one plan has", user, found)
		}
		for name, of := range found {
			if of["r"] != want {
				t.Errorf("%s has %d left of %s, want %d", user, of["r"], name, want)
			}
		}
	}
	if found := left(""); len(found) != 1 || found["Search/ip"]["r"] != 300-4*2 {
		t.Errorf("nobody has %v left, want 292 of Search/ip alone", found)
	}
	for range 9 {
		left("alice")
	}
	if resp, _ := shop.ask("GET", "/orders?item=tea&pages=2", "", by("alice")); resp.StatusCode != http.StatusTooManyRequests {
		t.Errorf("page 21 of a minute, on the free plan: status %d, want 429", resp.StatusCode)
	}
	left("paula")
}

// login tries a password.
func (r *running) login(name, password string) *http.Response {
	r.t.Helper()
	form := url.Values{"name": {name}, "password": {password}}
	resp, _ := r.ask("POST", "/login", form.Encode(), http.Header{"Content-Type": {"application/x-www-form-urlencoded"}})
	return resp
}

// Five logins may fail within 15 minutes from one address, whatever the names are; those that succeed are not counted.
func TestLogin(t *testing.T) {
	clock, counted := clocked()
	shop := start(t, config{}, counted)
	want := func(what string, resp *http.Response, status int, retryAfter string) {
		t.Helper()
		if got := resp.Header.Get("Retry-After"); resp.StatusCode != status || got != retryAfter {
			t.Errorf("%s: status %d, Retry-After %q, want %d and %q", what, resp.StatusCode, got, status, retryAfter)
		}
	}
	for i := range 5 {
		for range 3 {
			want("the right password", shop.login("alice", "wonderland"), http.StatusNoContent, "")
		}
		failed := shop.login(fmt.Sprint("name", i), "guess")
		want("a guess", failed, http.StatusUnauthorized, "")
		if failed.Header.Get("RateLimit") != "" {
			t.Errorf("a guess is told what is left: %q", failed.Header.Get("RateLimit"))
		}
		clock.Advance(time.Minute)
	}
	want("after five guesses", shop.login("alice", "guess"), http.StatusTooManyRequests, "600")
	want("after five guesses, the right password", shop.login("alice", "wonderland"), http.StatusTooManyRequests, "600")
	clock.Advance(10 * time.Minute)
	want("15 minutes after the first guess", shop.login("alice", "wonderland"), http.StatusNoContent, "")
	want("15 minutes after the first guess", shop.login("alice", "guess"), http.StatusUnauthorized, "")
	want("and again five", shop.login("alice", "guess"), http.StatusTooManyRequests, "60")
}
