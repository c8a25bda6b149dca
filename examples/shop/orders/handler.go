package orders

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"github.com/rlgen/rlgen/ratelimit/httplimit"
)

// Handler serves svc over HTTP:
//
//	POST   /orders                      {"item": "tea"}
//	GET    /orders/{id}
//	DELETE /orders/{id}
//	GET    /orders?item=tea&pages=2
//
// Who is calling is in the requests' contexts already.
func Handler(svc Orders) http.Handler {
	h := handler{svc}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders", h.create)
	mux.HandleFunc("GET /orders", h.search)
	mux.HandleFunc("GET /orders/{id}", h.get)
	mux.HandleFunc("DELETE /orders/{id}", h.cancel)
	return mux
}

type handler struct{ svc Orders }

func (h handler) create(w http.ResponseWriter, r *http.Request) {
	var req CreateRequest
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16)).Decode(&req); err != nil || req.Item == "" {
		http.Error(w, `want {"item": "…"}`, http.StatusBadRequest)
		return
	}
	order, err := h.svc.Create(r.Context(), &req)
	answer(w, r, http.StatusCreated, order, err)
}

func (h handler) get(w http.ResponseWriter, r *http.Request) {
	order, err := h.svc.Get(r.Context(), r.PathValue("id"))
	answer(w, r, http.StatusOK, order, err)
}

func (h handler) search(w http.ResponseWriter, r *http.Request) {
	pages := 1
	if text := r.FormValue("pages"); text != "" {
		var err error
		if pages, err = strconv.Atoi(text); err != nil || pages < 1 {
			http.Error(w, "pages: want 1 or more", http.StatusBadRequest)
			return
		}
	}
	found, err := h.svc.Search(r.Context(), r.FormValue("item"), pages)
	answer(w, r, http.StatusOK, found, err)
}

func (h handler) cancel(w http.ResponseWriter, r *http.Request) {
	err := h.svc.Cancel(r.Context(), r.PathValue("id"))
	answer(w, r, http.StatusOK, struct{}{}, err)
}

// answer answers with result, or with what err means.
func answer(w http.ResponseWriter, r *http.Request, status int, result any, err error) {
	switch {
	case httplimit.WriteError(w, r, err): // denied, no identity, or no decision
	case errors.Is(err, ErrNotFound):
		http.Error(w, err.Error(), http.StatusNotFound)
	case err != nil:
		http.Error(w, "internal error", http.StatusInternalServerError)
	default:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		json.NewEncoder(w).Encode(result) // an error here is the connection's
	}
}
