// Command rlgen generates rate-limiting wrappers from directives in doc comments.
package main

import (
	"context"
	"os"
	"os/signal"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	c := &command{stdout: os.Stdout, stderr: os.Stderr}
	code := c.run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}
