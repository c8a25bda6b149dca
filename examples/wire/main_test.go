package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The handler that wire made serves the limited orders, and no raw ones. In the bubble no time passes while a call is on its way, so
// that none exceeds its budget on a busy machine.
func TestHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer time.Sleep(2 * time.Second) // what the limiter asks beside calls has ended by then
		client, stop, err := connect("")
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		handler, closeLimiter, err := newHandler(client)
		if err != nil {
			t.Fatal(err)
		}
		defer closeLimiter()
		for i, want := range []int{201, 201, 201, 429} {
			req := httptest.NewRequest("POST", "/orders/tea", nil)
			req.Header.Set("X-User", "alice")
			rec := httptest.NewRecorder()
			handler.ServeHTTP(rec, req)
			if rec.Code != want {
				t.Errorf("order %d: status %d, want %d: %s", i+1, rec.Code, want, rec.Body)
			}
			if retry := rec.Header().Get("Retry-After"); (rec.Code == http.StatusTooManyRequests) != (retry != "") {
				t.Errorf("order %d: status %d with Retry-After %q", i+1, rec.Code, retry)
			}
		}
	})
}

func TestConnectRefuses(t *testing.T) {
	if _, _, err := connect("localhost"); err == nil || !strings.Contains(err.Error(), "want redis://host:port") {
		t.Errorf("connect = %v, want an error that says what to write", err)
	}
}
