package main

import (
	"encoding/json"
	"net/http"

	"github.com/rlgen/rlgen/examples/quickstart/shop"
	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/httplimit"
)

// withNetHTTP serves svc by net/http alone.
func withNetHTTP(svc shop.Orders) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders/{item}", func(w http.ResponseWriter, r *http.Request) {
		id, err := svc.Create(r.Context(), r.PathValue("item"))
		answer(w, r, http.StatusCreated, map[string]any{"id": id}, err)
	})
	mux.HandleFunc("GET /orders", func(w http.ResponseWriter, r *http.Request) {
		n, err := svc.Count(r.Context())
		answer(w, r, http.StatusOK, map[string]any{"orders": n}, err)
	})
	return httplimit.Headers()(identify(authenticate(mux)))
}

// authenticate puts the user into the request's context. It turns nobody away: what a caller without a user may do is up to
// the limits of the method, by their missing=.
func authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(ratelimit.WithUser(r.Context(), caller(r))))
	})
}

// answer answers with result, or with what err means.
func answer(w http.ResponseWriter, r *http.Request, status int, result any, err error) {
	switch {
	case httplimit.WriteError(w, r, err): // denied, nobody, or no decision
	case err != nil:
		http.Error(w, "internal error", http.StatusInternalServerError)
	default:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		json.NewEncoder(w).Encode(result) // an error here is the connection's
	}
}
