// Command shop serves orders over HTTP and gRPC, each method behind its limits, wired by fx. It is the example to copy from:
//
//	orders/     a service, its limits, and its handlers for HTTP and gRPC
//	accounts/   a login, of which only the failures count
//	caller.go   who is calling: address, user and plan
//	counts.go   where the calls are counted
//	web.go      the HTTP server
//	rpc.go      the gRPC server
//	metrics.go  what Prometheus is told, and the log
//	debug.go    the page of the limits, and pprof, for the team alone
//	limits.yaml limits that are changed while the program runs
//
// Try it:
//
//	go run ./examples/shop -overrides examples/shop/limits.yaml
//	curl -i -H 'X-User: alice' -d '{"item":"tea"}' http://127.0.0.1:8080/orders
//	curl -i -d 'name=alice' -d 'password=guess' http://127.0.0.1:8080/login
//	curl http://127.0.0.1:8080/metrics
//
// and look at http://127.0.0.1:8082/debug/ratelimit/ meanwhile.
//
// The fourth order of one user within ten seconds is answered with 429 and Retry-After, and so is the sixth wrong password within 15 minutes. It counts
// in a Redis of its own; with REDIS_URL, such as redis://127.0.0.1:6379, in the one there. Package redisurl has the forms for TLS, Sentinel and Cluster.
package main

import (
	"flag"
	"log/slog"
	"os"

	"go.uber.org/fx"
	"go.uber.org/fx/fxevent"

	"github.com/rlgen/rlgen/examples/shop/accounts"
	"github.com/rlgen/rlgen/examples/shop/orders"
	"github.com/rlgen/rlgen/ratelimit/ratelimitfx"
)

// config is what the command line and the environment say.
type config struct {
	addr      string // for HTTP
	grpcAddr  string
	debugAddr string // of the page of the limits; empty for none
	redisURL  string // empty for a Redis of the program's own
	overrides string // a file; empty for none
	proxies   string // networks; empty for none
}

func main() {
	c := config{redisURL: os.Getenv("REDIS_URL")}
	flag.StringVar(&c.addr, "addr", "127.0.0.1:8080", "address to serve HTTP on")
	flag.StringVar(&c.grpcAddr, "grpc", "127.0.0.1:8081", "address to serve gRPC on")
	flag.StringVar(&c.debugAddr, "debug", "127.0.0.1:8082", "address to serve the page of the limits and pprof on, for the team alone; empty for none")
	flag.StringVar(&c.overrides, "overrides", "", "`file` whose limits hold in place of the directives'")
	flag.StringVar(&c.proxies, "proxies", "", "`networks` of the proxies before the shop, such as 10.0.0.0/8,fd00::/8")
	flag.Parse()
	app := fx.New(fx.WithLogger(failures), fx.Supply(slog.Default(), c), counts(c.redisURL), shop(c))
	app.Run() // which exits with 1 where it cannot start
}

// failures has fx log why the program cannot start or stop, and nothing else.
func failures(log *slog.Logger) fxevent.Logger {
	return &failureLog{log}
}

type failureLog struct{ log *slog.Logger }

func (l *failureLog) LogEvent(event fxevent.Event) {
	switch e := event.(type) {
	case *fxevent.Started:
		l.say("the shop cannot start", e.Err)
	case *fxevent.Stopped:
		l.say("the shop cannot stop as it should", e.Err)
	}
}

func (l *failureLog) say(what string, err error) {
	if err != nil {
		l.log.Error(what, "error", err)
	}
}

// shop is the program without what a test has otherwise: the log, the config, and where it counts.
func shop(c config) fx.Option {
	return fx.Options(
		ratelimitfx.Module,
		orders.RateLimitModule,
		accounts.RateLimitModule,
		fx.Provide(orders.NewService, accounts.NewService),
		metrics,
		overrides(c.overrides),
		fx.Provide(newCaller, newWeb, newRPC, newSeen, newDebug),
		fx.Invoke(func(*web, *rpc, *debug) {}),
	)
}
