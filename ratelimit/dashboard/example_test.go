package dashboard_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/dashboard"
	"github.com/rlgen/rlgen/ratelimit/memstore"
)

func Example() {
	seen := dashboard.NewObserver()
	limiter, err := ratelimit.New(memstore.New(), ratelimit.WithObserver(seen))
	if err != nil {
		panic(err)
	}
	board, err := dashboard.New(limiter, seen, dashboard.WithService("shop"))
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go board.Run(ctx) // tells the other instances, where there is a Redis

	debug := http.NewServeMux() // of a port that only the team gets to, beside net/http/pprof
	debug.Handle("/debug/ratelimit/", board)

	w := httptest.NewRecorder()
	debug.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/debug/ratelimit/", nil))
	fmt.Println(w.Code, w.Header().Get("Content-Type"))
	// Output: 200 text/html; charset=utf-8
}
