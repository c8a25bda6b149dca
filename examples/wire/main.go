// Command wire serves orders behind limits, wired by google/wire.
//
//	REDIS_URL=redis://127.0.0.1:6379 go run ./examples/wire
//	curl -i -X POST -H 'X-User: alice' http://127.0.0.1:8080/orders/tea
//
// Without REDIS_URL it counts in a Redis of its own. wire.go says what is wired; go tool wire made wire_gen.go of it.
package main

import (
	"errors"
	"flag"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/embedded"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:8080", "address to serve on")
	flag.Parse()
	if err := serve(*addr, os.Getenv("REDIS_URL")); err != nil {
		log.Fatal(err)
	}
}

func serve(addr, redisURL string) error {
	client, closeClient, err := connect(redisURL)
	if err != nil {
		return err
	}
	defer closeClient()
	handler, closeLimiter, err := newHandler(client)
	if err != nil {
		return err
	}
	defer closeLimiter()
	server := &http.Server{Addr: addr, Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	log.Printf("serving on http://%s", addr)
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// connect returns a client of the Redis at url, else of one in this process, and what closes it.
func connect(url string) (redis.UniversalClient, func(), error) {
	if url == "" {
		server, err := embedded.Start()
		if err != nil {
			return nil, nil, err
		}
		return server.Client(), func() { server.Close() }, nil
	}
	opts, err := redis.ParseURL(url)
	if err != nil {
		return nil, nil, errors.New("REDIS_URL is not the URL of a Redis, want redis://host:port or redis://user:password@host:port/db")
	}
	client := redis.NewClient(opts)
	return client, func() { client.Close() }, nil
}
