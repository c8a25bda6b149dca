package main

import (
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/rlgen/rlgen/examples/quickstart/shop"
	"github.com/rlgen/rlgen/ratelimit/httplimit"
)

// withChi serves svc by chi, whose middlewares are net/http's.
func withChi(svc shop.Orders) http.Handler {
	r := chi.NewRouter()
	r.Use(httplimit.Headers(), identify, authenticate) // and not middleware.RealIP: see identify
	r.Post("/orders/{item}", func(w http.ResponseWriter, r *http.Request) {
		id, err := svc.Create(r.Context(), chi.URLParam(r, "item"))
		answer(w, r, http.StatusCreated, map[string]any{"id": id}, err)
	})
	r.Get("/orders", func(w http.ResponseWriter, r *http.Request) {
		n, err := svc.Count(r.Context())
		answer(w, r, http.StatusOK, map[string]any{"orders": n}, err)
	})
	return r
}
