package main

import (
	"context"
	_ "embed"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/fx"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/dashboard"
)

//go:generate sh -c "go tool rlgen list -json ./... >directives.json"

//go:embed directives.json
var directives []byte // where the page says that directives stand

// debug serves what is for the team alone, at an address that the world does not reach: the page of the limits, and net/http/pprof. Neither asks who is there; both answer under
// hosts that are their own alone.
type debug struct {
	server *http.Server
	board  *dashboard.Dashboard
	log    *slog.Logger
	ran    sync.WaitGroup
	stop   context.CancelFunc
}

// seen has the limiter tell the page of its decisions.
type seen struct {
	fx.Out

	Page  *dashboard.Observer
	Limit ratelimit.Observer `group:"ratelimit.observers"`
}

func newSeen() seen {
	o := dashboard.NewObserver()
	return seen{Page: o, Limit: o}
}

type debugIn struct {
	fx.In

	Lifecycle fx.Lifecycle
	Config    config
	Limiter   *ratelimit.Limiter
	Seen      *dashboard.Observer
	Client    redis.UniversalClient `optional:"true"` // by which the page of each instance shows all of them
	Log       *slog.Logger
}

func newDebug(in debugIn) (*debug, error) {
	opts := []dashboard.Option{dashboard.WithService("shop"), dashboard.WithSource(directives), dashboard.WithLogger(in.Log), dashboard.WithWrites()}
	if name, _, _ := net.SplitHostPort(in.Config.debugAddr); name != "" {
		opts = append(opts, dashboard.WithHosts(name))
	}
	if in.Client != nil {
		opts = append(opts, dashboard.WithRedis(in.Client), dashboard.WithOverridesKey(hash))
	}
	board, err := dashboard.New(in.Limiter, in.Seen, opts...)
	if err != nil {
		return nil, err
	}
	d := &debug{board: board, log: in.Log}
	d.server = &http.Server{Handler: onlyOwnHost(in.Config.debugAddr, d.routes()), ReadHeaderTimeout: 5 * time.Second}
	d.server.RegisterOnShutdown(board.Close)
	in.Lifecycle.Append(fx.StartStopHook(func(ctx context.Context) error { return d.start(ctx, in.Config.debugAddr) }, d.end))
	return d, nil
}

func (d *debug) routes() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/debug/ratelimit/", d.board)
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}

func (d *debug) start(ctx context.Context, addr string) error {
	running, stop := context.WithCancel(context.Background())
	d.stop = stop
	d.ran.Go(func() { _ = d.board.Run(running) })
	if addr == "" {
		return nil
	}
	at, err := listen(ctx, d.server, addr, d.log)
	if err != nil {
		return fmt.Errorf("-debug: %w", err)
	}
	d.log.Info("serving", "limits", "http://"+at+"/debug/ratelimit/")
	return nil
}

func (d *debug) end(ctx context.Context) error {
	err := d.server.Shutdown(ctx)
	d.stop()
	d.ran.Wait()
	return err
}

// ownHost says whether a request's Host is one that leads here alone: an address, localhost, or the name in the address that is served on.
func ownHost(host, addr string) bool {
	name := host
	if before, _, err := net.SplitHostPort(host); err == nil {
		name = before
	}
	if _, err := netip.ParseAddr(strings.Trim(name, "[]")); err == nil || strings.EqualFold(name, "localhost") {
		return true
	}
	own, _, _ := net.SplitHostPort(addr)
	return name != "" && strings.EqualFold(name, own)
}

// onlyOwnHost refuses what asks for other hosts: pages elsewhere can have their names lead here, from the browser of whoever gets to the port (DNS rebinding).
func onlyOwnHost(addr string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !ownHost(r.Host, addr) {
			http.Error(w, fmt.Sprintf("found host %q, want an address, localhost or the name in -debug", r.Host), http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}
