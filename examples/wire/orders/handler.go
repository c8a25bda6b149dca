package orders

import (
	"fmt"
	"net/http"

	"github.com/rlgen/rlgen/ratelimit/httplimit"
)

// Handler serves svc at POST /orders/{item}. The user is whom the header X-User names, so that the example can be tried with curl; a real
// service takes the user from what it has authenticated.
func Handler(svc Orders) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders/{item}", func(w http.ResponseWriter, r *http.Request) {
		id, err := svc.Create(r.Context(), r.PathValue("item"))
		switch {
		case httplimit.WriteError(w, r, err): // denied, no identity, or no decision
		case err != nil:
			http.Error(w, "internal error", http.StatusInternalServerError)
		default:
			w.WriteHeader(http.StatusCreated)
			fmt.Fprintln(w, id)
		}
	})
	user := func(r *http.Request) string { return r.Header.Get("X-User") }
	return httplimit.Identify(httplimit.WithUserFunc(user))(mux)
}
