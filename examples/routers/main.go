// Command routers serves limited orders by net/http, chi, gin or echo, and by each of them in the same words.
//
//	go run . -router gin
//	curl -i -X POST -H 'Authorization: Bearer alice-secret' http://127.0.0.1:8080/orders/tea
//
// What is limited, and how, stands over the methods of the service: see examples/quickstart/shop. The routers bring who is
// calling to the service, and bring what the limits say back to the client.
package main

import (
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/rlgen/rlgen/examples/quickstart/shop"
	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/memstore"
)

var routers = map[string]func(shop.Orders) http.Handler{
	"net/http": withNetHTTP,
	"chi":      withChi,
	"gin":      withGin,
	"echo":     withEcho,
}

func main() {
	addr := flag.String("addr", "127.0.0.1:8080", "address to serve on")
	name := flag.String("router", "net/http", "router to serve by: "+strings.Join(slices.Sorted(maps.Keys(routers)), ", "))
	flag.Parse()
	if err := serve(*addr, *name); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(addr, name string) error {
	router, ok := routers[name]
	if !ok {
		return fmt.Errorf("routers: no router %q, want one of %s", name, strings.Join(slices.Sorted(maps.Keys(routers)), ", "))
	}
	limiter, err := ratelimit.New(memstore.New())
	if err != nil {
		return err
	}
	server := &http.Server{
		Addr:              addr,
		Handler:           router(shop.NewRateLimitedOrders(new(shop.Service), limiter)),
		ReadHeaderTimeout: 5 * time.Second,
	}
	slog.Info("serving", "url", "http://"+addr, "router", name)
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
