package accounts

import (
	"errors"
	"net/http"

	"github.com/rlgen/rlgen/ratelimit/httplimit"
)

// Handler serves POST /login, with the name and the password as a form. It makes no session of a login: what does is not the shop's matter.
func Handler(svc Accounts) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, 1<<12)
		err := svc.Login(r.Context(), r.PostFormValue("name"), r.PostFormValue("password"))
		switch {
		case httplimit.WriteError(w, r, err): // denied, or no decision
		case errors.Is(err, ErrLogin):
			http.Error(w, err.Error(), http.StatusUnauthorized)
		case err != nil:
			http.Error(w, "internal error", http.StatusInternalServerError)
		default:
			w.WriteHeader(http.StatusNoContent)
		}
	})
}
