package main

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
)

// lab is where everything is measured: one server, and one client for each who asks.
type lab struct {
	testing.TB
	server   *redistest.Server
	admin    *redis.Client
	three    *redistest.Cluster // nil as long as nobody asks it
	cleanups []func()
}

// newLab starts the server. The lab is a [testing.TB] for those who need one, and ends the program where that fails.
func newLab() *lab { return &lab{} }

func (l *lab) redis() *redistest.Server {
	if l.server == nil {
		l.server = redistest.Start(l)
		l.admin = l.server.Client(l)
	}
	return l.server
}

// client is a client as programs have it: with the options that go-redis has by default, but that it heeds contexts, as the
// documentation of redisstore advises.
func (l *lab) client() *redis.Client {
	return l.redis().Client(l, func(o *redis.Options) { o.ContextTimeoutEnabled = true })
}

// clean leaves nothing of what was measured before.
func (l *lab) clean() {
	if l.admin != nil {
		l.admin.FlushAll(context.Background())
	}
	if l.three != nil {
		for _, master := range l.three.Masters {
			admin := redis.NewClient(&redis.Options{Addr: master.Addr()})
			admin.FlushAll(context.Background())
			admin.Close()
		}
	}
}

func (l *lab) close() {
	for i := len(l.cleanups) - 1; i >= 0; i-- {
		l.cleanups[i]()
	}
	l.cleanups = nil
}

func (l *lab) Helper()          {}
func (l *lab) Cleanup(f func()) { l.cleanups = append(l.cleanups, f) }
func (l *lab) Fatal(args ...any) {
	fmt.Fprintln(os.Stderr, append([]any{"bench:"}, args...)...)
	l.close()
	os.Exit(1)
}
func (l *lab) Fatalf(format string, args ...any) { l.Fatal(fmt.Sprintf(format, args...)) }
func (l *lab) Skipf(format string, args ...any)  { l.Fatalf(format, args...) }
