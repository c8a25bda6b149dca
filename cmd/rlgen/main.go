// Command rlgen generates wrappers that hold the rate limits of directives in doc comments:
//
//	//go:generate go tool rlgen
//
//	type Orders interface {
//		// Create places one order.
//		//
//		//ratelimit:user 10,1s 100,1m
//		Create(ctx context.Context, req *CreateRequest) (*Order, error)
//	}
//
// Usage:
//
//	rlgen [flags] [packages]        generate (default: the package in this directory)
//	rlgen check [-diff] [packages]  findings and stale files; writes nothing
//	rlgen vet [-fix] [packages]     the findings of one platform by go vet, which caches them, and mends
//	rlgen list [packages]           every limited method, its limits, keys and memory; -json, -markdown
//	rlgen help <topic>
//	rlgen version
//
// It exits with 0 if all is in order, 1 if there are findings or stale files, and 2 if it is called wrongly. Findings go to
// standard error, one per line, file:line:col: message; paths are seen from the working directory.
package main

import (
	"context"
	"os"
	"os/signal"

	"github.com/rlgen/rlgen/gen"
)

func main() {
	if isTool(os.Args[1:]) {
		gen.Tool()
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	c := &command{stdout: os.Stdout, stderr: os.Stderr}
	code := c.run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}
